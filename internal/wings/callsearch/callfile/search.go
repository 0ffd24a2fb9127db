package callfile

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/store/journal"
)

// Search passes on calls, the newest first, until yield returns false or there are no more.
// It returns the number before which a further search goes on, 0 where there is nothing.
func (f *File) Search(ctx context.Context, q calls.Query, yield func(*calls.Record) bool) (next uint64, err error) {
	select {
	case f.searching <- struct{}{}:
		defer func() { <-f.searching }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	s := search{Query: q, ctx: ctx, yield: yield}
	for _, one := range slices.Backward(f.segments(ofRecords)) {
		if one.First >= s.Before {
			continue
		}
		if s.isOver(one.Written) {
			break
		}
		if !f.searchSegment(&s, one) {
			return s.next(), s.ctx.Err()
		}
	}
	return 0, s.ctx.Err()
}

// segments returns the segments of one kind, the oldest first.
func (f *File) segments(k kind) []journal.Part {
	f.writing.Lock()
	defer f.writing.Unlock()
	return slices.Clone(f.logs[k].Files)
}

// search is a search on its way. Before moves with it.
type search struct {
	calls.Query
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

// isOver reports whether everything written until then is too old for the search.
func (s *search) isOver(written time.Time) bool {
	return !s.From.IsZero() && written.Before(s.From)
}

// mayHave reports whether a block can have calls of the time that is asked for.
func (s *search) mayHave(of span) bool {
	return (s.From.IsZero() || of.latest >= s.From.UnixMicro()) && (s.To.IsZero() || of.earliest < s.To.UnixMicro())
}

// searchSegment looks at the calls of a segment, and reports whether the search goes on. It
// leaves unreadable calls out.
func (f *File) searchSegment(s *search, one journal.Part) bool {
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
			c, err := f.form.readRecord(line)
			if err != nil {
				f.unread(err)
				continue
			}
			if c.Sequence >= s.Before {
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

// Captured returns the captured parts of the call with a number, or nil if there are none.
func (f *File) Captured(number uint64) *calls.Captured {
	for _, one := range slices.Backward(f.segments(ofContents)) {
		if one.First > number {
			continue
		}
		return f.capturedIn(one, number)
	}
	return nil
}

// capturedIn returns the captured parts that a segment has of the call with a number.
func (f *File) capturedIn(one journal.Part, number uint64) *calls.Captured {
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
			if of, captured, err := f.form.readCaptured(line); err == nil && of == number {
				return captured
			}
		}
	}
	return nil
}
