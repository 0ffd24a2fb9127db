package messages

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// eventsMessage turns chunks of a completion into the events of a message.
func eventsMessage(req *schema.Request, from dialect.Events) *dialect.Stream {
	e := &clientEvents{from: from, ask: readWishes(req), doc: jsonscan.Document{Deep: true, AllowDuplicateKeys: true}}
	return &dialect.Stream{Events: e, IsComplete: e.isComplete, Ping: pingEvent, Failure: failureEvent}
}

// clientEvents writes the events of a message: its start, its blocks one after the
// other, each with start, pieces and stop, and at the end why it ended, with the
// usage, and its stop.
type clientEvents struct {
	from dialect.Events
	ask  *wishes
	doc  jsonscan.Document
	frameWriter

	pattern  dialect.TextPattern // of chunks that bring nothing but text
	started  bool
	complete bool
	open     blockKind
	index    int64 // of the block that is open or will be next

	calls   []streamedCall
	numbers map[int64]int // the latest call of each index among the calls in the chunks
	ended   int           // the calls before this one are done
	// call is the call whose block is open. Calls that began behind it wait, because
	// a block must stop before the next one starts.
	call int

	ending  ending
	refusal []byte
	// signature is that of the whole answer. It goes with thinking that is open when
	// it comes, and is left out otherwise: a block of its own behind the text would be
	// taken for the end of the answer by clients that read the last block. Calls have
	// signatures of their own, and only those are required.
	signature []byte
	counts    counts
	end       error
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

// Usage returns what the backend has reported so far.
func (e *clientEvents) Usage() schema.Usage { return e.from.Usage() }

// isComplete reports whether the last event was sent.
func (e *clientEvents) isComplete() bool { return e.complete }

// pingEvent keeps a silent connection alive.
var pingEvent = []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n")

// failureEvent returns the event that ends an answer which is not complete.
func failureEvent(known *schema.Error, requestID string) []byte {
	return append(append([]byte("event: error\ndata: "), Error(known, requestID)...), "\n\n"...)
}

// Next returns the events for the next chunk that says anything.
func (e *clientEvents) Next() ([]byte, error) {
	if e.end != nil {
		return nil, e.end
	}
	for {
		dialect.DropLarge(&e.doc)
		e.Begin(dialect.Reuse(e.Out), nil)
		chunk, err := e.from.Next()
		if errors.Is(err, io.EOF) {
			e.stop()
			e.complete, e.end = true, io.EOF
			return e.Out, nil
		}
		if err != nil {
			e.end = err
			return nil, err
		}
		if text, ok := e.pattern.Text(chunk); ok && e.open == textBlock && len(text) > 0 {
			e.piece("text_delta", "text", text)
			return e.Out, nil
		}
		if err := e.doc.Parse(chunk); err != nil {
			e.end = fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
			return nil, e.end
		}
		if err := e.chunk(e.doc.Root()); err != nil {
			e.end = err
			return nil, err
		}
		if len(e.Out) > 0 {
			return e.Out, nil
		}
	}
}

// start writes the start of the message. The usage is not known yet.
func (e *clientEvents) start(id jsonscan.Value) {
	if e.started {
		return
	}
	e.started = true
	e.begin("message_start")
	e.Name("message")
	beginMessage(&e.Writer, id, e.ask.model)
	e.Literal(`"content":[]`)
	e.Literal(`"stop_reason":null`)
	e.Literal(`"stop_sequence":null`)
	e.Name("usage")
	counts{}.write(&e.Writer)
	e.EndObject()
	e.finish()
}

// chunk reads one chunk.
func (e *clientEvents) chunk(root jsonscan.Value) error {
	e.start(root.Get("id"))
	if usage := root.Get("usage"); usage.Given() {
		e.counts = readCounts(usage)
	}
	choice := root.Get("choices").First()
	if index, ok := choice.Get("index").Int(); ok && index > 0 {
		return nil // one answer was asked for
	}
	delta := choice.Get("delta")
	if thought := dialect.ThinkingIn(delta); len(thought) > 0 && !e.ask.hidesThinking {
		e.thought(thought)
	}
	if text := dialect.ContentIn(delta); len(text) > 0 {
		e.openBlock(textBlock)
		e.piece("text_delta", "text", text)
		if !root.Get("usage").Given() && dialect.SaysOnlyText(choice, delta) {
			start, end := delta.Get("content").Span()
			e.pattern.Learn(e.doc.Data(), start, end)
		}
	}
	e.refusal = append(e.refusal, dialect.RawText(delta.Get("refusal"))...)
	for call := delta.Get("tool_calls").First(); call.Kind() != jsonscan.Absent; call = call.Next() {
		if err := e.toolCall(call); err != nil {
			return err
		}
	}
	if signature := signatureText(delta); len(signature) > 0 {
		e.signature = bytes.Clone(signature)
	}
	if dialect.IsFinishReason(choice.Get("finish_reason")) {
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
	e.Name("index")
	e.Int(e.index)
	if kind == textBlock {
		e.Literal(`"content_block":{"type":"text","text":""}`)
	} else {
		e.Literal(`"content_block":{"type":"thinking","thinking":"","signature":""}`)
	}
	e.finish()
}

// piece writes a piece of the block that is open, given escaped.
func (e *clientEvents) piece(kind, member string, text []byte) {
	e.begin("content_block_delta")
	e.Name("index")
	e.Int(e.index)
	e.Name("delta")
	e.Object()
	e.Name("type")
	e.Plain(kind)
	e.Name(member)
	e.Escaped(text)
	e.EndObject()
	e.finish()
}

// closeBlock stops the block that is open.
func (e *clientEvents) closeBlock() {
	switch e.open {
	case noBlock:
		return
	case thinkingBlock:
		e.piece("signature_delta", "signature", escape(markThinking(e.signature)))
		e.signature = nil
	case callBlock:
		e.calls[e.call] = streamedCall{done: true} // nothing else of it is needed
	}
	e.begin("content_block_stop")
	e.Name("index")
	e.Int(e.index)
	e.finish()
	e.open = noBlock
	e.index++
}

// escape returns the content of the JSON string that a text is.
func escape(text []byte) []byte {
	quoted := jsonwrite.AppendText(nil, text)
	return quoted[1 : len(quoted)-1]
}

// toolCall reads a piece of a tool call.
func (e *clientEvents) toolCall(piece jsonscan.Value) error {
	function := piece.Get("function")
	at := e.findCall(piece)
	if at < 0 {
		if len(e.calls) == dialect.MaxCalls {
			return dialect.ErrTooManyCalls
		}
		at = e.addCall(piece, function)
	}
	call := &e.calls[at]
	if call.done {
		return nil // the backend goes on with arguments that were complete
	}
	arguments := function.Get("arguments")
	text := dialect.RawText(arguments)
	call.scan.take(arguments.Text())
	if arguments.Kind() == jsonscan.Object { // not what the dialect says, and unmistakable
		text = escape(arguments.Raw())
		call.scan.take(arguments.Raw())
	}
	if e.open == callBlock && at != e.call {
		call.waiting = append(call.waiting, text...)
		e.nextCalls()
		return nil
	}
	if e.open != callBlock {
		e.closeBlock()
		e.openCall(at)
	}
	if len(text) > 0 {
		e.piece("input_json_delta", "partial_json", text)
	}
	e.nextCalls()
	return nil
}

// addCall adds the call that a piece begins, and returns where it is among the calls.
func (e *clientEvents) addCall(piece, function jsonscan.Value) int {
	at := len(e.calls)
	number, ok := piece.Get("index").Int()
	if !ok {
		number = int64(at)
	}
	if e.numbers == nil {
		e.numbers = map[int64]int{}
	}
	e.numbers[number] = at
	e.calls = append(e.calls, streamedCall{id: bytes.Clone(callID(piece)), name: bytes.Clone(dialect.RawText(function.Get("name")))})
	return at
}

// findCall returns the call that a piece belongs to, -1 for a new one. A piece
// without an index that has an id or a name begins a call, another one goes on with
// the last.
func (e *clientEvents) findCall(piece jsonscan.Value) int {
	number, ok := piece.Get("index").Int()
	if !ok {
		if len(piece.Get("id").Text()) > 0 || len(piece.Get("function").Get("name").Text()) > 0 {
			return -1
		}
		return len(e.calls) - 1
	}
	if at, known := e.numbers[number]; known {
		return at
	}
	return -1
}

// openCall starts the block of a call and writes the arguments that have waited.
func (e *clientEvents) openCall(at int) {
	call := &e.calls[at]
	e.open, e.call = callBlock, at
	e.begin("content_block_start")
	e.Name("index")
	e.Int(e.index)
	e.Open(`"content_block":{"type":"tool_use","id":`)
	e.Text(call.id)
	e.Name("name")
	e.Escaped(call.name)
	e.Close(`,"input":{}}`)
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

// endCalls writes the calls that wait, whether or not those before are complete. No
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

// stop writes the end of the message.
func (e *clientEvents) stop() {
	e.start(jsonscan.Value{})
	e.endBlocks()
	if e.ending.reason == "" {
		e.ending.reason = "end_turn"
	}
	if total := e.from.Usage(); e.counts == (counts{}) && total.Known {
		e.counts = counts{input: total.Prompt, output: total.Completion}
	}
	e.begin("message_delta")
	e.Name("delta")
	e.Object()
	e.ending.write(&e.Writer, e.refusal)
	e.EndObject()
	e.Name("usage")
	e.counts.write(&e.Writer)
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
