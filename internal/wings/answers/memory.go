package answers

import (
	"container/heap"
	"container/list"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/recall"
)

// Memory keeps answers in the memory of this process. The answer that was unused for the
// longest time gives way to new answers, first that of the owner who has the most: nobody
// can push out the answers of others.
type Memory struct {
	mu       sync.Mutex
	settings Settings
	answers  map[memoryKey]*kept
	shelves  map[ownerKey]*shelf
	// byBytes and byCount have the shelves, the one with the most at the top.
	byBytes, byCount ranking
	// order has all answers, the last used ones at its front. All are kept for the same
	// time, and the ones that expire first are at its end.
	order list.List
	bytes int64
	// given has the ids that owners were given, as answers without content; nil where it is
	// such a store itself.
	given *Memory
}

type ownerKey struct{ key, issue string }

type memoryKey struct {
	owner ownerKey
	id    string
}

// kept is an answer, with its places in the order of all and on its shelf.
type kept struct {
	*recall.Answer
	until          time.Time
	inAll, onShelf *list.Element
}

// shelf has the answers of one owner, the last used ones at its front.
type shelf struct {
	owner ownerKey
	order list.List
	bytes int64
	place [measures]int // in the rankings
}

// last returns the answer that was unused for the longest time.
func (s *shelf) last() *kept { return s.order.Back().Value.(*kept) }

// The quantities that shelves are ranked by.
const (
	inBytes = iota
	inCount
	measures
)

// ranking is a heap of shelves.
type ranking struct {
	shelves []*shelf
	measure int
}

// Len returns the number of shelves.
func (r *ranking) Len() int { return len(r.shelves) }

// Less reports whether one shelf has more than another or, where both have the same, has
// the answer that was unused for longer.
func (r *ranking) Less(i, j int) bool {
	a, b := r.shelves[i], r.shelves[j]
	more := a.bytes - b.bytes
	if r.measure == inCount {
		more = int64(a.order.Len() - b.order.Len())
	}
	return more > 0 || more == 0 && a.last().until.Before(b.last().until)
}

// Swap exchanges two shelves.
func (r *ranking) Swap(i, j int) {
	r.shelves[i], r.shelves[j] = r.shelves[j], r.shelves[i]
	r.shelves[i].place[r.measure], r.shelves[j].place[r.measure] = i, j
}

// Push adds a shelf at the end.
func (r *ranking) Push(x any) {
	s := x.(*shelf)
	s.place[r.measure] = len(r.shelves)
	r.shelves = append(r.shelves, s)
}

// Pop removes the shelf at the end.
func (r *ranking) Pop() any {
	end := len(r.shelves) - 1
	s := r.shelves[end]
	r.shelves[end] = nil
	r.shelves = r.shelves[:end]
	return s
}

// entrySize is about the memory that an answer takes besides its texts.
const entrySize = 500

// NewMemory returns an empty store.
func NewMemory(s Settings) *Memory {
	m := newMemory(s)
	m.given = newMemory(givenSettings(s))
	return m
}

// givenSettings returns how many ids are remembered beside the answers that are kept by these
// settings: a tenth of their memory is enough for the items of all.
func givenSettings(s Settings) Settings {
	const perAnswer, part = 10, 10
	s.MaxResponses *= perAnswer
	s.MaxBytes /= part
	return s
}

func newMemory(s Settings) *Memory {
	return &Memory{
		settings: s, answers: map[memoryKey]*kept{}, shelves: map[ownerKey]*shelf{},
		byBytes: ranking{measure: inBytes}, byCount: ranking{measure: inCount},
	}
}

// Set changes how much is kept, and for how long from now on.
func (m *Memory) Set(s Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings = s
	m.shrink(time.Now())
	if m.given != nil {
		m.given.Set(givenSettings(s))
	}
}

// Size returns how many answers are kept, and how many bytes they take.
func (m *Memory) Size() (answers int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shrink(time.Now())
	return len(m.answers), m.bytes
}

// Put keeps an answer.
func (m *Memory) Put(_ context.Context, a *recall.Answer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sizeOf(a)+entrySize > int64(m.settings.MaxBytes)/largestShare {
		return recall.ErrTooLarge
	}
	now := time.Now()
	key := keyOf(a.Owner, a.ID)
	if old := m.answers[key]; old != nil {
		m.remove(old)
	}
	s := m.shelves[key.owner]
	isNew := s == nil
	if isNew {
		s = &shelf{owner: key.owner}
		m.shelves[key.owner] = s
	}
	k := &kept{Answer: a, until: now.Add(m.settings.TTL.Std())}
	k.inAll, k.onShelf = m.order.PushFront(k), s.order.PushFront(k)
	m.answers[key] = k
	s.bytes += sizeOf(k.Answer) + entrySize
	m.bytes += sizeOf(k.Answer) + entrySize
	if isNew {
		heap.Push(&m.byBytes, s)
		heap.Push(&m.byCount, s)
	} else {
		m.rank(s)
	}
	m.shrink(now)
	return nil
}

func keyOf(o recall.Owner, id string) memoryKey { return memoryKey{ownerKey{o.Key, o.Issue}, id} }

// rank puts a shelf that has changed in its place.
func (m *Memory) rank(s *shelf) {
	heap.Fix(&m.byBytes, s.place[inBytes])
	heap.Fix(&m.byCount, s.place[inCount])
}

// shrink removes expired answers, and the ones above the bounds.
func (m *Memory) shrink(now time.Time) {
	for last := m.order.Back(); last != nil && !last.Value.(*kept).until.After(now); last = m.order.Back() {
		m.remove(last.Value.(*kept))
	}
	for m.bytes > int64(m.settings.MaxBytes) {
		m.remove(m.byBytes.shelves[0].last())
	}
	for len(m.answers) > m.settings.MaxResponses {
		m.remove(m.byCount.shelves[0].last())
	}
}

func (m *Memory) remove(k *kept) {
	key := keyOf(k.Owner, k.ID)
	delete(m.answers, key)
	m.order.Remove(k.inAll)
	m.bytes -= sizeOf(k.Answer) + entrySize
	s := m.shelves[key.owner]
	s.bytes -= sizeOf(k.Answer) + entrySize
	s.order.Remove(k.onShelf)
	if s.order.Len() > 0 {
		m.rank(s)
		return
	}
	heap.Remove(&m.byBytes, s.place[inBytes])
	heap.Remove(&m.byCount, s.place[inCount])
	delete(m.shelves, key.owner)
}

// Get returns answers of an owner.
func (m *Memory) Get(_ context.Context, owner recall.Owner, ids ...string) ([]*recall.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	found := make([]*recall.Answer, len(ids))
	for i, id := range ids {
		k := m.find(owner, id, now)
		if k == nil {
			continue
		}
		k.until = now.Add(m.settings.TTL.Std())
		s := m.shelves[ownerKey{owner.Key, owner.Issue}]
		m.order.MoveToFront(k.inAll)
		s.order.MoveToFront(k.onShelf)
		m.rank(s)
		found[i] = k.Answer
	}
	return found, nil
}

// Delete removes an answer.
func (m *Memory) Delete(_ context.Context, owner recall.Owner, id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(owner, id, time.Now())
	if k != nil {
		m.remove(k)
	}
	return k != nil, nil
}

// find returns an answer that has not expired.
func (m *Memory) find(owner recall.Owner, id string, now time.Time) *kept {
	k := m.answers[keyOf(owner, id)]
	if k != nil && !k.until.After(now) {
		m.remove(k)
		return nil
	}
	return k
}

// Give notes that an owner was given ids.
func (m *Memory) Give(ctx context.Context, owner recall.Owner, ids ...string) error {
	for _, id := range ids {
		if err := m.given.Put(ctx, &recall.Answer{ID: strings.Clone(id), Owner: owner}); err != nil {
			return err
		}
	}
	return nil
}

// Given reports which ids an owner was given.
func (m *Memory) Given(ctx context.Context, owner recall.Owner, ids ...string) ([]bool, error) {
	found, err := m.given.Get(ctx, owner, ids...)
	given := make([]bool, len(found))
	for i, one := range found {
		given[i] = one != nil
	}
	return given, err
}
