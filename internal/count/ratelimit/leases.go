package ratelimit

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/tally"
)

// leaseTable is a limit that gateways share: one lease, or one for each client.
type leaseTable struct {
	pool        *tally.Pool
	name        string
	isPerClient bool
	whole       *Lease // nil where every client has one

	mu       sync.Mutex
	settings Settings
	clients  map[netip.Addr]*clientLease
	removed  bool
}

type clientLease struct {
	lease *Lease
	seen  time.Time
}

func newLeaseTable(pool *tally.Pool, name string, settings Settings) *leaseTable {
	t := &leaseTable{pool: pool, name: name, settings: settings, isPerClient: settings.ClientIPEnable}
	if t.isPerClient {
		t.clients = map[netip.Addr]*clientLease{}
		pool.Join() // so that the pool is ready before the first client comes
	} else {
		t.whole = NewLease(pool, name, settings)
	}
	return t
}

func (t *leaseTable) take(client netip.Addr, now time.Time) (Decision, Receipt) {
	return t.of(client, now).Take(1, now)
}

func (t *leaseTable) peek(client netip.Addr, now time.Time) Decision {
	if !t.isPerClient {
		return t.whole.Peek(now)
	}
	t.mu.Lock()
	known := t.clients[clientKey(client)]
	settings := t.settings
	t.mu.Unlock()
	if known != nil {
		return known.lease.Peek(now)
	}
	return Decision{Limited: true, Allowed: true, Limit: settings.Capacity, Remaining: settings.Capacity}
}

// of returns the lease that applies to a client.
func (t *leaseTable) of(client netip.Addr, now time.Time) *Lease {
	if !t.isPerClient {
		return t.whole
	}
	key := clientKey(client)
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.clients[key]
	if known == nil {
		if len(t.clients) >= maxClients {
			t.evict()
		}
		known = &clientLease{lease: NewLease(t.pool, t.name+"/"+ClientName(clientPrefix(key)), t.settings)}
		t.clients[key] = known
	}
	known.seen = now
	return known.lease
}

// evict removes the client that has not asked for the longest time, of a few. The
// central store remembers what it has spent.
func (t *leaseTable) evict() {
	var oldest netip.Addr
	found, compared := false, 0
	for key, c := range t.clients {
		if !found || c.seen.Before(t.clients[oldest].seen) {
			oldest, found = key, true
		}
		if compared++; compared == evictionChoice {
			break
		}
	}
	t.clients[oldest].lease.Remove()
	delete(t.clients, oldest)
}

func (t *leaseTable) update(settings Settings) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settings = settings
	if t.whole != nil {
		t.whole.Update(settings)
	}
	for _, c := range t.clients {
		c.lease.Update(settings)
	}
}

func (t *leaseTable) remove() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.removed {
		return
	}
	t.removed = true
	if t.whole != nil {
		t.whole.Remove()
		return
	}
	t.pool.Part()
	for _, c := range t.clients {
		c.lease.Remove()
	}
}

// latest lists the clients that asked last.
func (t *leaseTable) latest(now time.Time, most int) []ClientSnapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]ClientSnapshot, 0, len(t.clients))
	for key, c := range t.clients {
		if now.Sub(c.seen) < time.Duration(idleAfter) {
			all = append(all, ClientSnapshot{Client: clientPrefix(key), Capacity: t.settings.Capacity, LastRequest: c.seen})
		}
	}
	slices.SortFunc(all, func(a, b ClientSnapshot) int { return b.LastRequest.Compare(a.LastRequest) })
	all = all[:min(most, len(all))]
	for i := range all {
		all[i].Remaining = t.clients[all[i].Client.Addr()].lease.Peek(now).Remaining
	}
	return all
}
