package ratelimit

import (
	"net/netip"
	"slices"
	"time"
)

// Snapshot is a limiter at one moment.
type Snapshot struct {
	Enabled    bool
	Algorithm  Algorithm
	Capacity   int
	Remaining  int // of the limit on all clients together
	RefillRate int
	// NextRefill is when one more request will be available; the present where
	// nothing is spent.
	NextRefill time.Time
	// Shared says that the limit is one of several gateways together. Remaining is then
	// the last number that this gateway heard.
	Shared bool
	// PerClient says that each client has its own limit, and that there is none on all
	// clients together.
	PerClient bool
	// Clients are the ones that asked last, the latest first, without the ones that
	// asked long ago.
	Clients []ClientSnapshot
}

// ClientSnapshot is the remaining amount of one client.
type ClientSnapshot struct {
	// Client is an IPv4 address (32 bits) or an IPv6 network (64 bits); it is not
	// valid where the address of the client is unknown.
	Client      netip.Prefix
	Remaining   int
	Capacity    int
	LastRequest time.Time
}

// Snapshot returns the limiter as it is now, with at most so many clients, and
// counts nothing.
func (l *Limiter) Snapshot(now time.Time, clients int) Snapshot {
	p := l.plan.Load()
	at := l.sinceStart(now)
	whole, next := p.whole.peekNext(at)
	s := Snapshot{
		Enabled:    p.settings.Enabled,
		Algorithm:  p.settings.Algorithm,
		Capacity:   p.settings.Capacity,
		Remaining:  whole.Remaining,
		RefillRate: p.settings.RefillRate,
		NextRefill: now.Add(next),
		Shared:     p.shared != nil,
		PerClient:  p.settings.ClientIPEnable,
	}
	switch {
	case s.Shared && s.PerClient:
		s.Clients = p.shared.appendLatest(nil, now, at, clients)
	case s.Shared:
		d := p.shared.peekLease(netip.Addr{}, now)
		s.Remaining, s.NextRefill = d.Remaining, now.Add(d.RetryAfter)
	case s.Enabled && s.PerClient:
		s.Clients = p.clients.latest(now, at, clients)
	}
	return s
}

// peekNext returns the state of the limit on all clients together, and the time until it
// has room for one more request.
func (s *clientShard) peekNext(now int64) (Decision, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole := &s.byKey[netip.Addr{}].bucket
	return whole.peek(s.rules, now), whole.untilNext(s.rules, now)
}

// latest lists the clients that asked last.
func (t *clientTable) latest(now time.Time, at int64, most int) []ClientSnapshot {
	var all []ClientSnapshot
	for i := range t.shards {
		all = t.shards[i].appendLatest(all, now, at, most)
	}
	slices.SortStableFunc(all, func(a, b ClientSnapshot) int { return b.LastRequest.Compare(a.LastRequest) })
	return all[:min(most, len(all))]
}

func (s *clientShard) appendLatest(all []ClientSnapshot, now time.Time, at int64, most int) []ClientSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.ring.next
	for range most {
		if c == &s.ring || at-c.seen >= idleAfter {
			break
		}
		one := ClientSnapshot{
			Client:      clientPrefix(c.key),
			Remaining:   c.bucket.peek(s.rules, at).Remaining,
			Capacity:    s.rules.capacity,
			LastRequest: now.Add(-time.Duration(at - c.seen)),
		}
		if c.lease != nil {
			one.Remaining = c.lease.Peek(now).Remaining
		}
		all = append(all, one)
		c = c.next
	}
	return all
}

// ClientName writes a client for people: an address, or the network of an IPv6
// subscriber.
func ClientName(client netip.Prefix) string {
	if !client.IsValid() {
		return "unknown"
	}
	if client.IsSingleIP() {
		return client.Addr().String()
	}
	return client.String()
}

func clientPrefix(key netip.Addr) netip.Prefix {
	if key.Is4() {
		return netip.PrefixFrom(key, 32)
	}
	return netip.PrefixFrom(key, 64)
}
