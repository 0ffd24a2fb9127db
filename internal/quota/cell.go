package quota

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"
)

// cell is what one writer counts for one key in one window.
type cell struct {
	line   *line
	writer string
	start  int64
	window Window

	requests, tokens atomic.Int64
	// refs is the number of requests that will still add tokens; retired means
	// that the cell was let go and takes no more.
	refs atomic.Int32

	// What the snapshots have; the flusher's own.
	savedRequests, savedTokens int64
	// What the shared counter acknowledged, and whether the cell waits to be
	// pushed there.
	seenRequests, seenTokens atomic.Int64
	queued                   atomic.Bool
	// The segment of the journal that knows the cell, and its number there; the
	// journal's own.
	segment uint64
	id      uint32
}

const retired = -1

// acquire notes a request that will add tokens, unless the cell is retired.
func (c *cell) acquire() bool {
	for {
		n := c.refs.Load()
		if n == retired {
			return false
		}
		if c.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *cell) release() { c.refs.Add(-1) }

// saved tells whether the snapshots have all that was counted. Only the flusher
// asks.
func (c *cell) saved() bool {
	return c.requests.Load() == c.savedRequests && c.tokens.Load() == c.savedTokens
}

// row returns the totals as they are now.
func (c *cell) row() Row {
	return Row{
		Writer: c.writer, Key: c.line.key, Window: c.window, Start: time.Unix(c.start, 0).UTC(),
		Requests: c.requests.Load(), Tokens: c.tokens.Load(),
	}
}

// compare orders cells as Row.compare orders their rows.
func (c *cell) compare(other *cell) int {
	return cmp.Or(cmp.Compare(c.start, other.start), cmp.Compare(c.window, other.window),
		c.line.key.compare(other.line.key), cmp.Compare(c.writer, other.writer))
}

// line is a key and the cells that it has.
type line struct {
	key Key
	// newest has the latest cell of each window, the one that is wanted nearly
	// always.
	newest [WindowCount]atomic.Pointer[cell]

	mu      sync.Mutex
	older   []*cell
	retired bool // it is no longer in the book
}

// acquire returns the cell of a window, made if need be, with a reference to it.
// There is none if the line has been let go, or if the book has no room for
// another cell of the line.
func (l *line) acquire(b *book, w Window, start int64) (found *cell, gone bool) {
	if c := l.newest[w].Load(); c != nil && c.start == start && c.acquire() {
		return c, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return nil, true
	}
	newest := l.newest[w].Load()
	if newest != nil && newest.start == start && newest.acquire() {
		return newest, false
	}
	for _, c := range l.older {
		if c.window == w && c.start == start && c.acquire() {
			return c, false
		}
	}
	if b.cells.Load() >= b.roomFor(&l.key) {
		return nil, false
	}
	c := &cell{line: l, writer: b.writerFor(w, start), window: w, start: start}
	c.refs.Store(1)
	b.cells.Add(1)
	switch {
	case newest == nil:
		l.newest[w].Store(c)
	case start > newest.start:
		l.older = append(l.older, newest)
		l.newest[w].Store(c)
	default:
		l.older = append(l.older, c)
	}
	return c, false
}

// each calls f with every cell of the line.
func (l *line) each(f func(*cell)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.newest {
		if c := l.newest[w].Load(); c != nil {
			f(c)
		}
	}
	for _, c := range l.older {
		f(c)
	}
}

// prune lets go of the cells that may go, and reports whether none is left; the
// line is retired then.
func (l *line) prune(b *book, may func(*cell) bool) (empty bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.older[:0]
	for _, c := range l.older {
		if !b.retire(c, may) {
			kept = append(kept, c)
		}
	}
	clear(l.older[len(kept):])
	l.older = kept
	empty = len(kept) == 0
	for w := range l.newest {
		c := l.newest[w].Load()
		if c == nil {
			continue
		}
		if b.retire(c, may) {
			l.newest[w].Store(nil)
			continue
		}
		empty = false
	}
	l.retired = empty
	return empty
}
