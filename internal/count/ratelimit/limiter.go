package ratelimit

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Limiter counts the requests of one service, as a whole or client by client.
// All methods may be called at the same time. Only differences between the times
// passed in matter, and they are taken on the monotonic clock where the times
// carry it; a time before the latest one counts as the latest one.
type Limiter struct {
	start time.Time
	plan  atomic.Pointer[plan]
	mu    sync.Mutex // one Update at a time
	// pool and name are where the limit is shared with other gateways, if it is.
	pool *tally.Pool
	name string
}

// Decision is the answer to one request.
type Decision struct {
	// Limited is false where no limit is in force; the numbers below then mean
	// nothing.
	Limited bool
	Allowed bool
	// Limit is the capacity, and Remaining how many more requests would be
	// allowed at once.
	Limit, Remaining int
	// ResetAfter is the time until nothing counts as spent any more.
	ResetAfter time.Duration
	// RetryAfter is the time until the next request would be allowed: 0 while
	// Remaining is above 0.
	RetryAfter time.Duration
}

// plan holds everything that a request needs to know. Update replaces it as a whole.
// The counts it points to outlive it where the algorithm stays the same.
type plan struct {
	settings Settings
	// whole counts all clients together, clients each of them; the settings say which.
	whole   *clientShard
	clients *clientTable
	// shared has the leases where gateways share the limit, nil elsewhere.
	shared *clientShard
}

// of returns where a client is counted, and its key there.
func (p *plan) of(client netip.Addr) (*clientShard, netip.Addr) {
	key := netip.Addr{}
	if p.settings.ClientIPEnable {
		key = clientKey(client)
	}
	switch {
	case p.shared != nil:
		return p.shared, key
	case p.settings.ClientIPEnable:
		return p.clients.shard(key), key
	}
	return p.whole, key
}

// New returns a limiter with settings that passed Check, at the start of its
// warm-up, if it has one.
func New(settings Settings, start time.Time) *Limiter {
	l := &Limiter{start: start}
	l.plan.Store(newPlan(settings, 0))
	return l
}

func newPlan(settings Settings, now int64) *plan {
	return &plan{
		settings: settings,
		whole:    newWhole(newRules(settings, now, wholeMarks), now),
		clients:  newClientTable(newRules(settings, now, clientMarks), maxClients),
	}
}

// Allow counts one request if the limit allows it. A refused request costs
// nothing. The client matters only where every client has a limit of its own.
func (l *Limiter) Allow(client netip.Addr, now time.Time) Decision {
	d, _ := l.Take(client, now)
	return d
}

// Peek returns the answer that Allow would give, and counts nothing.
func (l *Limiter) Peek(client netip.Addr, now time.Time) (d Decision) {
	p := l.plan.Load()
	if !p.settings.Enabled {
		return Decision{Allowed: true}
	}
	shard, key := p.of(client)
	if p.shared != nil {
		return shard.peekLease(key, now)
	}
	shard.decide(key, l.sinceStart(now), false, &d)
	return d
}

// Take is Allow for a request that may yet be refused for another reason.
func (l *Limiter) Take(client netip.Addr, now time.Time) (d Decision, spent Spent) {
	p := l.plan.Load()
	if !p.settings.Enabled {
		return Decision{Allowed: true}, spent
	}
	shard, key := p.of(client)
	at := l.sinceStart(now)
	var receipt Receipt
	if p.shared != nil {
		d, receipt = shard.lease(key, at).Take(1, now)
	} else {
		shard.decide(key, at, true, &d)
	}
	if d.Allowed {
		spent = Spent{limiter: l, shard: shard, key: key, at: at, receipt: receipt}
	}
	return d, spent
}

// Update replaces the settings. Permits stay spent where the algorithm is the same, up
// to the new capacity; a new rate acts from now on. With another algorithm the limiter
// starts anew.
func (l *Limiter) Update(settings Settings, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.plan.Load()
	if settings == old.settings {
		return
	}
	at := l.sinceStart(now)
	next := &plan{settings: settings, whole: old.whole, clients: old.clients}
	if settings.Algorithm != old.settings.Algorithm {
		next = newPlan(settings, at)
	} else {
		old.whole.update(settings, at)
		old.clients.update(settings, at)
	}
	next.shared = l.shareAs(old.shared, settings, at)
	l.plan.Store(next)
}

// Share makes a limit, if its settings say so, common to all gateways that use the same
// name in the same store. It is called before the limiter is used.
func (l *Limiter) Share(pool *tally.Pool, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pool != nil || pool == nil {
		return
	}
	l.pool, l.name = pool, name
	next := *l.plan.Load()
	next.shared = l.shareAs(nil, next.settings, 0)
	l.plan.Store(&next)
}

// shareAs returns the leases for settings, given the leases used before.
func (l *Limiter) shareAs(before *clientShard, settings Settings, now int64) *clientShard {
	isShared := settings.Enabled && settings.Shared && l.pool != nil
	if before != nil && (!isShared || settings.ClientIPEnable != before.settings.ClientIPEnable) {
		before.part(l.pool)
		before = nil
	}
	if !isShared {
		return nil
	}
	if before == nil {
		return newShared(l.pool, l.name, settings)
	}
	before.update(settings, now)
	return before
}

// Withdraw says that the limiter is not used any more.
func (l *Limiter) Withdraw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if shared := l.plan.Load().shared; shared != nil {
		shared.part(l.pool)
	}
}

func (l *Limiter) sinceStart(now time.Time) int64 { return int64(now.Sub(l.start)) }
