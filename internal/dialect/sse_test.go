package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// streams is the corpus of the tests that split streams: every line end,
// comments, several data lines, marks, ends that are missing.
var streams = []string{
	"",
	"\n",
	"\n\n\n",
	"data: one\n\n",
	"data: one\n\ndata: two\n\n",
	"data:one\r\n\r\ndata: two\r\n\r\n",
	"data: one\r\rdata: two\r\r",
	"data: one\n\r\ndata: two\r\n\n",
	"data: one\r\n\rdata: two\n\r",
	"data: a\ndata: b\ndata:\ndata: c\n\n",
	"data\n\n",
	"data:\n\n",
	"data: \n\n",
	"data:  two spaces\n\n",
	": comment\n\n: another\ndata: x\n: inside\n\n",
	"event: ping\n\nevent: delta\ndata: {\"a\":1}\nid: 7\nretry: 10\n\n",
	"event:delta\r\ndata:{}\r\n\r\n",
	"data: x\nevent: late\n\n",
	"\ufeffdata: x\n\n",
	"\ufeff\ndata: x\n\n",
	"\n\ufeffdata: x\n\n",
	"data: \ufeffx\n\n",
	"data: no end",
	"data: one line end\n",
	"data: one\n\ndata: half",
	"data: a\ndata: b",
	"event: only\n\n",
	"dat",
	"data: 你好🙂\n\n",
	"data: [DONE]\n\n",
	"nonsense\n\ndata : x\n\n data: y\n\n",
	"data: " + strings.Repeat("x", 3*firstRead) + "\n\ndata: y\n\n",
	strings.Repeat("data: chunk\n\n", 400),
}

// told is an event whose bytes stay.
type told struct{ name, data string }

func readAll(from io.Reader) (list []told, err error) {
	s := NewSSE(from)
	for {
		event, err := s.Next()
		if err != nil {
			return list, err
		}
		list = append(list, told{string(event.Name), string(event.Data)})
	}
}

// reference reads a whole stream in the plainest way: normalise the line ends,
// cut into lines, obey the rules one after another.
func reference(stream string) (list []told) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	var name string
	var data []string
	for line := range strings.SplitSeq(stream+"\n\n", "\n") {
		if line == "" {
			if data != nil {
				list = append(list, told{name, strings.Join(data, " ")})
			}
			name, data = "", nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
		case "event":
			name = value
		}
	}
	return list
}

func TestSSEReadsWhatTheRulesSay(t *testing.T) {
	for _, stream := range streams {
		got, err := readAll(strings.NewReader(stream))
		if !errors.Is(err, io.EOF) {
			t.Errorf("%.60q: %v", stream, err)
		}
		if want := reference(stream); !slices.Equal(got, want) {
			t.Errorf("%.60q: events %.200q, want %.200q", stream, got, want)
		}
	}
}

// TestSSEGivesTheSameEventsForEverySplit cuts every stream at every place into
// two reads, and into reads of every size.
func TestSSEGivesTheSameEventsForEverySplit(t *testing.T) {
	for _, stream := range streams {
		want := reference(stream)
		check := func(how string, from io.Reader) {
			t.Helper()
			if got, err := readAll(from); !errors.Is(err, io.EOF) || !slices.Equal(got, want) {
				t.Fatalf("%.60q %s: events %.200q (%v), want %.200q", stream, how, got, err, want)
			}
		}
		for at := range len(stream) + 1 {
			check(fmt.Sprintf("cut at %d", at), io.MultiReader(strings.NewReader(stream[:at]), strings.NewReader(stream[at:])))
		}
		for size := 1; size <= min(len(stream), 40); size++ {
			check(fmt.Sprintf("in pieces of %d", size), &pieces{rest: []byte(stream), size: func() int { return size }})
		}
		check("with the end beside the last bytes", iotest.DataErrReader(strings.NewReader(stream)))
	}
}

// pieces is a reader that gives as many bytes at a time as it is told to.
type pieces struct {
	rest []byte
	size func() int
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.rest[:min(len(p.rest), p.size())])
	p.rest = p.rest[n:]
	return n, nil
}

func FuzzSSE(f *testing.F) {
	for i, stream := range streams {
		if len(stream) <= 200 {
			f.Add([]byte(stream), uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		want := reference(string(stream))
		whole, err := readAll(bytes.NewReader(stream))
		if !errors.Is(err, io.EOF) || !slices.Equal(whole, want) {
			t.Fatalf("whole: events %q (%v), want %q", whole, err, want)
		}
		random := rand.New(rand.NewPCG(seed, 1))
		split, err := readAll(&pieces{rest: stream, size: func() int { return 1 + random.IntN(7) }})
		if !errors.Is(err, io.EOF) || !slices.Equal(split, want) {
			t.Fatalf("split: events %q (%v), want %q", split, err, want)
		}
	})
}

// endless is a reader that never ends and never says anything new.
type endless struct {
	text string
	at   int
	read int
}

func (e *endless) Read(to []byte) (int, error) {
	for n := 0; n < len(to); {
		some := copy(to[n:], e.text[e.at:])
		n += some
		e.at = (e.at + some) % len(e.text)
	}
	e.read += len(to)
	return len(to), nil
}

func TestSSEStopsAtAnEventThatIsTooLarge(t *testing.T) {
	for name, text := range map[string]string{
		"a line without an end":       "data: xxxxxxxxxxxxxxxxxxxx",
		"data lines without an end":   "data: x\n",
		"comments without an end":     ": x\n",
		"other fields without an end": "id: x\n",
	} {
		t.Run(name, func(t *testing.T) {
			from := &endless{text: strings.Repeat(text, 1000)}
			s := NewSSE(from)
			for range 3 { // the error stays
				if _, err := s.Next(); !errors.Is(err, ErrEventTooLarge) {
					t.Fatalf("error %v, want %v", err, ErrEventTooLarge)
				}
			}
			if from.read > MaxEvent || cap(s.buf) > MaxEvent {
				t.Errorf("read %d bytes into %d of memory, want at most %d", from.read, cap(s.buf), MaxEvent)
			}
		})
	}
}

func TestSSETakesAnEventJustWithinTheLimit(t *testing.T) {
	const frame = len("data: \n\n")
	data := strings.Repeat("x", MaxEvent-frame)
	got, err := readAll(strings.NewReader("data: " + data + "\n\ndata: next\n\n"))
	if !errors.Is(err, io.EOF) || !slices.Equal(got, []told{{"", data}, {"", "next"}}) {
		t.Errorf("%d events (%v), want 2", len(got), err)
	}
	if _, err := readAll(strings.NewReader("data: xxx" + data + "\n\n")); !errors.Is(err, ErrEventTooLarge) {
		t.Errorf("three bytes more: error %v, want %v", err, ErrEventTooLarge)
	}
}

// TestSSEPassesOnTheReadersError makes sure that a broken connection is not
// taken for the end, and that events before the break are not lost.
func TestSSEPassesOnTheReadersError(t *testing.T) {
	broken := errors.New("connection reset")
	got, err := readAll(io.MultiReader(strings.NewReader("data: one\n\ndata: half"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || !slices.Equal(got, []told{{"", "one"}}) {
		t.Errorf("events %q (%v), want the first one and %v", got, err, broken)
	}
}

// TestSSEGivesMemoryBackWithoutLosingBytes goes from large events to small ones,
// with the smaller buffer taken in the middle of all kinds of events.
func TestSSEGivesMemoryBackWithoutLosingBytes(t *testing.T) {
	small := strings.Repeat("event: e\ndata: a\ndata: b\n: c\n\n", 200)
	stream := "\ufeff"
	for _, size := range []int{MaxKept - 10, MaxKept, 2*MaxKept + 1, 5 * MaxKept} {
		large := strings.Repeat("x", size)
		stream += "data: " + large + "\n\n" + small + "data: " + large + "\ndata: " + large + "\r\n\r\n" + small
	}
	want := reference(stream)
	for _, size := range []int{7, 33, 1000, 4096, MaxKept + 1, len(stream)} {
		got, err := readAll(&pieces{rest: []byte(stream), size: func() int { return size }})
		if !errors.Is(err, io.EOF) || !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: %d events (%v), want %d", size, len(got), err, len(want))
		}
	}
}

func TestSSEKeepsItsMemorySmallForSmallEvents(t *testing.T) {
	s := NewSSE(strings.NewReader(strings.Repeat("data: small\n\n", 10_000)))
	for {
		if _, err := s.Next(); err != nil {
			break
		}
	}
	if cap(s.buf) > firstRead {
		t.Errorf("%d bytes of memory, want %d", cap(s.buf), firstRead)
	}
}

// lending is a reader that overwrites the memory that it gets back, and that notes what
// is lent while it waits.
type lending struct {
	chunks       []string
	lent         int
	lentAtAwaits []int
}

func (l *lending) Read(p []byte) (int, error) {
	if len(l.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.chunks[0])
	if l.chunks[0] = l.chunks[0][n:]; l.chunks[0] == "" {
		l.chunks = l.chunks[1:]
	}
	return n, nil
}

func (l *lending) Await() { l.lentAtAwaits = append(l.lentAtAwaits, l.lent) }

func (l *lending) Lend() *[]byte {
	l.lent++
	b := make([]byte, 16)
	return &b
}

func (l *lending) TakeBack(b *[]byte) {
	l.lent--
	for i := range *b {
		(*b)[i] = 0xff
	}
}

func TestAStreamThatWaitsHoldsNoMemoryForEvents(t *testing.T) {
	from := &lending{chunks: []string{"data: 1\n\n", "data: 2\n", "\n", "data: a long one, longer than what was lent\n\n", "data: 3\n\ndata: 4\n\n"}}
	s := NewSSE(from)
	for _, want := range []string{"1", "2", "a long one, longer than what was lent", "3", "4"} {
		event, err := s.Next()
		if err != nil || string(event.Data) != want {
			t.Fatalf("%q, %v, want %q", event.Data, err, want)
		}
	}
	if _, err := s.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last event: %v", err)
	}
	for n, lent := range from.lentAtAwaits {
		if lent > 0 {
			t.Errorf("wait %d: %d buffers are lent", n, lent)
		}
	}
	if len(from.lentAtAwaits) < 4 {
		t.Errorf("%d waits", len(from.lentAtAwaits))
	}
}
