package allowance

import (
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/tally"
)

// SharedMeters returns a function that makes meters which all gateways of a pool have
// together, for NewAccounts.
func SharedMeters(pool *tally.Pool) func(name string, now time.Time) Meter {
	return func(name string, _ time.Time) Meter { return &sharedMeter{pool: pool, name: "allowance/" + name} }
}

// sharedMeter is the part that this gateway has in a limit of several gateways. It takes
// part when it has a limit.
type sharedMeter struct {
	pool *tally.Pool
	name string

	mu    sync.Mutex
	lease *ratelimit.Lease
	limit int64
}

func (m *sharedMeter) SetLimit(limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = limit
	if m.lease == nil {
		m.lease = ratelimit.NewWindowLease(m.pool, m.name, limit, minute)
	} else {
		m.lease.Resize(limit)
	}
}

func (m *sharedMeter) now() (*ratelimit.Lease, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease, m.limit
}

func (m *sharedMeter) Take(amount int64, now time.Time) State {
	lease, limit := m.now()
	if lease == nil {
		return State{}
	}
	needed := min(amount, limit)
	decision, _ := lease.Take(int(needed), now)
	if decision.Allowed && amount > needed {
		lease.Settle(int(amount-needed), now)
	}
	return stateOf(decision)
}

func (m *sharedMeter) Peek(now time.Time) State {
	lease, _ := m.now()
	if lease == nil {
		return State{}
	}
	return stateOf(lease.Peek(now))
}

func (m *sharedMeter) Correct(_ time.Time, difference int64, now time.Time) {
	if lease, _ := m.now(); lease != nil {
		lease.Settle(int(difference), now)
	}
}

// close ends the part in the limit.
func (m *sharedMeter) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lease != nil {
		m.lease.Remove()
	}
	m.lease = nil
}

func stateOf(d ratelimit.Decision) State {
	state := State{Allowed: d.Allowed, Limit: int64(d.Limit), Remaining: int64(d.Remaining), ResetAfter: d.ResetAfter}
	if !d.Allowed {
		state.RetryAfter = d.RetryAfter
	}
	return state
}
