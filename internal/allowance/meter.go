package allowance

import (
	"sync"
	"time"
)

// Meter limits an amount in every minute. All methods may be called at the same time.
// A meter that several gateways share implements it like the local one.
type Meter interface {
	// SetLimit sets the amount; what was taken before stays taken.
	SetLimit(limit int64)
	// Take takes an amount if the limit leaves room for it. An amount above the whole
	// limit is taken when nothing else counts.
	Take(amount int64, now time.Time) State
	// Correct changes by a difference what was taken at a moment. It is never refused:
	// what was used was used.
	Correct(taken time.Time, difference int64, now time.Time)
	// Peek returns the state, with what Take of 1 would answer.
	Peek(now time.Time) State
}

// State is the state of a limit for a caller.
type State struct {
	Allowed          bool
	Limit, Remaining int64
	// ResetAfter is the time until nothing counts any more, and RetryAfter the time
	// until what was asked for would be allowed: 0 if it was.
	ResetAfter, RetryAfter time.Duration
}

// minute is what a meter counts over, in slots of a second. One slot more than a minute
// has is kept, so that no sixty seconds have more than the limit wherever they begin.
const minute = 60

// localMeter is the meter of this process alone.
type localMeter struct {
	start time.Time

	mu    sync.Mutex
	limit int64
	slots [minute + 1]int64 // by the second, modulo their number
	last  int64             // the second of the newest slot
	sum   int64
}

// NewMeter returns a meter of this process alone.
func NewMeter(_ string, now time.Time) Meter { return &localMeter{start: now} }

func (m *localMeter) SetLimit(limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = limit
}

func (m *localMeter) Take(amount int64, now time.Time) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	room := m.limit - m.sum
	needed := min(amount, m.limit)
	state := State{Allowed: needed <= room}
	if state.Allowed {
		m.add(m.last, amount)
	} else {
		state.RetryAfter = m.untilRoom(needed, now)
	}
	m.describe(&state, now)
	return state
}

func (m *localMeter) Peek(now time.Time) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	state := State{Allowed: m.sum < m.limit}
	if !state.Allowed {
		state.RetryAfter = m.untilRoom(1, now)
	}
	m.describe(&state, now)
	return state
}

func (m *localMeter) Correct(taken time.Time, difference int64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	second := m.last
	if difference < 0 {
		// What is given back frees the second in which it was taken.
		if second = m.secondOf(taken); second <= m.last-int64(len(m.slots)) {
			return // it does not count any more
		}
		difference = -min(-difference, m.slots[second%int64(len(m.slots))])
	}
	m.add(second, difference)
}

func (m *localMeter) secondOf(t time.Time) int64 { return max(0, int64(t.Sub(m.start)/time.Second)) }

func (m *localMeter) add(second, amount int64) {
	m.slots[second%int64(len(m.slots))] += amount
	m.sum += amount
}

// advance forgets what was taken more than a minute ago. A time before the latest one
// counts as the latest one.
func (m *localMeter) advance(now time.Time) {
	second := m.secondOf(now)
	if second-m.last >= int64(len(m.slots)) {
		m.slots, m.sum, m.last = [minute + 1]int64{}, 0, second
		return
	}
	for m.last < second {
		m.last++
		slot := &m.slots[m.last%int64(len(m.slots))]
		m.sum -= *slot
		*slot = 0
	}
}

// untilRoom returns the time until an amount would be allowed.
func (m *localMeter) untilRoom(needed int64, now time.Time) time.Duration {
	room := m.limit - m.sum
	for second := m.last - minute; second <= m.last; second++ {
		if second < 0 {
			continue
		}
		if room += m.slots[second%int64(len(m.slots))]; room >= needed {
			return m.untilForgotten(second, now)
		}
	}
	return m.untilForgotten(m.last, now)
}

// untilForgotten returns the time until what was taken in a second does not count any
// more.
func (m *localMeter) untilForgotten(second int64, now time.Time) time.Duration {
	end := m.start.Add(time.Duration(second+minute+1) * time.Second)
	return max(end.Sub(now), time.Millisecond)
}

func (m *localMeter) describe(state *State, now time.Time) {
	state.Limit, state.Remaining = m.limit, max(0, m.limit-m.sum)
	for second := m.last; m.sum > 0 && second >= max(0, m.last-minute); second-- {
		if m.slots[second%int64(len(m.slots))] > 0 {
			state.ResetAfter = m.untilForgotten(second, now)
			return
		}
	}
}
