package ollama

import (
	"bytes"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Client speaks Ollama's API towards clients.
var Client = &dialect.Client{Reply: replyLine, Events: eventsLines,
	Frame: &dialect.Stream{Filler: []byte(" "), Failure: failureLine}}

// typeLines is the type of a stream of lines.
const typeLines = "application/x-ndjson"

// failureLine returns the line that ends an answer which is not complete.
func failureLine(known *schema.Error, requestID string) []byte {
	return append(Error(known, requestID), '\n')
}

// lineStream returns a stream of lines. Clients read every line as JSON: only a blank in
// front of the next line says nothing.
func lineStream(events dialect.Events, isComplete func() bool) *dialect.Stream {
	return &dialect.Stream{
		Events: events, IsComplete: isComplete, ContentType: typeLines, Filler: []byte(" "), Failure: failureLine,
	}
}

// replyLine writes an answer as one object.
func replyLine(req *schema.Request, answer *chat.Answer, reply *dialect.Reply) error {
	choice := answer.First()
	if choice == nil {
		return dialect.Invalid("no choice")
	}
	l := newLineWriter(req)
	l.Out = reply.Room(answer.Size())
	l.begin()
	text := choice.Text
	if len(text) == 0 {
		text = choice.Refusal
	}
	l.say(text, choice.Thinking, choice.Calls)
	l.end(choice.Finish, &answer.Usage, choice.Logprobs)
	reply.Set(l.Out)
	return nil
}

// lineWriter writes lines.
type lineWriter struct {
	jsonwrite.Writer
	model         []byte // the client's name of it, as JSON
	isGenerated   bool   // the lines belong to a generated text
	hidesThinking bool
	came          time.Time // the request
	firstToken    time.Time // zero while it has not come, and for an answer that came whole
}

// newLineWriter copies the needed parts, because the request may be gone before its answer
// is.
func newLineWriter(req *schema.Request) lineWriter {
	return lineWriter{
		model: bytes.Clone(req.ModelJSON()), isGenerated: req.Door == schema.DoorOllamaGenerate,
		hidesThinking: req.Body.Root().Get("think").Kind() == jsonscan.False, came: req.Came,
	}
}

// begin writes the beginning of a line, behind the earlier ones.
func (l *lineWriter) begin() {
	l.Writer = jsonwrite.Writer{Out: l.Out}
	l.Object()
	l.Member("model", l.model)
	l.Name("created_at").Plain(time.Now().UTC().Format(time.RFC3339Nano))
}

// say writes the words, thoughts and calls of the model.
func (l *lineWriter) say(text, thinking []byte, calls []chat.ToolCall) {
	if l.hidesThinking {
		thinking = nil
	}
	if l.isGenerated {
		l.Name("response").Escaped(text)
		l.EscapedMember("thinking", thinking)
	} else {
		l.Open(`"message":{"role":"assistant","content":`).Escaped(text)
		l.EscapedMember("thinking", thinking)
	}
	if len(calls) > 0 {
		l.Name("tool_calls").Array()
		for i := range calls {
			l.call(&calls[i], i)
		}
		l.EndArray()
	}
	if !l.isGenerated {
		l.EndObject()
	}
}

// call writes a tool call.
func (l *lineWriter) call(call *chat.ToolCall, index int) {
	l.Object()
	l.EscapedMember("id", call.ID)
	l.Open(`"function":{"index":`).Int(int64(index))
	l.EscapedMember("name", call.Name)
	l.Name("arguments")
	call.WriteObject(&l.Writer)
	l.Close("}}")
}

// goOn ends a line that is not the last one.
func (l *lineWriter) goOn(logprobs []byte) {
	l.Literal(`"done":false`)
	l.logprobs(logprobs)
	l.Close("}\n")
}

func (l *lineWriter) logprobs(elements []byte) {
	if len(elements) > 0 {
		l.Name("logprobs").Array()
		l.Raw(elements)
		l.EndArray()
	}
}

// end ends the last line: why the answer ended, how long it took and how many tokens it
// has, as far as that is known.
func (l *lineWriter) end(reason chat.FinishReason, usage *chat.Usage, logprobs []byte) {
	l.Literal(`"done":true`)
	l.Name("done_reason").Plain(doneReason(reason))
	l.logprobs(logprobs)
	now := time.Now()
	l.duration("total_duration", now.Sub(l.came))
	prefill := usage.Prefill
	if prefill == 0 && !l.firstToken.IsZero() {
		prefill = l.firstToken.Sub(l.came)
	}
	if usage.Known {
		l.Name("prompt_eval_count").Int(usage.Prompt)
	}
	l.duration("prompt_eval_duration", prefill)
	if usage.Known {
		l.Name("eval_count").Int(usage.Completion)
	}
	if !l.firstToken.IsZero() {
		l.duration("eval_duration", max(now.Sub(l.firstToken), 1))
	}
	l.EndObject()
}

// duration writes a length of time that is known, in nanoseconds.
func (l *lineWriter) duration(name string, d time.Duration) {
	if d > 0 {
		l.Name(name).Int(int64(d))
	}
}

// doneReason returns why an answer ended. Ollama has no word for an end in calls.
func doneReason(reason chat.FinishReason) string {
	switch reason {
	case chat.Length, chat.ContentFilter:
		return string(reason)
	}
	return "stop"
}

// eventsLines writes deltas as lines.
func eventsLines(req *schema.Request, from dialect.Deltas) *dialect.Stream {
	e := &clientLines{Written: dialect.Written{From: from}, lineWriter: newLineWriter(req)}
	return lineStream(e, e.IsComplete)
}

// clientLines writes the lines of a stream. Ollama tells a call whole, and so the pieces
// of calls are gathered until the answer ends.
type clientLines struct {
	dialect.Written
	lineWriter

	calls    dialect.Calls
	gathered int // the bytes of the calls
	reason   chat.FinishReason
	begun    bool // a line was written
}

// CanResume implements dialect.Resumer.
func (e *clientLines) CanResume() bool { return e.begun && !e.Complete }

// Next returns the line of the next delta.
func (e *clientLines) Next() ([]byte, error) {
	line, err := e.NextFrom(e)
	e.begun = e.begun || err == nil
	return line, err
}

// Restart implements dialect.EventWriter.
func (e *clientLines) Restart() { e.Begin(dialect.Reuse(e.Out), nil) }

// Bytes implements dialect.EventWriter.
func (e *clientLines) Bytes() []byte { return e.Out }

// Add writes the parts of a delta.
func (e *clientLines) Add(delta *chat.Delta) error {
	choice := delta.First()
	if choice == nil {
		return nil
	}
	if !e.Content && choice.HasContent() {
		e.Content, e.firstToken = true, time.Now()
	}
	for i := range choice.Calls {
		if err := e.calls.Add(&choice.Calls[i], &e.gathered); err != nil {
			return err
		}
	}
	if choice.Finish != "" {
		e.reason = choice.Finish
	}
	text, thinking := choice.Text, choice.Thinking
	if len(text) == 0 {
		text = choice.Refusal
	}
	if e.hidesThinking {
		thinking = nil
	}
	if len(text)+len(thinking)+len(choice.Logprobs) == 0 {
		return nil
	}
	e.begin()
	e.say(text, thinking, nil)
	e.goOn(choice.Logprobs)
	return nil
}

// End writes the calls and the last line.
func (e *clientLines) End() {
	if len(e.calls) > 0 {
		for i := range e.calls {
			if call := &e.calls[i]; len(call.ID) == 0 {
				call.ID = strconv.AppendInt([]byte("call_"), int64(i), 10)
			}
		}
		e.begin()
		e.say(nil, nil, e.calls)
		e.goOn(nil)
	}
	usage := e.From.Usage()
	e.begin()
	e.say(nil, nil, nil)
	e.end(e.reason, &usage, nil)
	e.Out = append(e.Out, '\n')
	e.calls = nil
}
