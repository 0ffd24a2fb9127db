package answers

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Memory keeps answers in the memory of this process. Those that were unused for the
// longest time give way to new ones.
type Memory struct {
	mu       sync.Mutex
	settings Settings
	answers  map[memoryKey]*list.Element
	// order has those that were used last at its front. All are kept for the same
	// time, so that those which expire first are at its end.
	order list.List
	bytes int64
}

type memoryKey struct{ owner, id string }

type kept struct {
	*Answer
	until time.Time
}

// entrySize is about what an answer takes besides its texts.
const entrySize = 400

// NewMemory returns an empty store.
func NewMemory(s Settings) *Memory {
	return &Memory{settings: s, answers: map[memoryKey]*list.Element{}}
}

// Set changes how much is kept, and for how long from now on.
func (m *Memory) Set(s Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings = s
	m.shrink(time.Now())
}

// Size returns how many answers are kept, and how many bytes they take.
func (m *Memory) Size() (answers int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shrink(time.Now())
	return len(m.answers), m.bytes
}

// Put keeps an answer.
func (m *Memory) Put(_ context.Context, a *Answer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.size()+entrySize > int64(m.settings.MaxBytes)/largestShare {
		return ErrTooLarge
	}
	now := time.Now()
	key := memoryKey{a.Owner, a.ID}
	if old := m.answers[key]; old != nil {
		m.remove(old)
	}
	m.answers[key] = m.order.PushFront(&kept{a, now.Add(m.settings.TTL.Std())})
	m.bytes += a.size() + entrySize
	m.shrink(now)
	return nil
}

// shrink removes what has expired and what is too much.
func (m *Memory) shrink(now time.Time) {
	for last := m.order.Back(); last != nil; last = m.order.Back() {
		if m.bytes <= int64(m.settings.MaxBytes) && len(m.answers) <= m.settings.MaxResponses && last.Value.(*kept).until.After(now) {
			return
		}
		m.remove(last)
	}
}

func (m *Memory) remove(e *list.Element) {
	a := m.order.Remove(e).(*kept)
	delete(m.answers, memoryKey{a.Owner, a.ID})
	m.bytes -= a.size() + entrySize
}

// Get returns answers of an owner.
func (m *Memory) Get(_ context.Context, owner string, ids ...string) ([]*Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	found := make([]*Answer, len(ids))
	for i, id := range ids {
		e := m.answers[memoryKey{owner, id}]
		if e == nil {
			continue
		}
		a := e.Value.(*kept)
		if !a.until.After(now) {
			m.remove(e)
			continue
		}
		a.until = now.Add(m.settings.TTL.Std())
		m.order.MoveToFront(e)
		found[i] = a.Answer
	}
	return found, nil
}

// Delete removes an answer.
func (m *Memory) Delete(_ context.Context, owner, id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.answers[memoryKey{owner, id}]
	if e == nil {
		return false, nil
	}
	current := e.Value.(*kept).until.After(time.Now())
	m.remove(e)
	return current, nil
}
