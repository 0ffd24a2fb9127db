package quota

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
)

// book holds everything that a writer counts, in memory and bounded.
type book struct {
	writer               string
	maxLines             int64
	maxCells, spareCells int64
	calendar             calendar
	seed                 maphash.Seed
	shards               [shardCount]shard

	lines, cells atomic.Int64
	overflowed   atomic.Int64
	// gone is the latest start, window by window, of a cell that was let go. A
	// cell that comes again gets another writer: its totals begin at nothing,
	// and a store would take the greater ones of the first for both.
	gone  [WindowCount]atomic.Int64
	again atomic.Int64

	// recovered are the cells of writers that are no more. They never change, and
	// their lines are retired.
	mu        sync.Mutex
	recovered []*cell
}

const (
	shardCount = 64
	// maxLines is how many keys are told apart.
	maxLines = 100_000
	// spareLines is how many more there may be for what remains of a key when
	// its user is folded; beyond it tenants are folded too, which a client may
	// name where there is no authentication.
	spareLines = 5_000
	// maxCells is how many counts are held while the database does not take them:
	// about twice as many as all keys have in open windows. Beyond it users are
	// counted together, beyond spareCells more tenants too, and beyond that many
	// again nothing new is counted.
	maxCells   = 800_000
	spareCells = 100_000
)

type shard struct {
	mu    sync.RWMutex
	lines map[Key]*line
}

func newBook(writer string) *book {
	b := &book{writer: writer, maxLines: maxLines, maxCells: maxCells, spareCells: spareCells, seed: maphash.MakeSeed()}
	for i := range b.gone {
		b.gone[i].Store(-1 << 63)
	}
	return b
}

// writerFor returns the writer of a new cell.
func (b *book) writerFor(w Window, start int64) string {
	if start > b.gone[w].Load() {
		return b.writer
	}
	return b.writer + "." + strconv.FormatInt(b.again.Add(1), 10)
}

// acquire returns the cells of a subject in the windows that are counted, with a
// reference to each. It reports whether there was room for all of them. Subjects
// that were seen before cost no memory.
func (b *book) acquire(who *Subject, windows *[WindowCount]bool, second int64, to *[WindowCount]*cell) (all bool) {
	found, folded := b.find(who), false
	all = true
	for w := Minute; int(w) < WindowCount; w++ {
		to[w] = nil
		if !windows[w] {
			continue
		}
		start := b.calendar.start(w, second)
		c, gone := found.acquire(b, w, start)
		for gone {
			found = b.find(who)
			c, gone = found.acquire(b, w, start)
		}
		if c == nil {
			c, folded = b.acquireFolded(found.key, w, start), true
		}
		to[w], all = c, all && c != nil
	}
	if folded {
		b.overflowed.Add(1)
	}
	return all
}

// acquireFolded returns the cell in which those are counted together for whom
// there is no room, nil if there is none for that either.
func (b *book) acquireFolded(key Key, w Window, start int64) *cell {
	key.User = Overflow
	if c := b.acquireOf(key, b.maxLines+spareLines, w, start); c != nil {
		return c
	}
	key.Tenant = Overflow
	return b.acquireOf(key, unbounded, w, start)
}

func (b *book) acquireOf(key Key, mostLines int64, w Window, start int64) *cell {
	for {
		found := b.insert(key, mostLines)
		if found == nil {
			return nil
		}
		if c, gone := found.acquire(b, w, start); !gone {
			return c
		}
	}
}

// roomFor returns how many cells there may be for a key to get another one.
func (b *book) roomFor(key *Key) int64 {
	switch {
	case key.Tenant == Overflow:
		return b.maxCells + 2*b.spareCells
	case key.User == Overflow:
		return b.maxCells + b.spareCells
	}
	return b.maxCells
}

// reason says that counts are not kept apart any more for want of room; empty
// where they are.
func (b *book) reason() string {
	held := b.cells.Load()
	if held < b.maxCells {
		return ""
	}
	reason := fmt.Sprintf("quota-memory-full: %d counts wait for the database; new ones are counted together as %s", held, Overflow)
	if held >= b.maxCells+2*b.spareCells {
		reason += ", and where that cannot be, not at all"
	}
	return reason
}

// unbounded stands for keys whose number the configuration bounds.
const unbounded = 1 << 62

func (b *book) find(who *Subject) *line {
	if !who.tooLong() {
		s := b.shard(maphash.Bytes(b.seed, who.User), who.Tenant, who.APIKey, who.Model)
		s.mu.RLock()
		found := s.lines[Key{who.Tenant, who.APIKey, string(who.User), who.Service, who.Model}]
		s.mu.RUnlock()
		if found != nil {
			return found
		}
	}
	return b.make(who.key())
}

func (b *book) shard(user uint64, tenant, key, model string) *shard {
	h := user ^ maphash.String(b.seed, tenant)*3 ^ maphash.String(b.seed, key)*5 ^ maphash.String(b.seed, model)*7
	return &b.shards[(h^h>>32)%shardCount]
}

// make returns the line of a key, or of what is left of it when there are too
// many. A key may come from many goroutines at once.
func (b *book) make(key Key) *line {
	if found := b.insert(key, b.maxLines); found != nil {
		return found
	}
	b.overflowed.Add(1)
	key.User = Overflow
	if found := b.insert(key, b.maxLines+spareLines); found != nil {
		return found
	}
	key.Tenant = Overflow
	return b.insert(key, unbounded)
}

// insert returns the line of a key if it exists or may exist.
func (b *book) insert(key Key, most int64) *line {
	s := b.shard(maphash.String(b.seed, key.User), key.Tenant, key.APIKey, key.Model)
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.lines[key]; found != nil {
		return found
	}
	if b.lines.Load() >= most {
		return nil
	}
	b.lines.Add(1)
	made := &line{key: key}
	if s.lines == nil {
		s.lines = map[Key]*line{}
	}
	s.lines[key] = made
	return made
}

// restore adds what other writers have counted.
func (b *book) restore(rows []Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := map[Key]*line{}
	for i := range rows {
		row := &rows[i]
		l := lines[row.Key]
		if l == nil {
			l = &line{key: row.Key, retired: true}
			lines[row.Key] = l
		}
		c := &cell{line: l, writer: row.Writer, window: row.Window, start: row.Start.Unix()}
		c.requests.Store(row.Requests)
		c.tokens.Store(row.Tokens)
		b.recovered = append(b.recovered, c)
		b.cells.Add(1)
	}
}

// each calls f with every cell.
func (b *book) each(f func(*cell)) {
	for i := range b.shards {
		for _, l := range b.shards[i].all() {
			l.each(f)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.recovered {
		f(c)
	}
}

func (s *shard) all() []*line {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*line, 0, len(s.lines))
	for _, l := range s.lines {
		all = append(all, l)
	}
	return all
}

// prune lets go of the cells that may go.
func (b *book) prune(may func(*cell) bool) {
	for i := range b.shards {
		s := &b.shards[i]
		for _, l := range s.all() {
			if !l.prune(b, may) {
				continue
			}
			s.mu.Lock()
			delete(s.lines, l.key)
			s.mu.Unlock()
			b.lines.Add(-1)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.recovered[:0]
	for _, c := range b.recovered {
		if may(c) {
			b.cells.Add(-1)
			continue
		}
		kept = append(kept, c)
	}
	clear(b.recovered[len(kept):])
	b.recovered = kept
}

// retire lets go of a cell if it may go and nobody needs it.
func (b *book) retire(c *cell, may func(*cell) bool) bool {
	if !may(c) {
		return false
	}
	// First the note, then the cell: who finds it gone must find the note.
	before := b.gone[c.window].Load()
	b.gone[c.window].Store(max(before, c.start))
	if c.refs.CompareAndSwap(0, retired) {
		if may(c) {
			b.cells.Add(-1)
			return true
		}
		c.refs.Store(0) // a request came in between
	}
	b.gone[c.window].Store(before)
	return false
}
