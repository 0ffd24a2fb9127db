package callfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// Query says which calls a search looks at.
type Query struct {
	// Before and After bound the numbers of the calls; neither is included.
	Before, After uint64
	// From and To are when the calls began, From included; zero for any time. They only save
	// reading: calls of other times are passed on, too.
	From, To time.Time
	// Most is how many calls are looked at.
	Most int
}

// Search passes on calls, the newest first, until yield returns false or there are no more.
// It returns the number before which a further search goes on, 0 where there is nothing.
func (f *File) Search(ctx context.Context, q Query, yield func(*calls.Record) bool) (next uint64, err error) {
	if f == nil {
		return 0, nil
	}
	select {
	case f.searching <- struct{}{}:
		defer func() { <-f.searching }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	s := search{Query: q, ctx: ctx, yield: yield}
	waiting, segments := f.view(ofRecords)
	for _, c := range slices.Backward(waiting) {
		if c.Sequence < s.Before && !s.look(&c) {
			return s.next(), s.ctx.Err()
		}
	}
	for _, one := range slices.Backward(segments) {
		if one.first >= s.Before {
			continue
		}
		if s.isOver(one.written) {
			break
		}
		if !f.searchSegment(&s, one) {
			return s.next(), s.ctx.Err()
		}
	}
	return 0, s.ctx.Err()
}

// view returns the records that wait, and the segments.
func (f *File) view(k kind) ([]calls.Record, []stored) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.waiting), slices.Clone(f.logs[k].segments)
}

// search is a search on its way. Before moves with it.
type search struct {
	Query
	ctx   context.Context //nolint:containedctx // it is that of one call
	yield func(*calls.Record) bool
	seen  int
}

// look passes a call on, and reports whether the search goes on.
func (s *search) look(c *calls.Record) bool {
	if c.Sequence <= s.After {
		s.Before = 0
		return false
	}
	if s.seen >= s.Most {
		return false
	}
	s.seen++
	s.Before = c.Sequence
	return s.yield(c)
}

// next returns where a further search goes on.
func (s *search) next() uint64 {
	if s.Before <= 1 {
		return 0
	}
	return s.Before
}

// isOver reports whether what was written until then is too old for the search.
func (s *search) isOver(written time.Time) bool {
	return !s.From.IsZero() && written.Before(s.From)
}

// mayHave reports whether a block can have calls of the time that is asked for.
func (s *search) mayHave(of span) bool {
	return (s.From.IsZero() || of.latest >= s.From.UnixMicro()) && (s.To.IsZero() || of.earliest < s.To.UnixMicro())
}

// searchSegment looks at the calls of a segment, and reports whether the search goes on. What
// cannot be read is left out.
func (f *File) searchSegment(s *search, one stored) bool {
	read, err := f.read(one, maxSegment)
	if err != nil {
		f.unread(err)
		return true
	}
	for n, b := range slices.Backward(read.blocks) {
		if b.first >= s.Before || !s.mayHave(b.span) {
			continue
		}
		if s.ctx.Err() != nil {
			return false
		}
		lines, err := read.lines(n)
		if err != nil {
			f.unread(err)
			continue
		}
		for _, line := range slices.Backward(lines) {
			c, err := readRecord(line)
			if err != nil || c.Sequence >= s.Before {
				continue
			}
			if !s.look(c) {
				return false
			}
		}
	}
	return true
}

// unread notes that something could not be read. A segment that was deleted in the meantime
// was too old.
func (f *File) unread(err error) {
	if !errors.Is(err, os.ErrNotExist) {
		f.fault("read", err)
	}
}

// contentsEntry is what was captured of a call as a line.
type contentsEntry struct {
	Number  uint64         `json:"n"`
	Kept    string         `json:"kept"`
	Headers []entryHeader  `json:"headers,omitzero"`
	Request *entryContents `json:"request,omitzero"`
	Answer  *entryContents `json:"answer,omitzero"`
}

type entryHeader struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	IsMasked bool   `json:"masked,omitzero"`
}

type entryContents struct {
	Type  string `json:"type,omitzero"`
	Bytes int64  `json:"bytes"`
	Text  string `json:"text,omitzero"`
	IsCut bool   `json:"cut,omitzero"`
}

// appendContents appends the line of what was captured of a call, if anything was.
func appendContents(to []byte, c *calls.Record) ([]byte, error) {
	if c.Captured == nil {
		return to, nil
	}
	e := contentsEntry{Number: c.Sequence, Kept: c.Captured.What.String()}
	for _, h := range c.Captured.Headers {
		e.Headers = append(e.Headers, entryHeader(h))
	}
	if c.Captured.What == metrics.CaptureContent {
		e.Request, e.Answer = contentsOf(&c.Captured.Request), contentsOf(&c.Captured.Answer)
	}
	line, err := json.Marshal(&e, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return to, fmt.Errorf("the contents of a call cannot be written: %w", err)
	}
	return append(append(to, line...), '\n'), nil
}

func contentsOf(from *calls.Content) *entryContents {
	return &entryContents{from.Type, from.Bytes, from.String(), from.IsCut}
}

// Captured returns what was captured of the call with a number, nil for nothing.
func (f *File) Captured(number uint64) *calls.Captured {
	if f == nil {
		return nil
	}
	waiting, segments := f.view(ofContents)
	for i := range waiting {
		if waiting[i].Sequence == number {
			return waiting[i].Captured
		}
	}
	for _, one := range slices.Backward(segments) {
		if one.first > number {
			continue
		}
		return f.capturedIn(one, number)
	}
	return nil
}

// capturedIn returns what a segment has of the call with a number.
func (f *File) capturedIn(one stored, number uint64) *calls.Captured {
	read, err := f.read(one, maxSegment)
	if err != nil {
		f.unread(err)
		return nil
	}
	for n, b := range read.blocks {
		if number < b.first || number > b.last {
			continue
		}
		lines, err := read.lines(n)
		if err != nil {
			f.unread(err)
			return nil
		}
		for _, line := range lines {
			var e contentsEntry
			if json.Unmarshal(line, &e) == nil && e.Number == number {
				return e.captured()
			}
		}
	}
	return nil
}

func (e *contentsEntry) captured() *calls.Captured {
	c := &calls.Captured{}
	if c.What.UnmarshalText([]byte(e.Kept)) != nil {
		return nil
	}
	for _, h := range e.Headers {
		c.Headers = append(c.Headers, calls.Header(h))
	}
	for from, to := range map[*entryContents]*calls.Content{e.Request: &c.Request, e.Answer: &c.Answer} {
		if from != nil {
			*to = calls.Content{Type: from.Type, Bytes: from.Bytes, Text: []byte(from.Text), IsCut: from.IsCut}
		}
	}
	return c
}
