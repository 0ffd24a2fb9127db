package responses

import (
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/custominput"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Stream writes the events of a response: Add for every delta of the answer, then End or Fail.
// Each returns server-sent events, which are valid until the next call. The first of them begin
// the response.
type Stream struct {
	req *Request
	out []byte
	seq int64

	begun bool
	done  jsonwrite.Writer // the items that are complete
	count int              // items that were begun
	open  openItem
	// kept holds the data that the backend wants back, until a reasoning item takes
	// them along.
	kept state

	finish chat.FinishReason
	size   int // of the texts that are kept for the end
}

// openItem is the item that deltas add to.
type openItem struct {
	kind    itemKind
	id      string
	index   int    // among the items
	started bool   // a part was begun
	text    []byte // of the open part, or of the arguments; escaped

	// The parts of a message: the complete ones, and the open one.
	parts    jsonwrite.Writer
	part     int // its index
	refusal  bool
	logprobs jsonwrite.Writer

	// The facts about a call.
	call   int64 // its index among the calls
	callID []byte
	made   tool
	input  custominput.Input

	delta []byte // how events begin that add to the open part
}

type itemKind uint8

const (
	noItem itemKind = iota
	reasoningItem
	messageItem
	callItem
)

// maxKept is how much text a stream may have: all of it is kept for the events at its
// end.
const maxKept = dialect.MaxEvent

// NewStream returns a writer of the events of a response. It does not read the body of the
// request later.
func (r *Request) NewStream() *Stream {
	r.echo, r.root = r.repeated(), jsonscan.Value{}
	return &Stream{req: r}
}

// begin writes the first events of a response, before anything else.
func (s *Stream) begin() {
	s.out = dialect.Reuse(s.out)
	if s.begun {
		return
	}
	s.begun = true
	s.out = slices.Grow(s.out, 2*len(s.req.echo)+sizeOfStart)
	for _, name := range []string{"response.created", "response.in_progress"} {
		s.response(name, outcome{status: inProgress}, nil)
	}
}

// sizeOfStart is about the length of the first events without the members from the
// request.
const sizeOfStart = 2 << 10

// Add returns the events for a delta of the answer, none for one that adds nothing.
func (s *Stream) Add(delta *chat.Delta) ([]byte, error) {
	s.begin()
	choice := delta.First()
	if choice == nil {
		return s.out, nil
	}
	if err := s.addChoice(choice); err != nil {
		return nil, err
	}
	if choice.Finish != "" {
		s.finish = choice.Finish
	}
	return s.out, nil
}

// addChoice adds the parts of a delta, in the order of a model's output.
func (s *Stream) addChoice(delta *chat.Choice) error {
	if len(delta.Thinking) > 0 {
		if err := s.addThinking(delta.Thinking); err != nil {
			return err
		}
	}
	if s.kept.add(delta) && len(s.kept.blocks.Out)+len(s.kept.details.Out) > 0 && s.open.kind != reasoningItem {
		s.beginReasoning()
	}
	for _, address := range delta.Images {
		s.addImage(address)
	}
	if len(delta.Text) > 0 {
		s.beginPart(false)
		if err := s.addText(delta.Text, delta.Logprobs); err != nil {
			return err
		}
	}
	if len(delta.Refusal) > 0 {
		s.beginPart(true)
		if err := s.addRefusal(delta.Refusal); err != nil {
			return err
		}
	}
	for i := range delta.Calls {
		if err := s.addCall(&delta.Calls[i]); err != nil {
			return err
		}
	}
	return nil
}

// End returns the last events of a complete answer, and the response itself.
func (s *Stream) End(usage chat.Usage) (events, response []byte) {
	s.begin()
	// The text is repeated by four events, and the response has the request in it.
	s.out = slices.Grow(s.out, 4*len(s.open.text)+len(s.done.Out)+len(s.req.echo)+sizeOfEnd)
	reason := incompleteReason(s.finish)
	status := completed
	if reason != "" {
		status = incomplete
	}
	s.closeItem(status)
	if !s.kept.empty() {
		s.beginReasoning()
		s.closeItem(status)
	}
	if s.count == 0 {
		s.beginPart(false)
		s.closeItem(status)
	}
	from, to := s.response("response."+status, outcome{status: status, reason: reason, usage: &usage}, s.done.Out)
	return s.out, s.out[from:to]
}

// sizeOfEnd is about the length of the events at the end, without the texts of the
// request and the answer.
const sizeOfEnd = 2 << 10

// Fail returns the event that ends a broken answer. Items that are not complete are not
// part of it. The number of the event is free again after it: an answer that several requests
// share continues for the others if one of them is ended.
func (s *Stream) Fail(err *schema.Error) []byte {
	s.begin()
	defer func(number int64) { s.seq = number }(s.seq)
	s.response("response.failed", outcome{status: failed, err: err}, s.done.Out)
	return s.out
}

// ErrorEvent returns the event that ends a broken response, given the number of its
// events; nothing else is known of it.
func ErrorEvent(known *schema.Error, count int64) []byte {
	w := jsonwrite.Writer{Out: append(appendHead(nil, "error"), ',')}
	w.Name("code").Plain(errorCode(known))
	w.Name("message").Text([]byte(known.Message))
	w.Literal(`"param":null`)
	w.Name("sequence_number").Int(count)
	w.EndObject()
	return append(w.Out, "\n\n"...)
}

// response writes an event that has the response with these items, and returns the place
// of the response in the output.
func (s *Stream) response(name string, o outcome, items []byte) (from, to int) {
	w := s.event(name)
	w.Name("response")
	from = len(w.Out)
	s.req.beginResponse(&w, o)
	if len(items) > 0 {
		w.Raw(items)
	}
	s.req.endResponse(&w, o)
	to = len(w.Out)
	s.end(w)
	return from, to
}

// event begins an event, up to its next member.
func (s *Stream) event(name string) jsonwrite.Writer {
	w := jsonwrite.Writer{Out: s.out}
	w.Out = appendHead(w.Out, name)
	w.Out = append(w.Out, `,"sequence_number":`...)
	w.Int(s.seq)
	s.seq++
	return w
}

// appendHead appends the beginning of an event up to the end of its type.
func appendHead(to []byte, name string) []byte {
	to = append(append(append(to, "event: "...), name...), "\ndata: {\"type\":\""...)
	return append(append(to, name...), '"')
}

// end ends an event.
func (s *Stream) end(w jsonwrite.Writer) {
	w.EndObject()
	s.out = append(w.Out, "\n\n"...)
}

// itemEvent begins an event of the open item.
func (s *Stream) itemEvent(name string) jsonwrite.Writer {
	w := s.event(name)
	w.Name("item_id").Plain(s.open.id)
	w.Name("output_index").Int(int64(s.open.index))
	return w
}

// partEvent begins an event of the open part. The part's index has the given name.
func (s *Stream) partEvent(name, index string) jsonwrite.Writer {
	w := s.itemEvent(name)
	w.Name(index).Int(int64(s.open.part))
	return w
}

// prepareDelta makes the beginning of all events that add to the open part, up to the
// text that they add. The index has a name if the part has one.
func (s *Stream) prepareDelta(name, index string) {
	d := appendHead(s.open.delta[:0], name)
	d = append(append(append(d, `,"item_id":"`...), s.open.id...), `","output_index":`...)
	d = strconv.AppendInt(d, int64(s.open.index), 10)
	if index != "" {
		d = append(append(append(d, `,"`...), index...), `":`...)
		d = strconv.AppendInt(d, int64(s.open.part), 10)
	}
	s.open.delta = append(d, `,"delta":"`...)
}

// delta writes an event that adds a text, escaped, to the open part. The members are
// the further members of the event.
func (s *Stream) delta(text []byte, members string) error {
	if err := s.grow(len(text)); err != nil {
		return err
	}
	out := append(append(s.out, s.open.delta...), text...)
	out = append(append(append(out, '"'), members...), `,"sequence_number":`...)
	out = strconv.AppendInt(out, s.seq, 10)
	s.out = append(out, "}\n\n"...)
	s.seq++
	return nil
}

// grow counts text that is kept for the end.
func (s *Stream) grow(bytes int) error {
	if s.size += bytes; s.size > maxKept {
		return dialect.Invalid("it is too long")
	}
	return nil
}

// beginItem begins an item. The item is written as it is at the beginning.
func (s *Stream) beginItem(kind itemKind, prefix string) {
	s.closeItem(completed)
	s.open = openItem{kind: kind, id: itemID(prefix, s.req.ID, s.count), index: s.count, text: s.open.text[:0],
		delta: s.open.delta}
	s.count++
}

// itemAdded tells that an item was begun.
func (s *Stream) itemAdded(write func(*jsonwrite.Writer)) {
	w := s.event("response.output_item.added")
	w.Name("output_index").Int(int64(s.open.index))
	w.Name("item")
	write(&w)
	s.end(w)
}

// itemDone tells that the open item is complete, and adds it to the output.
func (s *Stream) itemDone(write func(*jsonwrite.Writer)) {
	w := s.event("response.output_item.done")
	w.Name("output_index").Int(int64(s.open.index))
	w.Name("item")
	from := len(w.Out)
	write(&w)
	s.done.Raw(w.Out[from:])
	s.end(w)
}

// closeItem ends the open item, if there is one.
func (s *Stream) closeItem(status string) {
	switch s.open.kind {
	case noItem:
		return
	case reasoningItem:
		s.closeReasoning()
	case messageItem:
		s.closeMessage(status)
	case callItem:
		s.closeCall(status)
	}
	s.open.kind = noItem
}

// addImage adds an item for an image that the model made.
func (s *Stream) addImage(address []byte) {
	data := imageData(address)
	if data == nil {
		return
	}
	s.beginItem(noItem, imagePrefix)
	write := func(w *jsonwrite.Writer) { writeImageItem(w, s.open.id, data) }
	s.itemAdded(func(w *jsonwrite.Writer) {
		w.Open(`{"id":`).Plain(s.open.id)
		w.Literal(`"type":"image_generation_call","status":"in_progress","result":null`)
		w.EndObject()
	})
	s.end(s.itemEvent("response.image_generation_call.completed"))
	s.itemDone(write)
}
