package ollama

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// answerReader reads the lines of an answer. Each is a piece of it, or all of it.
type answerReader struct {
	id    string // part of the ids of calls
	calls int64  // so far
	inner jsonscan.Document
	// something says that the model said anything.
	something bool
	logprobs  jsonwrite.Writer
	// forced says that the text has the form of a call. Of a stream it is gathered until the
	// last line.
	forced bool
	text   []byte
}

// answerLine are the members of a line.
type answerLine struct {
	message, response, thinking, calls, logprobs, created, prompt, prefill, eval jsonscan.Value

	reason []byte
	done   bool // it is the last one
}

// isText reports whether the line is one of a generated text.
func (l *answerLine) isText() bool {
	return l.message.Kind() == jsonscan.Absent && l.response.Kind() == jsonscan.String
}

// add adds the contents of a line to an answer.
func (r *answerReader) add(line *answerLine, to *chat.Answer) error {
	if len(to.Choices) == 0 {
		to.Add(0)
	}
	choice := &to.Choices[0]
	if line.isText() {
		choice.Text = chat.Join(choice.Text, chat.TextOf(line.response))
		choice.Thinking = chat.Join(choice.Thinking, chat.TextOf(line.thinking))
	} else if err := line.readMessage(choice); err != nil {
		return err
	}
	if err := r.readCalls(line.calls, choice); err != nil {
		return err
	}
	if line.logprobs.First().Kind() == jsonscan.Object {
		writeLogprobs(&r.logprobs, line.logprobs)
		choice.Logprobs = r.logprobs.Out
	}
	if r.id == "" {
		r.id = rand.Text()
	}
	if to.Created == 0 {
		to.ID, to.Created = []byte(chat.IDPrefix+r.id), createdAt(line.created)
	}
	if r.forced {
		if err := r.gather(line, choice); err != nil {
			return err
		}
	}
	generated, _ := dialect.TokenCount(line.eval)
	r.something = r.something || len(choice.Text) > 0 || len(choice.Thinking) > 0 || generated > 0 ||
		len(choice.Calls) > 0
	if !line.done {
		return nil
	}
	to.Usage = line.usage()
	if !r.something {
		// Ollama also answers this when it only loaded or unloaded the model.
		return dialect.ErrEmpty
	}
	choice.Finish = r.finishReason(line.reason)
	return nil
}

// scanLine scans a line. It goes through the members once rather than looking them up
// one by one: every line of every stream costs this.
func scanLine(doc *jsonscan.Document, data []byte) (l answerLine, err error) {
	root, err := dialect.Parse(doc, data)
	if err != nil {
		return l, err
	}
	if err := dialect.FailureIn(root); err != nil {
		return l, err
	}
	for v := range root.All() {
		switch string(v.RawKey()) {
		case "message":
			l.message = v
		case "response": // of a generated text
			l.response = v
		case "thinking":
			l.thinking = v
		case "created_at":
			l.created = v
		case "done":
			l.done = v.Kind() == jsonscan.True
		case "done_reason":
			l.reason = v.Text()
		case "prompt_eval_count":
			l.prompt = v
		case "prompt_eval_duration":
			l.prefill = v
		case "eval_count":
			l.eval = v
		case "logprobs":
			l.logprobs = v
		}
	}
	if root.Kind() != jsonscan.Object || !l.isText() && l.message.Kind() != jsonscan.Object && !l.done {
		return l, dialect.Invalid("no message")
	}
	return l, nil
}

// readMessage reads the message of a line.
func (l *answerLine) readMessage(choice *chat.Choice) error {
	for v := range l.message.All() {
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
			choice.Text = chat.Join(choice.Text, chat.TextOf(v))
		case "thinking":
			choice.Thinking = chat.Join(choice.Thinking, chat.TextOf(v))
		case "tool_calls":
			l.calls = v
		}
	}
	return nil
}

// usage returns the report of the last line. A count that is zero is left out, and so
// is the count of a prompt that was found in the cache. No parts are told.
func (l *answerLine) usage() chat.Usage {
	u := chat.Usage{Cached: -1, Reasoning: -1}
	prompt, ok := dialect.TokenCount(l.prompt)
	completion, ok2 := dialect.TokenCount(l.eval)
	if total := prompt + completion; ok && ok2 && total > 0 {
		u.Tokens = schema.Usage{Prompt: prompt, Completion: completion, Total: total, Known: true}
		const most = int64(24 * time.Hour)
		if took, ok := l.prefill.Int(); ok && took > 0 && took < most {
			u.Prefill = time.Duration(took)
		}
	}
	return u
}

// createdAt returns the time of a line, in seconds.
func createdAt(created jsonscan.Value) int64 {
	if at, err := time.Parse(time.RFC3339Nano, string(created.Text())); err == nil && at.Unix() > 0 {
		return at.Unix()
	}
	return time.Now().Unix()
}

// finishReason returns why the answer ended. Ollama has no word for an end in calls.
func (r *answerReader) finishReason(reason []byte) chat.FinishReason {
	switch {
	case r.calls > 0:
		return chat.ToolCalls
	case string(reason) == "length":
		return chat.Length
	case string(reason) == "content_filter":
		return chat.ContentFilter
	}
	return chat.Stop
}

// readCalls reads the tool calls of a line.
func (r *answerReader) readCalls(calls jsonscan.Value, choice *chat.Choice) error {
	if calls.Kind() != jsonscan.Array {
		return nil
	}
	for c := range r.inner.Rescan(calls).All() {
		function := c.Get("function")
		call := chat.ToolCall{Index: r.calls, ID: chat.TextIn(c, "id"), Name: chat.TextIn(function, "name")}
		if len(call.Name) == 0 {
			return dialect.Invalid("a tool call without a name")
		}
		if len(call.ID) == 0 {
			call.ID = r.callID()
		}
		var err error
		if call.Arguments, err = readArguments(function.Get("arguments")); err != nil {
			return err
		}
		choice.Calls = append(choice.Calls, call)
		r.calls++
	}
	return nil
}

// callID returns an id for the next call. It is made of the answer's own: no other turn of
// the conversation has the same.
func (r *answerReader) callID() []byte {
	if r.id == "" {
		r.id = rand.Text()
	}
	return strconv.AppendInt([]byte("call_"+r.id+"_"), r.calls, 10)
}

// readArguments reads the arguments of a call.
func readArguments(arguments jsonscan.Value) ([]byte, error) {
	switch kind := arguments.Kind(); {
	case !arguments.Given(), kind == jsonscan.String && len(chat.TextOf(arguments)) == 0:
		return []byte("{}"), nil
	case kind == jsonscan.String: // some servers that imitate Ollama
		return chat.TextOf(arguments), nil
	case kind == jsonscan.Object:
		return chat.Escape(arguments.Raw()), nil
	}
	return nil, dialect.Invalid("a tool call whose arguments are no object")
}

// writeLogprobs writes the probabilities of a line's tokens. Clients require members
// that Ollama leaves out when they are empty.
func writeLogprobs(w *jsonwrite.Writer, logprobs jsonscan.Value) {
	for token := logprobs.First(); token.Kind() == jsonscan.Object; token = token.Next() {
		w.Object()
		for m := range token.All() {
			w.Copy(m)
		}
		if token.Get("bytes").Kind() == jsonscan.Absent {
			w.Literal(`"bytes":null`)
		}
		if token.Get("top_logprobs").Kind() == jsonscan.Absent {
			w.Literal(`"top_logprobs":[]`)
		}
		w.EndObject()
	}
}

// decode reads an answer, which may be one object or the lines of a stream that ended.
func decode(req *schema.Request, body []byte, doc *jsonscan.Document, to *chat.Answer) error {
	body = bytes.TrimPrefix(body, []byte(jsonscan.ByteOrderMark))
	r := answerReader{forced: isForcedBy(req)}
	line, err := scanLine(doc, body)
	if first, rest := nextLine(body); errors.Is(err, dialect.ErrInvalid) && len(rest) > 0 && isObject(first) {
		for line, err = scanLine(doc, first); err == nil && !line.done && len(rest) > 0; line,
			err = scanLine(doc, first) {
			if err := r.add(&line, to); err != nil {
				return err
			}
			first, rest = nextLine(rest)
		}
	}
	if err != nil {
		return err
	}
	if !line.done {
		return dialect.ErrTruncated
	}
	return r.add(&line, to)
}

// nextLine returns the first line of a body that is not empty, and the rest.
func nextLine(body []byte) (line, rest []byte) {
	body = bytes.TrimLeft(body, " \t\r\n")
	line, rest, _ = bytes.Cut(body, []byte("\n"))
	return bytes.TrimRight(line, " \t\r"), bytes.TrimSpace(rest)
}

// isObject reports whether a line may be an object rather than a piece of one.
func isObject(line []byte) bool {
	return len(line) > 1 && line[0] == '{' && line[len(line)-1] == '}'
}

// decodeStream reads a stream of lines.
func decodeStream(req *schema.Request, body io.Reader) dialect.Deltas {
	return &deltas{answerReader: answerReader{forced: isForcedBy(req)}, lines: dialect.NewNDJSON(body)}
}

// deltas reads the lines of a stream.
type deltas struct {
	answerReader
	lines *dialect.NDJSON
	doc   jsonscan.Document
	delta chat.Delta
	begun bool // a delta was returned

	usage chat.Usage // the report of the last line
	done  bool       // the last line was read
	err   error      // how the stream ended
}

// Usage returns the report of the last line.
func (d *deltas) Usage() chat.Usage { return d.usage }

// Next returns the delta of the next line that says anything.
func (d *deltas) Next() (*chat.Delta, error) {
	for d.err == nil && !d.done {
		// Nothing of a large line is kept while the stream waits.
		d.delta.Reset()
		dialect.DropLarge(&d.doc, &d.inner)
		d.logprobs.Begin(dialect.Reuse(d.logprobs.Out), nil)
		d.err = d.read()
		if choice := d.delta.First(); d.err == nil && d.says(choice) {
			choice.Begins = !d.begun
			if len(choice.Text) == 0 && d.begun {
				choice.Text = nil
			} else if choice.Text == nil {
				choice.Text = []byte{}
			}
			d.begun = true
			return &d.delta, nil
		}
	}
	if d.err == nil {
		d.err = io.EOF
	}
	return nil, d.err
}

// says reports whether a line brings anything.
func (d *deltas) says(c *chat.Choice) bool {
	return d.done || len(c.Text) > 0 || len(c.Thinking) > 0 || len(c.Calls) > 0 || len(c.Logprobs) > 0
}

// read reads the next line.
func (d *deltas) read() error {
	data, err := d.lines.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return dialect.ErrTruncated
		}
		return err
	}
	line, err := scanLine(&d.doc, data)
	if d.lines.Open() && errors.Is(err, dialect.ErrInvalid) {
		return dialect.ErrTruncated // the line was cut off
	}
	if err == nil {
		err = d.add(&line, &d.delta)
	}
	d.done = line.done
	d.usage, d.delta.Usage = d.delta.Usage, chat.Usage{}
	return err
}
