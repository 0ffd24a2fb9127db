package ratelimit

import (
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// newShared returns the leases of a limit that gateways share: one, or one for each client.
func newShared(pool *tally.Pool, name string, settings Settings) *clientShard {
	s := &clientShard{settings: settings}
	s.newLease = func(key netip.Addr, settings *Settings) *Lease {
		if settings.ClientIPEnable {
			return NewLease(pool, name+"/"+ClientName(clientPrefix(key)), *settings)
		}
		return NewLease(pool, name, *settings)
	}
	if s.init(newRules(settings, 0, clientMarks), maxClients); settings.ClientIPEnable {
		pool.Join() // the pool is ready before the first client comes
	} else {
		s.find(netip.Addr{}, 0)
	}
	return s
}

// lease returns the lease of a client.
func (s *clientShard) lease(key netip.Addr, now int64) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(key, now).lease
}

// peekLease returns the answer that a client would get if it asked. A client that never
// came has everything, and is not added.
func (s *clientShard) peekLease(key netip.Addr, now time.Time) Decision {
	s.mu.Lock()
	c, capacity := s.byKey[key], s.rules.capacity
	s.mu.Unlock()
	if c == nil {
		return Decision{Limited: true, Allowed: true, Limit: capacity, Remaining: capacity}
	}
	return c.lease.Peek(now)
}

// part ends the part of this gateway in a limit that it shared. Only the first call counts.
func (s *clientShard) part(pool *tally.Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasParted {
		return
	}
	if s.hasParted = true; s.settings.ClientIPEnable {
		pool.Part()
	}
	for c := s.ring.next; c != &s.ring; c = c.next {
		c.lease.Remove()
	}
}
