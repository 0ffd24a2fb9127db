package ratelimit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxClients bounds how many clients a limiter remembers.
	maxClients = 10_000
	// clientMarks bounds the memory of a window of one client to 2 KiB.
	clientMarks = 128
	// clientShards keeps clients from waiting for each other.
	clientShards = 16
	// idleAfter is when a client that has nothing spent is forgotten.
	idleAfter = int64(30 * time.Minute)
	// evictionChoice is how many of the least recent clients are compared to find the
	// one that has spent least.
	evictionChoice = 8
)

// clientTable holds a spending for each client, in shards of limited size. When a shard
// is full, a new client replaces one of the least recent clients.
type clientTable struct {
	// seed is secret, so that nobody can choose addresses that crowd one shard.
	seed   maphash.Seed
	shards [clientShards]clientShard
}

type clientShard struct {
	mu     sync.Mutex
	rules  *rules
	places int
	byKey  map[netip.Addr]*client
	// ring is the fixed point of a circle of clients: ring.next asked last,
	// ring.prev has not asked for the longest time.
	ring client
}

type client struct {
	prev, next *client
	key        netip.Addr
	seen       int64
	spending   spending
}

func newClientTable(r *rules, places int) *clientTable {
	t := &clientTable{seed: maphash.MakeSeed()}
	for i := range t.shards {
		s := &t.shards[i]
		s.rules = r
		s.places = places / clientShards
		s.byKey = map[netip.Addr]*client{}
		s.ring.prev, s.ring.next = &s.ring, &s.ring
	}
	return t
}

// clientKey is what counts as one client: an IPv4 address however it is written,
// or the /64 network that an IPv6 subscriber can pick addresses from at will.
func clientKey(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if !addr.Is6() {
		return addr
	}
	return netip.PrefixFrom(addr, 64).Masked().Addr()
}

func (t *clientTable) decide(addr netip.Addr, now int64, spend bool, d *Decision) {
	key := clientKey(addr)
	s := &t.shards[maphash.Comparable(t.seed, key)%clientShards]
	s.mu.Lock()
	if spend {
		s.find(key, now).spending.decide(s.rules, now, true, d)
	} else {
		s.peek(key, now, d)
	}
	s.mu.Unlock()
}

// revise changes the spending of a client that was counted at a time and is still
// known from then.
func (t *clientTable) revise(addr netip.Addr, at, now int64, change func(t *spending, r *rules, at, now int64)) {
	key := clientKey(addr)
	s := &t.shards[maphash.Comparable(t.seed, key)%clientShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byKey[key]; c != nil && at >= c.spending.began {
		change(&c.spending, s.rules, at, now)
	}
}

func (t *clientTable) update(settings Settings, now int64) {
	for i := range t.shards {
		t.shards[i].update(settings, now)
	}
}

func (s *clientShard) update(settings Settings, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := newRules(settings, s.rules.warmStart, clientMarks)
	for c := s.ring.next; c != &s.ring; c = c.next {
		c.spending.adapt(s.rules, next, now)
	}
	s.rules = next
}

// find returns the client with the key, as the one that asked last.
func (s *clientShard) find(key netip.Addr, now int64) *client {
	c := s.byKey[key]
	if c == nil {
		c = s.admit(key, now)
	}
	if c != s.ring.next {
		c.unlink()
		s.pushFront(c)
	}
	c.seen = max(c.seen, now)
	return c
}

// peek decides without counting: an unknown client is not added, and a known one
// does not become more recent.
func (s *clientShard) peek(key netip.Addr, now int64, d *Decision) {
	if c := s.byKey[key]; c != nil {
		c.spending.decide(s.rules, now, false, d)
		return
	}
	var fresh spending
	fresh.begin(s.rules, now)
	fresh.decide(s.rules, now, false, d)
}

// admit gives a new client a place and a fresh spending.
func (s *clientShard) admit(key netip.Addr, now int64) *client {
	s.forgetIdle(now)
	var c *client
	if len(s.byKey) >= s.places {
		c = s.chooseEviction(now)
		s.remove(c)
	} else {
		c = &client{}
	}
	c.key, c.seen = key, now
	c.spending.begin(s.rules, now)
	s.byKey[key] = c
	s.pushFront(c)
	return c
}

// forgetIdle removes at most two clients that were idle for long and have nothing
// spent. It is called for every new client, so two at a time are enough.
func (s *clientShard) forgetIdle(now int64) {
	for range 2 {
		c := s.ring.prev
		if c == &s.ring || now-c.seen < idleAfter || c.spending.peek(s.rules, now).ResetAfter > 0 {
			return
		}
		s.remove(c)
	}
}

// chooseEviction picks who must go: among the least recent clients the one with the
// most remaining. A client that used up its limit and pauses thus outlives a
// crowd of addresses that come once each.
func (s *clientShard) chooseEviction(now int64) *client {
	var chosen *client
	most := -1
	c := s.ring.prev
	for range evictionChoice {
		if c == &s.ring || most == s.rules.capacity {
			break
		}
		if remaining := c.spending.peek(s.rules, now).Remaining; remaining > most {
			chosen, most = c, remaining
		}
		c = c.prev
	}
	return chosen
}

func (s *clientShard) remove(c *client) {
	delete(s.byKey, c.key)
	c.unlink()
}

func (s *clientShard) pushFront(c *client) {
	c.prev, c.next = &s.ring, s.ring.next
	c.prev.next, c.next.prev = c, c
}

func (c *client) unlink() {
	c.prev.next, c.next.prev = c.next, c.prev
}
