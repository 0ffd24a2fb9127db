package anthropic

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// events turns the events of a message into completion chunks.
type events struct {
	sse          *dialect.SSE
	doc          jsonscan.Document
	model        []byte // the caller's name of the model, as JSON
	includeUsage bool

	usage  TokenCounts
	chunks dialect.Completion
	// tools are the tool calls, which are numbered by themselves, and blocks says which
	// of them an index of a block stands for: blocks are numbered all together.
	tools  []toolCall
	blocks map[int64]int

	// The thinking block that is open, which the caller gets once more as a whole
	// when it ends: it must send it back as it was.
	thinkingAt          int64
	thinking, signature []byte

	begun    bool  // a chunk went out
	finished bool  // a finish_reason went out
	stopped  bool  // nothing more is read
	end      error // what every further call returns
}

// toolCall is a tool call of the stream.
type toolCall struct {
	arguments bool // some were sent
}

// Usage returns what was reported so far.
func (e *events) Usage() schema.Usage { return e.usage.Report() }

// Next returns the next chunk for the caller.
func (e *events) Next() ([]byte, error) {
	for e.end == nil && !e.stopped {
		dialect.DropLarge(&e.doc)
		event, err := e.sse.Next()
		if err != nil {
			e.endOfInput(err)
			break
		}
		chunk, err := e.chunk(event)
		if (e.sse.Cut() || e.finished) && errors.Is(err, dialect.ErrInvalid) {
			e.endOfInput(io.EOF) // the stream ended in the middle of this event, or before it
			break
		}
		if err != nil {
			e.end = err
			break
		}
		if chunk != nil {
			e.begun = true
			return chunk, nil
		}
	}
	if e.end != nil {
		return nil, e.end
	}
	e.end = io.EOF
	if e.includeUsage && e.usage.known {
		e.chunks.Begin()
		return e.chunks.EndWithUsage(e.usage.detailed()), nil
	}
	return nil, e.end
}

// endOfInput ends a stream whose reader returned an error. An answer that gave its
// stop reason is complete, whatever happens to the connection afterwards.
func (e *events) endOfInput(err error) {
	switch {
	case e.finished:
		e.stopped = true
	case errors.Is(err, io.EOF):
		e.end = dialect.ErrTruncated
	default:
		e.end = err
	}
}

// chunk reads one event; it returns nil for one that the caller does not get.
func (e *events) chunk(event dialect.Event) ([]byte, error) {
	if dialect.IsDone(event.Data) {
		return nil, nil // not of this dialect; some gateways add it
	}
	if err := event.Failure(); err != nil {
		return nil, err
	}
	e.doc.AllowDuplicateKeys = true
	if err := e.doc.Parse(event.Data); err != nil {
		return nil, fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := e.doc.Root()
	kind := root.Get("type").Text()
	if kind == nil {
		kind = event.Name
	}
	switch string(kind) {
	case "content_block_delta":
		return e.delta(root), nil
	case "content_block_start":
		return e.blockStart(root)
	case "content_block_stop":
		return e.blockStop(root), nil
	case "message_start":
		message := root.Get("message")
		e.usage.Read(message.Get("usage"))
		e.begin(message.Get("id"))
		return nil, nil
	case "message_delta":
		e.usage.Read(root.Get("usage"))
		return e.finish(root.Get("delta")), nil
	case "message_stop":
		return e.stop()
	}
	// Pings, and kinds that are yet to come, unless they are errors.
	return nil, FailureIn(root)
}

// begin prepares what all chunks share. The first chunk waits for content:
// until then another instance may still take over.
func (e *events) begin(id jsonscan.Value) {
	if !e.chunks.Identified() {
		e.chunks.Identify(dialect.ChunkObject, dialect.RawText(id), time.Now().Unix(), e.model)
	}
}

// open begins a chunk, up to the members of its delta. The first one names the
// role.
func (e *events) open() {
	e.begin(jsonscan.Value{})
	e.chunks.Begin()
	e.chunks.Choice(0, "delta")
	if !e.begun {
		e.chunks.Role()
	}
}

// close ends a chunk.
func (e *events) close() []byte {
	e.chunks.EndChoice(nil, "")
	return e.chunks.End()
}

// text makes a chunk of a text, between its quotes; an empty one matters only as
// the first chunk.
func (e *events) text(text []byte) []byte {
	if len(text) == 0 && e.begun {
		return nil
	}
	e.open()
	e.chunks.Content(text)
	return e.close()
}

// delta reads a piece of a block.
func (e *events) delta(root jsonscan.Value) []byte {
	delta := root.Get("delta")
	switch string(delta.Get("type").Text()) {
	case "text_delta":
		return e.text(dialect.RawText(delta.Get("text")))
	case "thinking_delta":
		return e.thought(root, dialect.RawText(delta.Get("thinking")))
	case "signature_delta":
		if e.inOpenThinking(root) {
			e.signature = append(e.signature, dialect.RawText(delta.Get("signature"))...)
		}
	case "input_json_delta":
		return e.arguments(root, delta.Get("partial_json"))
	}
	return nil
}

// thought makes a chunk of a piece of thinking.
func (e *events) thought(root jsonscan.Value, text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	if e.inOpenThinking(root) {
		e.thinking = append(e.thinking, text...)
		if len(e.thinking) > maxThinking {
			e.thinkingAt, e.thinking = -1, nil // too much to keep
		}
	}
	e.open()
	e.chunks.Thinking(text)
	return e.close()
}

// maxThinking is how much of a thinking block is kept to be given once more as a
// whole.
const maxThinking = 4 << 20

// inOpenThinking reports whether an event belongs to the thinking block that is open.
func (e *events) inOpenThinking(root jsonscan.Value) bool {
	index, ok := root.Get("index").Int()
	return ok && index == e.thinkingAt
}

// blockStart reads the beginning of a block.
func (e *events) blockStart(root jsonscan.Value) ([]byte, error) {
	block := root.Get("content_block")
	index, ok := root.Get("index").Int()
	if !ok {
		index = -1
	}
	switch string(block.Get("type").Text()) {
	case "text":
		return e.text(dialect.RawText(block.Get("text"))), nil
	case "thinking":
		e.thinkingAt = index
		e.thinking = dialect.Reuse(e.thinking)
		e.signature = append(dialect.Reuse(e.signature), dialect.RawText(block.Get("signature"))...)
		if text := dialect.RawText(block.Get("thinking")); len(text) > 0 {
			return e.thought(root, text), nil
		}
		return e.text(nil), nil // thinking may take long: the caller learns that it began
	case "redacted_thinking":
		e.open()
		e.chunks.List("thinking_blocks", block.Raw())
		return e.close(), nil
	case "tool_use":
		return e.callStart(block, index)
	}
	return nil, nil
}

// callStart makes the chunk that begins a tool call.
func (e *events) callStart(block jsonscan.Value, index int64) ([]byte, error) {
	if len(e.tools) == dialect.MaxCalls {
		return nil, dialect.ErrTooManyCalls
	}
	e.open()
	if !e.begun {
		e.chunks.NoContent()
	}
	w := &e.chunks.Writer
	w.Name("tool_calls")
	w.Array()
	beginCall(w, len(e.tools), block)
	input := block.Get("input")
	whole := input.Kind() == jsonscan.Object && !input.Empty()
	if whole {
		w.Text(input.Raw())
	} else {
		w.Plain("")
	}
	dialect.EndCall(w)
	w.EndArray()
	if e.blocks == nil {
		e.blocks = map[int64]int{}
	}
	e.blocks[index] = len(e.tools)
	e.tools = append(e.tools, toolCall{arguments: whole})
	return e.close(), nil
}

// call finds the tool call that an event belongs to, -1 if it is none.
func (e *events) call(root jsonscan.Value) int {
	if index, ok := root.Get("index").Int(); ok {
		if call, known := e.blocks[index]; known {
			return call
		}
	}
	return -1
}

// arguments makes a chunk of a piece of a call's arguments.
func (e *events) arguments(root, text jsonscan.Value) []byte {
	call := e.call(root)
	if call < 0 || len(dialect.RawText(text)) == 0 {
		return nil
	}
	return e.argumentsChunk(call, text.Raw())
}

func (e *events) argumentsChunk(call int, quoted []byte) []byte {
	e.tools[call].arguments = true
	e.open()
	w := &e.chunks.Writer
	w.Name("tool_calls")
	w.Array()
	w.Object()
	w.Name("index")
	w.Int(int64(call))
	w.Name("function")
	w.Object()
	w.Member("arguments", quoted)
	dialect.EndCall(w)
	w.EndArray()
	return e.close()
}

// blockStop reads the end of a block: a call without arguments gets empty ones,
// and thinking that was signed goes out as a whole.
func (e *events) blockStop(root jsonscan.Value) []byte {
	if call := e.call(root); call >= 0 && !e.tools[call].arguments {
		return e.argumentsChunk(call, []byte(`"{}"`))
	}
	if !e.inOpenThinking(root) {
		return nil
	}
	e.thinkingAt = -1
	if len(e.signature) == 0 {
		return nil
	}
	e.open()
	w := &e.chunks.Writer
	w.Name("thinking_blocks")
	w.Array()
	w.Object()
	w.Name("type")
	w.Plain("thinking")
	w.Name("thinking")
	w.Escaped(e.thinking)
	w.Name("signature")
	w.Escaped(e.signature)
	w.EndObject()
	w.EndArray()
	return e.close()
}

// finish makes the chunk that says why the answer ended.
func (e *events) finish(delta jsonscan.Value) []byte {
	reason := delta.Get("stop_reason")
	if !dialect.IsFinishReason(reason) || e.finished {
		return nil
	}
	e.finished = true
	e.open()
	if !e.begun {
		e.chunks.Content(nil)
	}
	if refusal := delta.Get("stop_details").Get("explanation"); refusal.Kind() == jsonscan.String {
		e.chunks.Member("refusal", refusal.Raw())
	}
	e.chunks.EndChoice(nil, finishReason(reason.Text(), len(e.tools) > 0))
	return e.chunks.End()
}

// stop ends the answer. One that did not say why it ended but has content gets
// the usual reason.
func (e *events) stop() ([]byte, error) {
	if !e.finished && !e.begun {
		return nil, dialect.ErrTruncated
	}
	e.stopped = true
	if e.finished {
		return nil, nil
	}
	e.finished = true
	e.open()
	e.chunks.EndChoice(nil, finishReason(nil, len(e.tools) > 0))
	return e.chunks.End(), nil
}
