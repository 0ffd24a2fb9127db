package quota

import (
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
)

// book holds everything that a writer counts, in memory and bounded.
type book struct {
	writer   string
	maxLines int64
	calendar calendar
	seed     maphash.Seed
	shards   [shardCount]shard

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
)

type shard struct {
	mu    sync.RWMutex
	lines map[Key]*line
}

func newBook(writer string) *book {
	b := &book{writer: writer, maxLines: maxLines, seed: maphash.MakeSeed()}
	for i := range b.shards {
		b.shards[i].lines = map[Key]*line{}
	}
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

// acquire returns the cell of a subject in a window, with a reference to it.
// Subjects that were seen before cost no memory.
func (b *book) acquire(who *Subject, windows *[WindowCount]bool, second int64, to *[WindowCount]*cell) {
	found := b.find(who)
	for w := Minute; int(w) < WindowCount; w++ {
		to[w] = nil
		for windows[w] && to[w] == nil {
			if to[w] = found.acquire(b, w, b.calendar.start(w, second)); to[w] == nil {
				found = b.find(who) // the line was let go meanwhile
			}
		}
	}
}

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
	return b.insert(key, 1<<62) // what is left of the key comes from the configuration
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
