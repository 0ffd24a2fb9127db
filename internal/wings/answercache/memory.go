package answercache

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Key is the SHA-256 of everything that an answer depends on.
type Key [32]byte

// Answer is an answer that is kept. Nobody may change it.
type Answer struct {
	ContentType string
	// Events says that the parts come from a stream of events, and Framed that they have
	// the form of server-sent events.
	Events, Framed bool
	// Data has the parts one behind the other, and Ends where each of them ends.
	Data  []byte
	Ends  []int
	Usage schema.Usage
	// Pool identifies the settings of the instances that made the answer.
	Pool Key
}

// size is about the memory that the answer takes.
func (a *Answer) size() int64 { return int64(cap(a.Data)+8*cap(a.Ends)+len(a.ContentType)) + entrySize }

// entrySize is about the memory that an answer takes besides its parts.
const entrySize = 500

// Store keeps answers.
type Store interface {
	// Get returns an answer, nil if it is not there.
	Get(ctx context.Context, key Key) (*Answer, error)
	// Put keeps an answer that is not too large.
	Put(ctx context.Context, key Key, a *Answer) error
	// Clear removes all answers.
	Clear(ctx context.Context) error
}

// Memory keeps answers in the memory of this process.
type Memory struct {
	mu       sync.Mutex
	settings Settings
	answers  map[Key]*kept
	used     list.List // the last used ones at its front
	made     list.List // the newest ones at its front
	bytes    int64
	evicted  int64
}

type kept struct {
	*Answer
	key            Key
	until          time.Time
	inUsed, inMade *list.Element
}

// NewMemory returns an empty store.
func NewMemory(s Settings) *Memory { return &Memory{settings: s, answers: map[Key]*kept{}} }

// Set changes how much is kept, and for how long from now on.
func (m *Memory) Set(s Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings = s
	m.shrink(time.Now())
}

// Size returns how many answers are kept, how many bytes they take, and how many gave way
// to others since the start.
func (m *Memory) Size() (answers int, bytes, evicted int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shrink(time.Now())
	return len(m.answers), m.bytes, m.evicted
}

// Get returns an answer.
func (m *Memory) Get(_ context.Context, key Key) (*Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.answers[key]
	if k == nil || !k.until.After(time.Now()) {
		return nil, nil
	}
	m.used.MoveToFront(k.inUsed)
	return k.Answer, nil
}

// Put keeps an answer.
func (m *Memory) Put(_ context.Context, key Key, a *Answer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.answers[key]; old != nil {
		m.remove(old)
	}
	now := time.Now()
	k := &kept{Answer: a, key: key, until: now.Add(m.settings.TTL.Std())}
	k.inUsed, k.inMade = m.used.PushFront(k), m.made.PushFront(k)
	m.answers[key] = k
	m.bytes += a.size()
	m.shrink(now)
	return nil
}

// Clear removes all answers.
func (m *Memory) Clear(context.Context) error {
	m.KeepOnly(nil)
	return nil
}

// KeepOnly removes the answers of all pools but these.
func (m *Memory) KeepOnly(pools map[Key]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.answers {
		if !pools[k.Pool] {
			m.remove(k)
		}
	}
}

// shrink removes expired answers, and the least recently used ones above the bound.
func (m *Memory) shrink(now time.Time) {
	for last := m.made.Back(); last != nil && !last.Value.(*kept).until.After(now); last = m.made.Back() {
		m.remove(last.Value.(*kept))
	}
	for m.bytes > int64(m.settings.MaxBytes) {
		m.remove(m.used.Back().Value.(*kept))
		m.evicted++
	}
}

func (m *Memory) remove(k *kept) {
	delete(m.answers, k.key)
	m.used.Remove(k.inUsed)
	m.made.Remove(k.inMade)
	m.bytes -= k.size()
}
