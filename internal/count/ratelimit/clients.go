package ratelimit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// wholeMarks bounds the memory of the window of all clients together to 64 KiB.
	wholeMarks = 4096
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

// clientTable holds a bucket for each client, in shards of limited size.
type clientTable struct {
	// seed is secret: nobody can choose addresses that crowd one shard.
	seed   maphash.Seed
	shards [clientShards]clientShard
}

// clientShard holds the buckets of some clients. When it is full, a new client replaces one
// of the least recent clients. A limit on all clients together is a shard with one client,
// the zero address.
type clientShard struct {
	mu     sync.Mutex
	rules  *rules
	places int
	byKey  map[netip.Addr]*client
	// newLease makes the leases of clients where gateways share the limit, by its settings;
	// nil elsewhere.
	newLease  func(key netip.Addr, settings *Settings) *Lease
	settings  Settings
	hasParted bool
	// ring is the fixed point of a circle of clients: ring.next asked last,
	// ring.prev has not asked for the longest time.
	ring client
}

type client struct {
	prev, next *client
	key        netip.Addr
	seen       int64
	bucket     bucket
	lease      *Lease // in place of the bucket where gateways share the limit
}

func newClientTable(r *rules, places int) *clientTable {
	t := &clientTable{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].init(r, places/clientShards)
	}
	return t
}

func (s *clientShard) init(r *rules, places int) {
	s.rules, s.places, s.byKey = r, places, map[netip.Addr]*client{}
	s.ring.prev, s.ring.next = &s.ring, &s.ring
}

// newWhole returns the shard of a limit on all clients together.
func newWhole(r *rules, now int64) *clientShard {
	s := &clientShard{}
	s.init(r, 1)
	s.find(netip.Addr{}, now)
	return s
}

// clientKey returns the address that counts as one client: an IPv4 address however it
// is written, or the /64 network that an IPv6 subscriber can pick addresses from at
// will.
func clientKey(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if !addr.Is6() {
		return addr
	}
	return netip.PrefixFrom(addr, 64).Masked().Addr()
}

// shard returns the shard of a client.
func (t *clientTable) shard(key netip.Addr) *clientShard {
	return &t.shards[maphash.Comparable(t.seed, key)%clientShards]
}

// decide answers one request of a client, into a decision that is zero. Without spend it
// only previews the answer: an unknown client is not added, and a known one does not
// become more recent.
func (s *clientShard) decide(key netip.Addr, now int64, spend bool, d *Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if spend {
		s.find(key, now).bucket.decide(s.rules, now, 1, true, d)
		return
	}
	if c := s.known(key); c != nil {
		c.bucket.decide(s.rules, now, 1, false, d)
		return
	}
	var fresh bucket
	fresh.begin(s.rules, now)
	fresh.decide(s.rules, now, 1, false, d)
}

// revise changes the bucket of a client that was counted at a time and is still
// known from then.
func (s *clientShard) revise(key netip.Addr, at, now int64, change func(b *bucket, r *rules, at, now int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.known(key); c != nil && at >= c.bucket.began {
		change(&c.bucket, s.rules, at, now)
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
	next := newRules(settings, s.rules.warmStart, s.rules.marks)
	for c := s.ring.next; c != &s.ring; c = c.next {
		if c.bucket.adapt(s.rules, next, now); c.lease != nil {
			c.lease.Update(settings)
		}
	}
	s.rules, s.settings = next, settings
}

// known returns the client with the key, nil if there is none. The latest client is found at
// once: a limit on all clients together has no other.
func (s *clientShard) known(key netip.Addr) *client {
	if last := s.ring.next; last.key == key && last != &s.ring {
		return last
	}
	return s.byKey[key]
}

// find returns the client with the key, as the one that asked last.
func (s *clientShard) find(key netip.Addr, now int64) *client {
	c := s.known(key)
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

// admit gives a new client a place and a fresh bucket.
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
	if c.bucket.begin(s.rules, now); s.newLease != nil {
		c.lease = s.newLease(key, &s.settings)
	}
	s.byKey[key] = c
	s.pushFront(c)
	return c
}

// forgetIdle removes at most two clients that were idle for long and have nothing
// spent. It is called for every new client, so two at a time are enough.
func (s *clientShard) forgetIdle(now int64) {
	for range 2 {
		c := s.ring.prev
		if c == &s.ring || now-c.seen < idleAfter || s.newLease == nil && c.bucket.peek(s.rules, now).ResetAfter > 0 {
			return
		}
		s.remove(c)
	}
}

// chooseEviction picks who must go: among the least recent clients the one with the most
// remaining. A client that used up its limit and pauses thus outlives a crowd of addresses
// that come once each. Of clients with leases the least recent one goes: the central store
// remembers what they have taken.
func (s *clientShard) chooseEviction(now int64) *client {
	var chosen *client
	most := -1
	c := s.ring.prev
	for range evictionChoice {
		if c == &s.ring || most == s.rules.capacity || s.newLease != nil && chosen != nil {
			break
		}
		if remaining := c.bucket.peek(s.rules, now).Remaining; remaining > most {
			chosen, most = c, remaining
		}
		c = c.prev
	}
	return chosen
}

func (s *clientShard) remove(c *client) {
	delete(s.byKey, c.key)
	if c.unlink(); c.lease != nil {
		c.lease.Remove()
	}
}

func (s *clientShard) pushFront(c *client) {
	c.prev, c.next = &s.ring, s.ring.next
	c.prev.next, c.next.prev = c, c
}

func (c *client) unlink() {
	c.prev.next, c.next.prev = c.next, c.prev
}
