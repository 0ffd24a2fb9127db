package messages

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// eventsMessage writes deltas as the events of a message.
func eventsMessage(req *schema.Request, from dialect.Deltas) *dialect.Stream {
	e := &clientEvents{Written: dialect.Written{From: from}, ask: readWishes(req)}
	return &dialect.Stream{Events: e, IsComplete: e.IsComplete, Ping: pingEvent, Failure: ErrorEvent}
}

// clientEvents writes the events of a message: its start, its blocks one after the
// other, each with start, pieces and stop, and at the end why it ended, with the
// usage, and its stop.
type clientEvents struct {
	dialect.Written
	ask *wishes
	frameWriter

	started bool
	open    blockKind
	index   int64 // of the block that is open or will be next

	calls   []streamedCall
	numbers map[int64]int // where the calls are, by their numbers
	ended   int           // the calls before this one are done
	// call is the call with the open block. Calls that began after it wait, because a
	// block must stop before the next one starts.
	call int

	ending  ending
	refusal []byte
	// signature is the signature of the whole answer. It goes with thinking that is
	// open when it comes, and is left out otherwise: a block of its own behind the text
	// would be taken for the end of the answer by clients that read the last block.
	// Calls have signatures of their own, and only these are required.
	signature []byte
}

type blockKind uint8

const (
	noBlock blockKind = iota
	textBlock
	thinkingBlock
	callBlock
)

// streamedCall is a tool call of the stream.
type streamedCall struct {
	id, name []byte
	waiting  []byte // arguments that were not sent, escaped
	scan     objectScan
	done     bool // its block was stopped
}

// frameWriter writes events in their frames.
type frameWriter struct{ jsonwrite.Writer }

// begin begins an event up to the members behind its type.
func (f *frameWriter) begin(name string) {
	f.Out = append(append(append(f.Out, "event: "...), name...), "\ndata: "...)
	f.Close(`{"type":"`)
	f.Out = append(f.Out, name...)
	f.Close(`"`)
}

// finish ends an event.
func (f *frameWriter) finish() { f.Close("}\n\n") }

// pingEvent keeps a silent connection alive.
var pingEvent = []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n")

// ErrorEvent returns the event that ends an answer which is not complete.
func ErrorEvent(known *schema.Error, requestID string) []byte {
	return append(append([]byte("event: error\ndata: "), Error(known, requestID)...), "\n\n"...)
}

// Next returns the next events.
func (e *clientEvents) Next() ([]byte, error) { return e.NextFrom(e) }

// Restart implements dialect.EventWriter.
func (e *clientEvents) Restart() { e.Begin(dialect.Reuse(e.Out), nil) }

// Bytes implements dialect.EventWriter.
func (e *clientEvents) Bytes() []byte { return e.Out }

// CanResume implements dialect.Resumer.
func (e *clientEvents) CanResume() bool { return !e.Complete }

// start writes the start of the message. The usage is not known yet.
func (e *clientEvents) start(id []byte) {
	if e.started {
		return
	}
	e.started = true
	e.begin("message_start")
	e.Name("message")
	beginMessage(&e.Writer, id, e.ask.model)
	e.Literal(`"content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null`)
	e.Name("usage")
	writeUsage(&e.Writer, new(chat.Usage))
	e.EndObject()
	e.finish()
}

// Add writes the parts of a delta. Thinking that the client does not want to see and
// refusals, which are told at the end, are content as well.
func (e *clientEvents) Add(delta *chat.Delta) error {
	e.start(delta.ID)
	choice := delta.First()
	if choice == nil {
		return nil
	}
	e.Content = e.Content || choice.HasContent()
	if len(choice.Thinking) > 0 && !e.ask.hidesThinking {
		e.thought(choice.Thinking)
	}
	if len(choice.Text) > 0 {
		e.openBlock(textBlock)
		e.piece("text_delta", "text", choice.Text)
	}
	e.refusal = append(e.refusal, choice.Refusal...)
	for i := range choice.Calls {
		if err := e.toolCall(&choice.Calls[i]); err != nil {
			return err
		}
	}
	if signature := chat.SignatureIn(choice.Extra).Bytes(); len(signature) > 0 {
		e.signature = bytes.Clone(signature)
	}
	if choice.Finish != "" {
		e.ending = e.ask.ending(choice, len(e.calls) > 0, len(e.refusal) > 0)
		e.endBlocks()
	}
	return nil
}

// thought writes a piece of thinking. A client that does not want to read it still
// gets the block.
func (e *clientEvents) thought(text []byte) {
	e.openBlock(thinkingBlock)
	if !e.ask.omitsThinking {
		e.piece("thinking_delta", "thinking", text)
	}
}

// openBlock makes sure that a block of text or thinking is open.
func (e *clientEvents) openBlock(kind blockKind) {
	if e.open == kind {
		return
	}
	e.closeBlock()
	e.endCalls()
	e.open = kind
	e.begin("content_block_start")
	e.Name("index").Int(e.index)
	if kind == textBlock {
		e.Literal(`"content_block":{"type":"text","text":"","citations":null}`)
	} else {
		e.Literal(`"content_block":{"type":"thinking","thinking":"","signature":""}`)
	}
	e.finish()
}

// piece writes a piece of the block that is open, given escaped.
func (e *clientEvents) piece(kind, member string, text []byte) {
	e.begin("content_block_delta")
	e.Name("index").Int(e.index)
	e.Name("delta").Object()
	e.Name("type").Plain(kind)
	e.Name(member).Escaped(text)
	e.EndObject()
	e.finish()
}

// closeBlock stops the block that is open.
func (e *clientEvents) closeBlock() {
	switch e.open {
	case noBlock:
		return
	case thinkingBlock:
		e.piece("signature_delta", "signature", chat.Escape(markThinking(e.signature)))
		e.signature = nil
	case callBlock:
		e.calls[e.call] = streamedCall{done: true} // nothing else of it is needed
	}
	e.begin("content_block_stop")
	e.Name("index").Int(e.index)
	e.finish()
	e.open = noBlock
	e.index++
}

// toolCall writes a piece of a tool call.
func (e *clientEvents) toolCall(piece *chat.ToolCall) error {
	at, known := e.numbers[piece.Index]
	if !known {
		if len(e.calls) == dialect.MaxCalls {
			return dialect.ErrTooManyCalls
		}
		if e.numbers == nil {
			e.numbers = map[int64]int{}
		}
		at = len(e.calls)
		e.numbers[piece.Index] = at
		e.calls = append(e.calls, streamedCall{id: bytes.Clone(callID(piece)), name: bytes.Clone(piece.Name)})
	}
	call := &e.calls[at]
	if call.done {
		return nil // the backend goes on with arguments that were complete
	}
	call.scan.take(chat.Unescape(piece.Arguments))
	if e.open == callBlock && at != e.call {
		call.waiting = append(call.waiting, piece.Arguments...)
		e.nextCalls()
		return nil
	}
	if e.open != callBlock {
		e.closeBlock()
		e.openCall(at)
	}
	if len(piece.Arguments) > 0 {
		e.piece("input_json_delta", "partial_json", piece.Arguments)
	}
	e.nextCalls()
	return nil
}

// openCall starts the block of a call and writes the arguments that have waited.
func (e *clientEvents) openCall(at int) {
	call := &e.calls[at]
	e.open, e.call = callBlock, at
	e.begin("content_block_start")
	e.Name("index").Int(e.index)
	e.Open(`"content_block":{"type":"tool_use","id":`).Text(call.id)
	e.Name("name").Escaped(call.name)
	e.Close(`,"input":{},"caller":{"type":"direct"}}`)
	e.finish()
	if len(call.waiting) > 0 {
		e.piece("input_json_delta", "partial_json", call.waiting)
		call.waiting = nil
	}
}

// nextCalls goes on to the calls that wait, as far as the ones before are complete.
func (e *clientEvents) nextCalls() {
	for e.open == callBlock && e.calls[e.call].scan.complete() && e.call+1 < len(e.calls) {
		e.closeBlock()
		e.openCall(e.call + 1)
	}
}

// endCalls writes the calls that wait, whether or not the earlier ones are complete. No
// block is open.
func (e *clientEvents) endCalls() {
	for ; e.ended < len(e.calls); e.ended++ {
		if !e.calls[e.ended].done {
			e.openCall(e.ended)
			e.closeBlock()
		}
	}
}

// endBlocks stops all blocks.
func (e *clientEvents) endBlocks() {
	e.closeBlock()
	e.endCalls()
}

// End writes the end of the message.
func (e *clientEvents) End() {
	e.start(nil)
	e.endBlocks()
	if e.ending.reason == "" {
		e.ending.reason = "end_turn"
	}
	e.begin("message_delta")
	e.Name("delta").Object()
	e.ending.write(&e.Writer, e.refusal)
	e.EndObject()
	e.Name("usage")
	usage := e.From.Usage()
	writeUsage(&e.Writer, &usage)
	e.finish()
	e.begin("message_stop")
	e.finish()
}

// objectScan finds out, piece by piece, whether a JSON object is complete.
type objectScan struct {
	depth            int
	begun            bool
	inText, escaping bool
}

func (s *objectScan) take(text []byte) {
	for _, c := range text {
		switch {
		case s.escaping:
			s.escaping = false
		case s.inText:
			s.escaping, s.inText = c == '\\', c != '"'
		case c == '"':
			s.inText = true
		case c == '{', c == '[':
			s.depth++
			s.begun = true
		case c == '}', c == ']':
			s.depth--
		}
	}
}

func (s *objectScan) complete() bool { return s.begun && s.depth <= 0 && !s.inText }
