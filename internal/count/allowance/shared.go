package allowance

import (
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/count/tally"
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

func (m *sharedMeter) Resize(limit int64) {
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

func (m *sharedMeter) Take(amount int, now time.Time) ratelimit.Decision {
	lease, limit := m.now()
	if lease == nil {
		return ratelimit.Decision{}
	}
	needed := int(min(int64(amount), limit))
	decision, _ := lease.Take(needed, now)
	if decision.Allowed && amount > needed {
		lease.Settle(amount-needed, now)
	}
	return decision
}

func (m *sharedMeter) Peek(now time.Time) ratelimit.Decision {
	lease, _ := m.now()
	if lease == nil {
		return ratelimit.Decision{}
	}
	return lease.Peek(now)
}

func (m *sharedMeter) Settle(_ time.Time, difference int, now time.Time) {
	if lease, _ := m.now(); lease != nil {
		lease.Settle(difference, now)
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
