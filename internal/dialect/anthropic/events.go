package anthropic

import (
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// deltas reads the events of a message.
type deltas struct {
	dialect.EventReader
	delta chat.Delta
	usage TokenCounts
	// tools are the tool calls, which are numbered by themselves. blocks maps the index
	// of a block to one of them: blocks are numbered all together.
	tools  []bool // whether some arguments were sent
	blocks map[int64]int

	// The thinking block that is open, which the caller gets once more as a whole
	// when it ends: it must send it back as it was.
	thinkingAt          int64
	thinking, signature []byte

	begun bool // a delta went out
}

// DecodeStream reads the events of a streamed message.
func DecodeStream(_ *schema.Request, body io.Reader) dialect.Deltas {
	return &deltas{EventReader: dialect.EventReader{SSE: dialect.NewSSE(body)}, thinkingAt: -1}
}

// Usage returns the usage reported so far.
func (e *deltas) Usage() chat.Usage { return e.usage.detailed() }

// Next returns the delta of the next event.
func (e *deltas) Next() (*chat.Delta, error) {
	e.delta.Reset()
	if err := e.EventReader.Next(e.take); err != nil {
		return nil, err
	}
	e.begun = true
	return &e.delta, nil
}

// take reads one event into the delta, which stays empty for one that the caller does not
// get.
func (e *deltas) take(event dialect.Event) (bool, error) {
	if dialect.IsDone(event.Data) {
		return false, nil // not of this dialect; some gateways add it
	}
	if err := event.Failure(); err != nil {
		return false, err
	}
	if _, err := dialect.Parse(&e.Doc, event.Data); err != nil {
		return false, err
	}
	err := e.read(event, e.Doc.Root())
	return len(e.delta.Choices) > 0, err
}

func (e *deltas) read(event dialect.Event, root jsonscan.Value) error {
	kind := root.TextOf("type")
	if kind == nil {
		kind = event.Name
	}
	switch string(kind) {
	case "content_block_delta":
		e.piece(root)
	case "content_block_start":
		return e.blockStart(root)
	case "content_block_stop":
		e.blockStop(root)
	case "message_start":
		// The first delta waits for content: until then another instance may still take over.
		message := root.Get("message")
		e.usage.Read(message.Get("usage"))
		if e.delta.ID == nil {
			e.delta.ID = idOf(message)
		}
	case "message_delta":
		e.usage.Read(root.Get("usage"))
		e.finish(root.Get("delta"))
	case "message_stop":
		return e.stop()
	default:
		// Pings, and kinds that are yet to come, unless they are errors.
		return FailureIn(root)
	}
	return nil
}

// tell begins the caller's delta of an event.
func (e *deltas) tell() *chat.Choice {
	choice := e.delta.Add(0)
	choice.Begins = !e.begun
	return choice
}

// text tells a text; an empty one matters only as the first delta.
func (e *deltas) text(text []byte) {
	if len(text) == 0 && e.begun {
		return
	}
	if text == nil {
		text = []byte{}
	}
	e.tell().Text = text
}

// piece reads a piece of a block.
func (e *deltas) piece(root jsonscan.Value) {
	delta := root.Get("delta")
	switch string(delta.TextOf("type")) {
	case "text_delta":
		e.text(chat.TextIn(delta, "text"))
	case "thinking_delta":
		e.thought(root, chat.TextIn(delta, "thinking"))
	case "signature_delta":
		if e.inOpenThinking(root) {
			e.signature = append(e.signature, chat.TextIn(delta, "signature")...)
		}
	case "input_json_delta":
		if call := e.call(root); call >= 0 {
			if text := chat.TextIn(delta, "partial_json"); len(text) > 0 {
				e.arguments(call, text)
			}
		}
	}
}

// thought tells a piece of thinking.
func (e *deltas) thought(root jsonscan.Value, text []byte) {
	if len(text) == 0 {
		return
	}
	if e.inOpenThinking(root) {
		e.thinking = append(e.thinking, text...)
		if len(e.thinking) > maxThinking {
			e.thinkingAt, e.thinking = -1, nil // too much to keep
		}
	}
	e.tell().Thinking = text
}

// maxThinking is how much of a thinking block is kept to be given once more as a
// whole.
const maxThinking = 4 << 20

// inOpenThinking reports whether an event belongs to the thinking block that is open.
func (e *deltas) inOpenThinking(root jsonscan.Value) bool {
	index, ok := root.Get("index").Int()
	return ok && index == e.thinkingAt
}

// blockStart reads the beginning of a block.
func (e *deltas) blockStart(root jsonscan.Value) error {
	block := root.Get("content_block")
	index, ok := root.Get("index").Int()
	if !ok {
		index = -1
	}
	switch string(block.TextOf("type")) {
	case "text":
		e.text(chat.TextIn(block, "text"))
	case "thinking":
		e.thinkingAt = index
		e.thinking = dialect.Reuse(e.thinking)
		e.signature = append(dialect.Reuse(e.signature), chat.TextIn(block, "signature")...)
		if text := chat.TextIn(block, "thinking"); len(text) > 0 {
			e.thought(root, text)
		} else {
			e.text(nil) // thinking may take long: the caller learns that it began
		}
	case "redacted_thinking":
		choice := e.tell()
		choice.Blocks = append(choice.Blocks, block.Raw())
	case "tool_use":
		return e.callStart(block, index)
	}
	return nil
}

// callStart tells the beginning of a tool call.
func (e *deltas) callStart(block jsonscan.Value, index int64) error {
	if len(e.tools) == dialect.MaxCalls {
		return dialect.ErrTooManyCalls
	}
	choice := e.tell()
	choice.HasNoText = !e.begun
	call := beginCall(block, int64(len(e.tools)))
	input := block.Get("input")
	whole := input.Kind() == jsonscan.Object && !input.Empty()
	if whole {
		call.Arguments = chat.Escape(input.Raw())
	}
	choice.Calls = append(choice.Calls, call)
	if e.blocks == nil {
		e.blocks = map[int64]int{}
	}
	e.blocks[index] = len(e.tools)
	e.tools = append(e.tools, whole)
	return nil
}

// call finds the tool call that an event belongs to, -1 if it belongs to none.
func (e *deltas) call(root jsonscan.Value) int {
	if index, ok := root.Get("index").Int(); ok {
		if call, known := e.blocks[index]; known {
			return call
		}
	}
	return -1
}

// arguments tells a piece of a call's arguments.
func (e *deltas) arguments(call int, text []byte) {
	e.tools[call] = true
	choice := e.tell()
	choice.Calls = append(choice.Calls, chat.ToolCall{Index: int64(call), Arguments: text})
}

// blockStop reads the end of a block: a call without arguments gets empty ones,
// and thinking that was signed goes out as a whole.
func (e *deltas) blockStop(root jsonscan.Value) {
	if call := e.call(root); call >= 0 && !e.tools[call] {
		e.arguments(call, []byte("{}"))
		return
	}
	if !e.inOpenThinking(root) {
		return
	}
	e.thinkingAt = -1
	if len(e.signature) == 0 {
		return
	}
	var w jsonwrite.Writer
	w.Open(`{"type":"thinking","thinking":`).Escaped(e.thinking)
	w.Name("signature").Escaped(e.signature)
	w.EndObject()
	choice := e.tell()
	choice.Blocks = append(choice.Blocks, w.Out)
}

// finish tells why the answer ended.
func (e *deltas) finish(delta jsonscan.Value) {
	reason := delta.Get("stop_reason")
	if !dialect.IsFinishReason(reason) || e.Finished {
		return
	}
	e.Finished = true
	choice := e.tell()
	if !e.begun {
		choice.Text = []byte{}
	}
	choice.Refusal = chat.TextIn(delta.Get("stop_details"), "explanation")
	choice.Finish = finishReason(reason.Text(), len(e.tools) > 0)
	choice.StopSequence = delta.TextOf("stop_sequence")
}

// stop ends the answer. One that did not say why it ended but has content gets
// the usual reason.
func (e *deltas) stop() error {
	if !e.Finished && !e.begun {
		return dialect.ErrTruncated
	}
	e.Stopped = true
	if !e.Finished {
		e.Finished = true
		e.tell().Finish = finishReason(nil, len(e.tools) > 0)
	}
	return nil
}
