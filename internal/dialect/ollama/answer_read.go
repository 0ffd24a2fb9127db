package ollama

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// answerLine is one line of an answer: a piece of it, or all of it. Texts are
// as they came, without their quotes. It is good until the next scan.
type answerLine struct {
	text, thinking  []byte
	calls, logprobs jsonscan.Value
	created         jsonscan.Value
	prompt, eval    jsonscan.Value
	reason          []byte
	done            bool
}

// scan scans a line of an answer into an answerLine that is empty.
func (l *answerLine) scan(doc *jsonscan.Document, data []byte) error {
	doc.AllowDuplicateKeys = true
	if err := doc.Parse(data); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := doc.Root()
	if err := dialect.FailureIn(root); err != nil {
		return err
	}
	var message, response, thinking jsonscan.Value
	for v := root.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		switch string(v.RawKey()) {
		case "message":
			message = v
		case "response": // of a generated text
			response = v
		case "thinking":
			thinking = v
		case "created_at":
			l.created = v
		case "done":
			l.done = v.Kind() == jsonscan.True
		case "done_reason":
			l.reason = v.Text()
		case "prompt_eval_count":
			l.prompt = v
		case "eval_count":
			l.eval = v
		case "logprobs":
			l.logprobs = v
		}
	}
	switch {
	case root.Kind() == jsonscan.Object && message.Kind() == jsonscan.Absent && response.Kind() == jsonscan.String:
		l.text, l.thinking = dialect.RawText(response), dialect.RawText(thinking)
		return nil
	case root.Kind() != jsonscan.Object || message.Kind() != jsonscan.Object && !l.done:
		return fmt.Errorf("%w: no message", dialect.ErrInvalid)
	}
	return l.read(message)
}

// read reads the message of a line.
func (l *answerLine) read(message jsonscan.Value) error {
	for v := message.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		want := jsonscan.String
		switch string(v.RawKey()) {
		case "content", "thinking":
		case "tool_calls":
			want = jsonscan.Array
		default:
			continue
		}
		if !v.Given() {
			continue
		}
		if v.Kind() != want {
			return fmt.Errorf("%w: a message whose %s is something else", dialect.ErrInvalid, v.RawKey())
		}
		switch string(v.RawKey()) {
		case "content":
			l.text = dialect.RawText(v)
		case "thinking":
			l.thinking = dialect.RawText(v)
		case "tool_calls":
			l.calls = v
		}
	}
	return nil
}

// usage returns what the last line reports. A count that is zero is left out,
// and so is that of a prompt that was found in the cache.
func (l *answerLine) usage() schema.Usage {
	prompt, ok := dialect.TokenCount(l.prompt)
	completion, ok2 := dialect.TokenCount(l.eval)
	total := prompt + completion
	if !ok || !ok2 || total == 0 {
		return schema.Usage{}
	}
	return schema.Usage{Prompt: prompt, Completion: completion, Total: total, Known: true}
}

// answer is what all lines of an answer have in common.
type answer struct {
	id    string
	count int // tool calls so far
	inner jsonscan.Document
	out   dialect.Completion
	// something says that the model said anything.
	something bool
}

func newAnswer() answer { return answer{id: rand.Text()} }

// identify gives the completion or its chunks the time of the first line.
func (a *answer) identify(object string, created jsonscan.Value, model []byte) {
	a.out.Identify(object, []byte(a.id), createdAt(created), model)
}

// createdAt returns the time of a line, in seconds.
func createdAt(created jsonscan.Value) int64 {
	if at, err := time.Parse(time.RFC3339Nano, string(created.Text())); err == nil && at.Unix() > 0 {
		return at.Unix()
	}
	return time.Now().Unix()
}

// saw takes a line into account.
func (a *answer) saw(line *answerLine) error {
	generated, _ := dialect.TokenCount(line.eval)
	a.something = a.something || len(line.text) > 0 || len(line.thinking) > 0 || generated > 0 ||
		line.calls.Kind() == jsonscan.Array && !line.calls.Empty()
	if line.done && !a.something {
		// Also what Ollama says when it only loaded or unloaded the model.
		return fmt.Errorf("%w: an empty answer", dialect.ErrInvalid)
	}
	return nil
}

// finishReason returns why the answer ended. Ollama has no word for an end in calls.
func (a *answer) finishReason(reason []byte) string {
	switch {
	case a.count > 0:
		return "tool_calls"
	case string(reason) == "length":
		return "length"
	case string(reason) == "content_filter":
		return "content_filter"
	}
	return "stop"
}

// writeCalls writes the tool calls of a line; numbered adds the index that chunks
// have.
func (a *answer) writeCalls(w *jsonwrite.Writer, calls jsonscan.Value, numbered bool) error {
	if calls.Kind() != jsonscan.Array {
		return nil
	}
	for call := dialect.Rescan(&a.inner, calls).First(); call.Kind() != jsonscan.Absent; call = call.Next() {
		function := call.Get("function")
		name := function.Get("name")
		if len(name.Text()) == 0 {
			return fmt.Errorf("%w: a tool call without a name", dialect.ErrInvalid)
		}
		index := -1
		if numbered {
			index = a.count
		}
		dialect.BeginCall(w, index, a.callID(call.Get("id")), name.Raw())
		if err := writeArguments(w, function.Get("arguments")); err != nil {
			return err
		}
		dialect.EndCall(w)
		a.count++
	}
	return nil
}

// callID returns the id of a call as JSON. One that is missing is made of the
// answer's own, so that no other turn of the conversation has the same.
func (a *answer) callID(id jsonscan.Value) []byte {
	if len(id.Text()) > 0 {
		return id.Raw()
	}
	return []byte(`"call_` + a.id + "_" + strconv.Itoa(a.count) + `"`)
}

// writeArguments writes the arguments of a call as a text of JSON.
func writeArguments(w *jsonwrite.Writer, arguments jsonscan.Value) error {
	switch kind := arguments.Kind(); {
	case !arguments.Given(), kind == jsonscan.String && len(arguments.Text()) == 0:
		w.Plain("{}")
	case kind == jsonscan.String: // some servers that imitate Ollama
		w.Raw(arguments.Raw())
	case kind == jsonscan.Object:
		w.Text(arguments.Raw())
	default:
		return fmt.Errorf("%w: a tool call whose arguments are no object", dialect.ErrInvalid)
	}
	return nil
}

// writeLogprobs writes the probabilities of a line's tokens. What Ollama leaves out
// when it is empty, clients require.
func writeLogprobs(w *jsonwrite.Writer, logprobs jsonscan.Value) {
	for token := logprobs.First(); token.Kind() == jsonscan.Object; token = token.Next() {
		w.Object()
		for m := token.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
			w.Copy(m)
		}
		if token.Get("bytes").Kind() == jsonscan.Absent {
			w.Member("bytes", []byte("null"))
		}
		if token.Get("top_logprobs").Kind() == jsonscan.Absent {
			w.Member("top_logprobs", []byte("[]"))
		}
		w.EndObject()
	}
}

// unified returns the usage as completions have it; no parts of it are told.
func unified(u schema.Usage) dialect.Usage {
	return dialect.Usage{Usage: u, Cached: -1, Reasoning: -1}
}
