package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// DoneMark ends a stream in OpenAI's dialect.
var DoneMark = []byte("[DONE]")

// IsDone reports whether data is the mark at the end of a stream; some backends put
// blanks around it.
func IsDone(data []byte) bool { return bytes.Equal(bytes.TrimSpace(data), DoneMark) }

// MaxEvent is how large one event of a stream may be: pictures travel in them. A
// backend that never ends its line costs this much memory and no more.
const MaxEvent = 32 << 20

// MaxKept is the largest buffer that a stream keeps for its next event; it gives a
// larger one back.
const MaxKept = 64 << 10

// Reuse returns buf emptied for its next use, or nil if it is too large to be kept.
func Reuse(buf []byte) []byte {
	if cap(buf) > MaxKept {
		return nil
	}
	return buf[:0]
}

// DropLarge resets documents that keep the text of a large event alive.
func DropLarge(docs ...*jsonscan.Document) {
	for _, doc := range docs {
		if len(doc.Data()) > MaxKept {
			doc.Reset()
		}
	}
}

// ErrEventTooLarge means that an event of a stream exceeded MaxEvent.
var ErrEventTooLarge = errors.New("an event of the backend's stream is too large")

// MaxCalls is how many tool calls a stream may have. Something is kept of each of them
// until the stream ends.
const MaxCalls = 100_000

// ErrTooManyCalls means that a stream has more than MaxCalls tool calls.
var ErrTooManyCalls = fmt.Errorf("%w: it has more than %d tool calls", ErrInvalid, MaxCalls)

// firstRead is the buffer that a stream begins with: most events are small, and
// thousands of streams may wait at once.
const firstRead = 2 << 10

// lender is a reader that lends memory for its results, and can wait until there is
// something to return. A stream that waits then holds no memory for its events.
type lender interface {
	io.Reader
	// Await waits until something has come, or until Read returns an error.
	Await()
	Lend() *[]byte
	TakeBack(*[]byte)
}

// input is the buffer of a reader of events or lines.
type input struct {
	from   io.Reader
	lender lender // from, if it lends memory
	err    error  // the last error of the reader

	buf  []byte
	lent *[]byte // the lent memory of buf, if any
	base int     // where the current event begins
	end  int     // where the bytes end
}

func newInput(from io.Reader) input {
	lends, _ := from.(lender)
	return input{from: from, lender: lends}
}

// Event is one server-sent event. Its bytes are good until the next one is read.
type Event struct {
	Name []byte
	Data []byte
}

// AppendFrame appends an event in its final frame. The data are in one line.
func AppendFrame(dst, name []byte, data ...[]byte) []byte {
	if len(name) > 0 {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	dst = append(dst, "data: "...)
	for _, part := range data {
		dst = append(dst, part...)
	}
	return append(dst, "\n\n"...)
}

// SSE reads server-sent events: any line ends, comments, several data lines,
// any split of the bytes.
type SSE struct {
	input

	// Positions in the current event, counted from base.
	line   int // the line that is being read begins here
	seen   int // no line end before here
	name   span
	data   span
	joined []byte // the data of an event with several data lines
	lines  int    // data lines so far
	skipLF bool   // the last line ended in CR, a following LF belongs to it
	fresh  bool   // nothing was read yet: a byte order mark may come
	cut    bool   // the last event lacked its closing empty line
}

type span struct{ from, to int }

// Cut reports whether the event that was read last lacked its closing empty line, and
// may have been cut off.
func (s *SSE) Cut() bool { return s.cut }

// NewSSE returns a reader of the events in from.
func NewSSE(from io.Reader) *SSE {
	return &SSE{input: newInput(from), fresh: true}
}

// Next returns the next event that has data. At the end of the stream an event
// that lacks only its closing empty line is still returned.
func (s *SSE) Next() (Event, error) {
	s.base += s.line
	s.line, s.seen, s.lines, s.name, s.data = 0, 0, 0, span{}, span{}
	s.joined = Reuse(s.joined)
	for {
		line, ok := s.takeLine()
		if !ok {
			if err := s.fill(); err != nil {
				return s.last(err)
			}
			continue
		}
		if line.from != line.to {
			s.field(line)
			continue
		}
		if s.lines > 0 {
			return s.event(), nil
		}
		// An empty line without data before it: the event had none.
		s.fresh = false
		s.base += s.line
		s.line, s.seen, s.name = 0, 0, span{}
	}
}

// takeLine returns the next whole line and moves behind its end.
func (s *SSE) takeLine() (span, bool) {
	if s.skipLF && s.base+s.line < s.end {
		if s.buf[s.base+s.line] == '\n' {
			s.line++
		}
		s.skipLF = false
		s.seen = max(s.seen, s.line)
	}
	rest := s.buf[s.base+s.seen : s.end]
	stop := bytes.IndexByte(rest, '\n')
	if stop >= 0 {
		rest = rest[:stop]
	}
	if cr := bytes.IndexByte(rest, '\r'); cr >= 0 {
		stop = cr
	}
	if stop < 0 {
		s.seen = s.end - s.base
		return span{}, false
	}
	line := span{s.line, s.seen + stop}
	s.skipLF = s.buf[s.base+line.to] == '\r'
	s.line = line.to + 1
	s.seen = s.line
	return line, true
}

var (
	fieldData  = []byte("data")
	fieldEvent = []byte("event")
)

// field reads one line that is not empty.
func (s *SSE) field(line span) {
	text := s.buf[s.base+line.from : s.base+line.to]
	if s.fresh {
		s.fresh = false
		text = bytes.TrimPrefix(text, []byte(jsonscan.ByteOrderMark))
		line.from = line.to - len(text)
	}
	name, value := text, span{line.to, line.to}
	if colon := bytes.IndexByte(text, ':'); colon >= 0 {
		name = text[:colon]
		value.from = line.from + colon + 1
		if value.from < line.to && s.buf[s.base+value.from] == ' ' {
			value.from++
		}
	}
	switch {
	case bytes.Equal(name, fieldData):
		s.addData(value)
	case bytes.Equal(name, fieldEvent):
		s.name = value
	}
}

func (s *SSE) addData(value span) {
	s.lines++
	if s.lines == 1 {
		s.data = value
		return
	}
	if s.lines == 2 {
		s.joined = append(s.joined[:0], s.bytes(s.data)...)
	}
	s.joined = append(s.joined, '\n')
	s.joined = append(s.joined, s.bytes(value)...)
}

func (s *SSE) bytes(at span) []byte { return s.buf[s.base+at.from : s.base+at.to] }

func (s *SSE) event() Event {
	e := Event{Name: s.bytes(s.name), Data: s.bytes(s.data)}
	if s.lines > 1 {
		e.Data = s.joined
		// JSON allows no raw line breaks inside strings, so in the payloads that
		// travel here a line break is only space, and one line holds them all.
		for i, c := range e.Data {
			if c == '\n' {
				e.Data[i] = ' '
			}
		}
	}
	return e
}

// last ends the stream: an event that lacks only its empty line counts.
func (s *SSE) last(err error) (Event, error) {
	if !errors.Is(err, io.EOF) {
		return Event{}, err
	}
	if s.base+s.line < s.end {
		s.field(span{s.line, s.end - s.base})
		s.line = s.end - s.base
	}
	if s.lines == 0 {
		return Event{}, io.EOF
	}
	s.cut = true
	return s.event(), nil
}

// fill reads more bytes behind the present ones.
func (s *input) fill() error {
	if s.err != nil {
		return s.err
	}
	if s.base == s.end && s.lender != nil {
		s.giveBack()
		s.lender.Await()
		s.lent = s.lender.Lend()
		s.buf, s.base, s.end = *s.lent, 0, 0
	}
	switch {
	case len(s.buf) > MaxKept && s.end-s.base <= MaxKept/2:
		// The large event that was is over.
		smaller := make([]byte, MaxKept)
		s.end = copy(smaller, s.buf[s.base:s.end])
		s.buf, s.base = smaller, 0
	case s.base > 0 && s.end == len(s.buf):
		s.end = copy(s.buf, s.buf[s.base:s.end])
		s.base = 0
	}
	if s.end == len(s.buf) {
		if len(s.buf) >= MaxEvent {
			s.err = ErrEventTooLarge
			return s.err
		}
		grown := make([]byte, min(max(firstRead, 2*len(s.buf)), MaxEvent))
		copy(grown, s.buf[:s.end])
		s.giveBack()
		s.buf = grown
	}
	n, err := s.from.Read(s.buf[s.end:])
	s.end += n
	s.err = err
	if n > 0 {
		return nil
	}
	return err
}

// giveBack gives the buffer up.
func (s *input) giveBack() {
	if s.lent != nil {
		s.lender.TakeBack(s.lent)
	}
	s.buf, s.lent = nil, nil
}
