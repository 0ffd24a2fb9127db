package quota

import (
	"hash/maphash"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// cellMap is the map from keys to their cells: everything that this writer
// counts. Its size is bounded.
type cellMap struct {
	writer               string
	maxKeys              int64
	isBounded            bool // by a Bound
	maxCells, spareCells int64
	calendar             calendar
	seed                 maphash.Seed
	shards               [shardCount]shard

	keys, cells atomic.Int64
	overflowed  atomic.Int64
	// latestPruned is, for each window, the latest start of a cell that was removed.
	// A cell that is created again for such a start gets another writer name,
	// because its totals begin at 0 and stores keep the greater total of a writer.
	latestPruned [WindowCount]atomic.Int64
	writerSuffix atomic.Int64

	// recovered are the cells of earlier processes. They never change, and their
	// owners are not among the keys of the shards.
	mu        sync.Mutex
	recovered []*cell
}

const (
	shardCount = 64
	// maxKeys is how many keys are counted separately.
	maxKeys = 100_000
	// spareKeys is the number of further keys with Overflow in place of the user.
	// Beyond that the tenant is replaced too, because without authentication clients
	// choose it.
	spareKeys = 5_000
	// maxCells is how many cells are held while the database is unavailable: about
	// twice as many as all keys have in open windows. Beyond it users are counted
	// together, after spareCells more also tenants, and after another spareCells
	// no cell is created.
	maxCells   = 800_000
	spareCells = 100_000
)

type shard struct {
	mu   sync.RWMutex
	keys map[Key]*keyCells
}

func newCellMap(writer string) *cellMap {
	m := &cellMap{
		writer: writer, maxKeys: maxKeys, maxCells: maxCells, spareCells: spareCells,
		seed: maphash.MakeSeed(),
	}
	for i := range m.latestPruned {
		m.latestPruned[i].Store(-1 << 63)
	}
	return m
}

// writerFor returns the writer of a new cell.
func (m *cellMap) writerFor(w Window, start int64) string {
	if m.isBounded || start > m.latestPruned[w].Load() { // a run that was removed is not counted again
		return m.writer
	}
	return m.writer + "." + strconv.FormatInt(m.writerSuffix.Add(1), 10)
}

// acquire returns the cells of a subject in the windows that are counted, with a
// reference to each. It reports whether there was room for all of them. It
// allocates nothing for a subject that was seen before.
func (m *cellMap) acquire(who *Subject, windows *[WindowCount]bool, second int64, to *[WindowCount]*cell) (all bool) {
	owner := m.find(who)
	all = true
	isFolded := false
	for w := Minute; int(w) < WindowCount; w++ {
		if to[w] = nil; !windows[w] {
			continue
		}
		start := m.calendar.start(w, second)
		if owner != nil {
			to[w], _ = owner.acquire(m, w, start)
		}
		if to[w] == nil {
			folded := false
			to[w], folded = m.acquireNew(who.key(), w, start)
			isFolded = isFolded || folded
		}
		all = all && to[w] != nil
	}
	if isFolded {
		m.overflowed.Add(1)
	}
	return all
}

// acquireNew returns the cell of a key. If there are too many keys or cells, that is the cell
// that counts all users together, or also all tenants, and folded is true. It returns nil if
// there is no room for that cell either.
func (m *cellMap) acquireNew(key Key, w Window, start int64) (c *cell, folded bool) {
	for _, maxKeys := range [...]int64{m.maxKeys, m.maxKeys + spareKeys, unbounded} {
		for gone := true; gone; {
			owner := m.insert(key, maxKeys)
			if owner == nil {
				break
			}
			c, gone = owner.acquire(m, w, start)
		}
		if c != nil {
			return c, folded
		}
		if folded {
			key.Tenant = Overflow
		}
		key.User, folded = Overflow, true
	}
	return nil, true
}

// cellLimit returns the bound of the number of cells: beyond it a key gets no further
// cell.
func (m *cellMap) cellLimit(key *Key) int64 {
	if key.Tenant == Overflow {
		return m.maxCells + 2*m.spareCells
	}
	if key.User == Overflow {
		return m.maxCells + m.spareCells
	}
	return m.maxCells
}

// reason returns why new cells are folded into Overflow; it says nothing if they are not.
func (m *cellMap) reason() say.Sentence {
	held := m.cells.Load()
	code := say.Code("quota.memory")
	switch {
	case held < m.maxCells:
		return say.Sentence{}
	case held >= m.maxCells+2*m.spareCells:
		code = "quota.memory_lost"
	}
	return say.New(code, "held", held, "overflow", Overflow)
}

// unbounded is the limit for folded keys; the configuration bounds their number.
const unbounded = 1 << 62

// isFull reports whether runs must be removed for later ones to be counted separately.
func (m *cellMap) isFull() bool { return m.isBounded && m.keys.Load() > m.maxKeys*3/4 }

// find returns the cells of a subject, nil if it has none.
func (m *cellMap) find(who *Subject) *keyCells {
	s := m.shard(maphash.Bytes(m.seed, who.User), who.Tenant, who.APIKey, who.Model)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[Key{who.Tenant, who.APIKey, string(who.User), who.Service, who.Model}]
}

func (m *cellMap) shard(user uint64, tenant, key, model string) *shard {
	// Without the rotation equal parts would cancel each other out.
	h := user ^ bits.RotateLeft64(maphash.String(m.seed, tenant), 16) ^
		bits.RotateLeft64(maphash.String(m.seed, key), 32) ^ bits.RotateLeft64(maphash.String(m.seed, model), 48)
	return &m.shards[(h^h>>32)%shardCount]
}

// insert returns the cells of a key, which it adds unless there are maxKeys
// already; then it returns nil.
func (m *cellMap) insert(key Key, maxKeys int64) *keyCells {
	s := m.shard(maphash.String(m.seed, key.User), key.Tenant, key.APIKey, key.Model)
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.keys[key]; found != nil {
		return found
	}
	if m.keys.Load() >= maxKeys {
		return nil
	}
	m.keys.Add(1)
	made := &keyCells{key: key}
	if s.keys == nil {
		s.keys = map[Key]*keyCells{}
	}
	s.keys[key] = made
	return made
}

// restore adds the totals of other writers.
func (m *cellMap) restore(rows []Row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := map[Key]*keyCells{}
	for i := range rows {
		row := &rows[i]
		owner := owners[row.Key]
		if owner == nil {
			owner = &keyCells{key: row.Key, recovered: true}
			owners[row.Key] = owner
		}
		c := &cell{owner: owner, writer: row.Writer, window: row.Window, start: row.Start.Unix()}
		c.counts.add(row.Totals)
		m.recovered = append(m.recovered, c)
		m.cells.Add(1)
	}
}

// each calls f with every cell.
func (m *cellMap) each(f func(*cell)) {
	for i := range m.shards {
		for _, k := range m.shards[i].all() {
			k.each(f)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.recovered {
		f(c)
	}
}

func (s *shard) all() []*keyCells {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*keyCells, 0, len(s.keys))
	for _, k := range s.keys {
		all = append(all, k)
	}
	return all
}

// prune removes the cells that mayPrune allows and that no request uses.
func (m *cellMap) prune(mayPrune func(*cell) bool) {
	for i := range m.shards {
		s := &m.shards[i]
		for _, k := range s.all() {
			if !k.prune(m, mayPrune) {
				continue
			}
			s.mu.Lock()
			delete(s.keys, k.key)
			s.mu.Unlock()
			m.keys.Add(-1)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.recovered[:0]
	for _, c := range m.recovered {
		if mayPrune(c) {
			m.cells.Add(-1)
			continue
		}
		kept = append(kept, c)
	}
	clear(m.recovered[len(kept):])
	m.recovered = kept
}

// retire removes a cell if mayPrune allows it and no request uses it.
func (m *cellMap) retire(c *cell, mayPrune func(*cell) bool) bool {
	if !mayPrune(c) {
		return false
	}
	// latestPruned is raised before the cell is retired: a request that finds the
	// cell retired must find the new value, to choose another writer name.
	before := m.latestPruned[c.window].Load()
	m.latestPruned[c.window].Store(max(before, c.start))
	if c.refs.CompareAndSwap(0, retired) {
		if mayPrune(c) {
			m.cells.Add(-1)
			return true
		}
		c.refs.Store(0) // a request came in between
	}
	m.latestPruned[c.window].Store(before)
	return false
}
