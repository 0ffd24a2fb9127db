package adapter

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// ollamaLine is one line of an answer: a piece of it, or all of it. Texts are
// as they came, without their quotes. It is good until the next scan.
type ollamaLine struct {
	text, thinking  []byte
	calls, logprobs jsonscan.Value
	created         jsonscan.Value
	prompt, eval    jsonscan.Value
	reason          []byte
	done            bool
}

// readOllamaLine scans a line of an answer.
func readOllamaLine(doc *jsonscan.Document, data []byte) (line ollamaLine, err error) {
	doc.AllowDuplicateKeys = true
	if err := doc.Parse(data); err != nil {
		return line, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	root := doc.Root()
	if err := complaint(root); err != nil {
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
		return line, fmt.Errorf("%w: no message", ErrInvalid)
	}
	return line, line.read(message)
}

// read takes in what the message says.
func (l *ollamaLine) read(message jsonscan.Value) error {
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
			return fmt.Errorf("%w: a message whose %s is something else", ErrInvalid, v.RawKey())
		}
		switch string(v.RawKey()) {
		case "content":
			l.text = innerText(v)
		case "thinking":
			l.thinking = innerText(v)
		case "tool_calls":
			l.calls = v
		}
	}
	return nil
}

// usage returns what the last line reports. A count that is zero is left out,
// and so is that of a prompt that was found in the cache.
func (l *ollamaLine) usage() schema.Usage {
	prompt, ok := tokenCount(l.prompt)
	completion, ok2 := tokenCount(l.eval)
	total := prompt + completion
	if !ok || !ok2 || total == 0 {
		return schema.Usage{}
	}
	return schema.Usage{Prompt: prompt, Completion: completion, Total: total, Known: true}
}

// ollamaAnswer is what all lines of an answer have in common.
type ollamaAnswer struct {
	id    string
	count int // tool calls so far
	inner jsonscan.Document
	// something says that the model said anything.
	something bool
}

func newOllamaAnswer() ollamaAnswer { return ollamaAnswer{id: rand.Text()} }

// head begins a completion or a chunk of one.
func (a *ollamaAnswer) head(dst []byte, object string, created jsonscan.Value, model []byte) []byte {
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
func (a *ollamaAnswer) saw(line *ollamaLine) error {
	generated, _ := tokenCount(line.eval)
	a.something = a.something || len(line.text) > 0 || len(line.thinking) > 0 || generated > 0 ||
		line.calls.Kind() == jsonscan.Array && !line.calls.Empty()
	if line.done && !a.something {
		// Also what Ollama says when it only loaded or unloaded the model.
		return fmt.Errorf("%w: an empty answer", ErrInvalid)
	}
	return nil
}

// finish returns why the answer ended. Ollama has no word for an end in calls.
func (a *ollamaAnswer) finish(reason []byte) string {
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
func (a *ollamaAnswer) appendCalls(dst []byte, calls jsonscan.Value, numbered bool) ([]byte, error) {
	if calls.Kind() != jsonscan.Array {
		return dst, nil
	}
	for call := ollamaInner(&a.inner, calls).First(); call.Kind() != jsonscan.Absent; call = call.Next() {
		function := call.Get("function")
		name := function.Get("name")
		if len(name.Text()) == 0 {
			return nil, fmt.Errorf("%w: a tool call without a name", ErrInvalid)
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
		if dst, err = appendOllamaArguments(dst, function.Get("arguments")); err != nil {
			return nil, err
		}
		dst = append(dst, `}}`...)
		a.count++
	}
	return dst, nil
}

// appendCallID appends the id of a call. One that is missing is made of the
// answer's own, so that no other turn of the conversation has the same.
func (a *ollamaAnswer) appendCallID(dst []byte, id jsonscan.Value) []byte {
	if len(id.Text()) > 0 {
		return append(dst, id.Raw()...)
	}
	dst = append(dst, `"call_`+a.id+`_`...)
	dst = strconv.AppendInt(dst, int64(a.count), 10)
	return append(dst, '"')
}

// appendOllamaArguments appends the arguments of a call as a text of JSON.
func appendOllamaArguments(dst []byte, arguments jsonscan.Value) ([]byte, error) {
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
	return nil, fmt.Errorf("%w: a tool call whose arguments are no object", ErrInvalid)
}

// appendOllamaLogprobs appends the probabilities of a line's tokens, each after
// a comma unless it is the first of the list. What Ollama leaves out when it is
// empty, clients require.
func appendOllamaLogprobs(dst []byte, logprobs jsonscan.Value) []byte {
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

// appendOllamaUsage appends a usage object.
func appendOllamaUsage(dst []byte, u schema.Usage) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.Prompt, 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.Completion, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.Total, 10)
	return append(dst, '}')
}
