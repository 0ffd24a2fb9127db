package ollama

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
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

// readLine scans a line of an answer.
func readLine(doc *jsonscan.Document, data []byte) (line answerLine, err error) {
	doc.AllowDuplicateKeys = true
	if err := doc.Parse(data); err != nil {
		return line, fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := doc.Root()
	if err := dialect.FailureIn(root); err != nil {
		return line, err
	}
	var message jsonscan.Value
	for v := root.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		switch string(v.RawKey()) {
		case "message":
			message = v
		case "created_at":
			line.created = v
		case "done":
			line.done = v.Kind() == jsonscan.True
		case "done_reason":
			line.reason = v.Text()
		case "prompt_eval_count":
			line.prompt = v
		case "eval_count":
			line.eval = v
		case "logprobs":
			line.logprobs = v
		}
	}
	if root.Kind() != jsonscan.Object || message.Kind() != jsonscan.Object && !line.done {
		return line, fmt.Errorf("%w: no message", dialect.ErrInvalid)
	}
	return line, line.read(message)
}

// read takes in what the message says.
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
	// something says that the model said anything.
	something bool
}

func newAnswer() answer { return answer{id: rand.Text()} }

// head begins a completion or a chunk of one.
func (a *answer) head(dst []byte, object string, created jsonscan.Value, model []byte) []byte {
	seconds := time.Now().Unix()
	if at, err := time.Parse(time.RFC3339Nano, string(created.Text())); err == nil && at.Unix() > 0 {
		seconds = at.Unix()
	}
	dst = append(dst, `{"id":"chatcmpl-`+a.id+`","object":"`+object+`","created":`...)
	dst = strconv.AppendInt(dst, seconds, 10)
	dst = append(dst, `,"model":`...)
	dst = append(dst, model...)
	return append(dst, `,"system_fingerprint":null,"choices":[`...)
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

// finish returns why the answer ended. Ollama has no word for an end in calls.
func (a *answer) finish(reason []byte) string {
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

// appendCalls appends the tool calls of a line, each after a comma unless it is
// the first of the list; numbered adds the index that chunks have.
func (a *answer) appendCalls(dst []byte, calls jsonscan.Value, numbered bool) ([]byte, error) {
	if calls.Kind() != jsonscan.Array {
		return dst, nil
	}
	for call := dialect.Rescan(&a.inner, calls).First(); call.Kind() != jsonscan.Absent; call = call.Next() {
		function := call.Get("function")
		name := function.Get("name")
		if len(name.Text()) == 0 {
			return nil, fmt.Errorf("%w: a tool call without a name", dialect.ErrInvalid)
		}
		if len(dst) > 0 && dst[len(dst)-1] == '}' {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		if numbered {
			dst = append(dst, `"index":`...)
			dst = strconv.AppendInt(dst, int64(a.count), 10)
			dst = append(dst, ',')
		}
		dst = append(dst, `"id":`...)
		dst = a.appendCallID(dst, call.Get("id"))
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = append(dst, name.Raw()...)
		dst = append(dst, `,"arguments":`...)
		var err error
		if dst, err = appendArguments(dst, function.Get("arguments")); err != nil {
			return nil, err
		}
		dst = append(dst, `}}`...)
		a.count++
	}
	return dst, nil
}

// appendCallID appends the id of a call. One that is missing is made of the
// answer's own, so that no other turn of the conversation has the same.
func (a *answer) appendCallID(dst []byte, id jsonscan.Value) []byte {
	if len(id.Text()) > 0 {
		return append(dst, id.Raw()...)
	}
	dst = append(dst, `"call_`+a.id+`_`...)
	dst = strconv.AppendInt(dst, int64(a.count), 10)
	return append(dst, '"')
}

// appendArguments appends the arguments of a call as a text of JSON.
func appendArguments(dst []byte, arguments jsonscan.Value) ([]byte, error) {
	switch arguments.Kind() {
	case jsonscan.Absent, jsonscan.Null:
		return append(dst, `"{}"`...), nil
	case jsonscan.String: // some servers that imitate Ollama
		if len(arguments.Text()) == 0 {
			return append(dst, `"{}"`...), nil
		}
		return append(dst, arguments.Raw()...), nil
	case jsonscan.Object:
		return jsontext.AppendQuote(dst, arguments.Raw())
	}
	return nil, fmt.Errorf("%w: a tool call whose arguments are no object", dialect.ErrInvalid)
}

// appendLogprobs appends the probabilities of a line's tokens, each after
// a comma unless it is the first of the list. What Ollama leaves out when it is
// empty, clients require.
func appendLogprobs(dst []byte, logprobs jsonscan.Value) []byte {
	for token := logprobs.First(); token.Kind() == jsonscan.Object; token = token.Next() {
		if len(dst) > 0 && dst[len(dst)-1] == '}' {
			dst = append(dst, ',')
		}
		raw := bytes.TrimRight(token.Raw()[:len(token.Raw())-1], " \t\r\n")
		dst = append(dst, raw...)
		if token.Get("bytes").Kind() == jsonscan.Absent {
			dst = append(dst, `,"bytes":null`...)
		}
		if token.Get("top_logprobs").Kind() == jsonscan.Absent {
			dst = append(dst, `,"top_logprobs":[]`...)
		}
		dst = append(dst, '}')
	}
	return dst
}

// appendUsage appends a usage object.
func appendUsage(dst []byte, u schema.Usage) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.Prompt, 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.Completion, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.Total, 10)
	return append(dst, '}')
}
