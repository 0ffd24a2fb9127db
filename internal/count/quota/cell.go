package quota

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"
)

// cell holds the totals of one writer for one key in one window.
type cell struct {
	owner  *keyCells
	writer string
	start  int64
	window Window

	counts counts
	// refs is the number of requests that will still add tokens, or retired when
	// the cell was removed and counts nothing any more.
	refs atomic.Int32

	// stored are the totals that the database has. Only flushes use them.
	stored Totals
	// queued says that the cell waits to be told to the shared counter.
	queued atomic.Bool
	// The segment of the journal that defines the cell, and its number there. Only
	// the journal uses them.
	segment uint64
	id      uint32
}

const retired = -1

// counts are Totals that several goroutines change.
type counts struct{ requests, tokens, prompt, completion, cost atomic.Int64 }

func (c *counts) load() Totals {
	return Totals{c.requests.Load(), c.tokens.Load(), c.prompt.Load(), c.completion.Load(), c.cost.Load()}
}

func (c *counts) add(more Totals) {
	if more.Requests != 0 { // settling adds none, and a write to shared memory takes time
		c.requests.Add(more.Requests)
	}
	c.tokens.Add(more.Tokens)
	c.prompt.Add(more.Prompt)
	c.completion.Add(more.Completion)
	for {
		before := c.cost.Load()
		if c.cost.CompareAndSwap(before, addCost(before, more.Cost)) {
			return
		}
	}
}

// acquire adds a reference, unless the cell is retired.
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

// saved reports whether the database has the current totals. Only flushes call it.
func (c *cell) saved() bool { return c.counts.load() == c.stored }

// row returns the current totals.
func (c *cell) row() Row {
	return Row{c.writer, c.owner.key, c.window, time.Unix(c.start, 0).UTC(), c.counts.load()}
}

// compare orders cells as a database orders their rows.
func (c *cell) compare(other *cell) int {
	return cmp.Or(cmp.Compare(c.start, other.start), cmp.Compare(c.window, other.window),
		c.owner.key.compare(other.owner.key), cmp.Compare(c.writer, other.writer))
}

// keyCells is a key and its cells.
type keyCells struct {
	key Key
	// newest has the latest cell of each window, which nearly every request uses.
	newest [WindowCount]atomic.Pointer[cell]

	mu      sync.Mutex
	older   []*cell
	retired bool // it is no longer in the cellMap

	recovered bool // its cells come from an earlier process
}

// acquire returns the cell of a window with a reference to it, and creates it if
// necessary. It returns no cell if the keyCells is retired (gone), or if the
// cellMap has no room for another cell of this key.
func (k *keyCells) acquire(m *cellMap, w Window, start int64) (found *cell, gone bool) {
	if c := k.newest[w].Load(); c != nil && c.start == start && c.acquire() {
		return c, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.retired {
		return nil, true
	}
	newest := k.newest[w].Load()
	if newest != nil && newest.start == start && newest.acquire() {
		return newest, false
	}
	for _, c := range k.older {
		if c.window == w && c.start == start && c.acquire() {
			return c, false
		}
	}
	if m.cells.Load() >= m.cellLimit(&k.key) {
		return nil, false
	}
	c := &cell{owner: k, writer: m.writerFor(w, start), window: w, start: start}
	c.refs.Store(1)
	m.cells.Add(1)
	if newest != nil && start < newest.start {
		k.older = append(k.older, c)
		return c, false
	}
	if newest != nil {
		k.older = append(k.older, newest)
	}
	k.newest[w].Store(c)
	return c, false
}

// each calls f with every cell of the key.
func (k *keyCells) each(f func(*cell)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for w := range k.newest {
		if c := k.newest[w].Load(); c != nil {
			f(c)
		}
	}
	for _, c := range k.older {
		f(c)
	}
}

// prune removes the cells that mayPrune allows and that no request uses. It reports
// whether none is left; the keyCells is retired then.
func (k *keyCells) prune(m *cellMap, mayPrune func(*cell) bool) (empty bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := k.older[:0]
	for _, c := range k.older {
		if !m.retire(c, mayPrune) {
			kept = append(kept, c)
		}
	}
	clear(k.older[len(kept):])
	k.older = kept
	empty = len(kept) == 0
	for w := range k.newest {
		c := k.newest[w].Load()
		if c == nil {
			continue
		}
		if m.retire(c, mayPrune) {
			k.newest[w].Store(nil)
			continue
		}
		empty = false
	}
	k.retired = empty
	return empty
}
