package ratelimit

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func perClient(algorithm Algorithm, capacity, rate int) Settings {
	s := limit(algorithm, capacity, rate)
	s.ClientIPEnable = true
	return s
}

func (t *clientTable) size() (n int) {
	for i := range t.shards {
		n += len(t.shards[i].byKey)
	}
	return n
}

func TestAddressesThatCountAsOneClient(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
		{"0.0.0.1", "::1", false},
	} {
		a, b := clientKey(netip.MustParseAddr(c.a)), clientKey(netip.MustParseAddr(c.b))
		if (a == b) != c.same {
			t.Errorf("%s and %s: keys %v and %v", c.a, c.b, a, b)
		}
	}
	if clientKey(netip.Addr{}) != (netip.Addr{}) {
		t.Error("an unknown address has a key of its own")
	}
}

func TestEachClientHasAFullLimitOfItsOwn(t *testing.T) {
	for _, algorithm := range []Algorithm{TokenBucket, LeakyBucket, SlidingWindow} {
		r := newRig(t, perClient(algorithm, 5, 1))
		for n := range uint32(100) {
			r.client = v4(n)
			r.burst(5)
		}
		r.client = netip.Addr{}
		r.burst(5)
	}
}

// The service warms up, not the client: who comes late finds it warm.
func TestClientsShareTheWarmUpOfTheService(t *testing.T) {
	r := newRig(t, perClient(WarmUp, 30, 1))
	r.burst(10)
	r.after(time.Hour)
	r.client = v4(2)
	r.burst(30)
}

func TestTurningClientLimitsOnAndOff(t *testing.T) {
	r := newRig(t, limit(TokenBucket, 5, 1))
	r.burst(5)
	r.edit(func(s *Settings) { s.ClientIPEnable = true })
	r.burst(5)
	r.edit(func(s *Settings) { s.ClientIPEnable = false })
	r.burst(0)
	r.edit(func(s *Settings) { s.ClientIPEnable = true; s.Capacity = 7 })
	r.burst(2) // 5 of 7 are spent
}

func TestManyMoreClientsThanFitStayWithinTheBound(t *testing.T) {
	r := newRig(t, perClient(TokenBucket, 1000, 1000))
	table := r.plan.Load().clients
	for n := range uint32(4 * maxClients) {
		r.after(time.Microsecond)
		r.Allow(v4(n), r.now)
		if n%50_000 == 0 && table.size() > maxClients {
			t.Fatalf("%d clients after %d", table.size(), n)
		}
	}
	if n := table.size(); n > maxClients || n < maxClients*9/10 {
		t.Errorf("%d clients remembered, want %d at most and few less", n, maxClients)
	}
}

// A crowd of addresses cannot push out a client that is over its limit: neither
// one that keeps asking, nor one that rests for a moment.
func TestAHeavyClientStaysLimitedWhileOthersSweep(t *testing.T) {
	for _, algorithm := range []Algorithm{TokenBucket, LeakyBucket, SlidingWindow} {
		for _, pause := range []uint32{10, 30_000} {
			r := newRig(t, perClient(algorithm, 50, 1))
			heavy := netip.MustParseAddr("2001:db8::1")
			r.client = heavy
			r.burst(50)
			for n := range uint32(60_000) {
				r.Allow(v4(n), r.now)
				if n%pause == pause-1 {
					r.burst(0)
				}
			}
		}
	}
}

// Among clients with the same count, it is the least recent one that goes.
func TestAClientThatKeepsAskingKeepsItsPlace(t *testing.T) {
	r := newRig(t, perClient(TokenBucket, 50, 1000))
	table := r.plan.Load().clients
	r.ask()
	place := func() *client {
		for i := range table.shards {
			if c := table.shards[i].byKey[r.client]; c != nil {
				return c
			}
		}
		return nil
	}
	regular := place()
	for n := range uint32(60_000) {
		r.after(time.Millisecond)
		r.Allow(v4(n), r.now)
		if n%1000 == 0 {
			r.ask()
		}
		if place() != regular {
			t.Fatalf("forgotten after %d others", n)
		}
	}
}

func TestIdleClientsAreForgotten(t *testing.T) {
	r := newRig(t, perClient(TokenBucket, 5, 1))
	table := r.plan.Load().clients
	for n := range uint32(5000) {
		r.Allow(v4(n), r.now)
	}
	r.after(time.Duration(idleAfter))
	if s := r.Snapshot(r.now, 100); len(s.Clients) != 0 {
		t.Errorf("%d idle clients listed", len(s.Clients))
	}
	for n := range uint32(5000) {
		r.Allow(v4(1<<20+n), r.now)
	}
	if n := table.size(); n > 5300 {
		t.Errorf("%d clients remembered, 5000 of which are not idle", n)
	}
}

// Who asked a short while ago stays listed, however many come.
func TestClientsThatAskedLatelyStayListed(t *testing.T) {
	r := newRig(t, perClient(TokenBucket, 5, 1))
	r.after(20 * time.Minute)
	r.ask()
	asked := r.now
	r.after(29 * time.Minute)
	for n := range uint32(1000) {
		r.Allow(v4(n), r.now)
	}
	s := r.Snapshot(r.now, 2000)
	last := s.Clients[len(s.Clients)-1]
	if len(s.Clients) != 1001 || last.Client.Addr() != r.client || !last.LastRequest.Equal(asked) {
		t.Errorf("%d clients, the last is %+v", len(s.Clients), last)
	}
}

// In a full shard the least recent of those with the most left has to go.
func TestNewClientReplacesTheLeastRecentEqual(t *testing.T) {
	r := newRules(perClient(TokenBucket, 5, 1), 0, clientMarks)
	s := &newClientTable(r, 4*clientShards).shards[0]
	ask := func(n uint32, times int) {
		for range times {
			var d Decision
			s.find(v4(n), 0).bucket.decide(r, 0, 1, true, &d)
		}
	}
	ask(1, 3)
	ask(2, 1)
	ask(3, 1)
	ask(4, 2)
	ask(5, 1)
	ask(6, 1)
	for n, want := range map[uint32]bool{1: true, 2: false, 3: false, 4: true, 5: true, 6: true} {
		if _, known := s.byKey[v4(n)]; known != want {
			t.Errorf("client %d is known: %v", n, known)
		}
	}
}

// A full shard in which everybody has used up the limit still has room for a new client.
func TestNewClientReplacesOneThatHasNothingLeft(t *testing.T) {
	r := newRules(perClient(TokenBucket, 2, 1), 0, clientMarks)
	s := &newClientTable(r, 3*clientShards).shards[0]
	for n := range uint32(5) {
		for range 2 {
			var d Decision
			if s.find(v4(n), 0).bucket.decide(r, 0, 1, true, &d); !d.Allowed {
				t.Fatalf("client %d was refused", n)
			}
		}
	}
	if len(s.byKey) != 3 || s.byKey[v4(4)] == nil || s.byKey[v4(1)] != nil {
		t.Errorf("%d clients are known", len(s.byKey))
	}
}

// Being idle does not help a client that still has something spent.
func TestIdleClientsWithSpentRequestsAreRemembered(t *testing.T) {
	r := newRig(t, perClient(TokenBucket, 10_000, 1))
	r.burst(10_000)
	r.after(time.Duration(idleAfter))
	for n := range uint32(1000) {
		r.Allow(v4(n), r.now)
	}
	r.burst(30 * 60)
}

func TestUpdateReachesEveryClient(t *testing.T) {
	r := newRig(t, perClient(TokenBucket, 10, 1))
	for n := range uint32(200) {
		r.client = v4(n)
		r.burst(10)
	}
	r.edit(func(s *Settings) { s.Capacity = 13; s.RefillRate = 2 })
	for n := range uint32(200) {
		r.client = v4(n)
		r.burst(3)
	}
	r.after(time.Second)
	r.burst(2)
}

func TestSnapshotListsTheLatestClients(t *testing.T) {
	r := newRig(t, perClient(TokenBucket, 10, 1))
	ask := func(addr string) {
		r.after(10 * time.Millisecond)
		r.Allow(netip.MustParseAddr(addr), r.now)
	}
	for n := range uint32(500) {
		r.Allow(v4(n), r.now)
	}
	ask("192.0.2.1")
	ask("2001:db8:1:2:3::4")
	ask("192.0.2.9")
	ask("192.0.2.1")
	s := r.Snapshot(r.now, 3)
	want := []ClientSnapshot{
		{netip.MustParsePrefix("192.0.2.1/32"), 8, 10, r.now},
		{netip.MustParsePrefix("192.0.2.9/32"), 9, 10, r.now.Add(-10 * time.Millisecond)},
		{netip.MustParsePrefix("2001:db8:1:2::/64"), 9, 10, r.now.Add(-20 * time.Millisecond)},
	}
	if diff := cmp.Diff(want, s.Clients, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
	if !s.PerClient || s.Remaining != 10 {
		t.Errorf("%+v", s)
	}
	r.edit(func(s *Settings) { s.ClientIPEnable = false })
	if s := r.Snapshot(r.now, 3); s.Clients != nil || s.PerClient {
		t.Errorf("%+v", s)
	}
}

// Asking for clients admits nobody, pushes nobody out, and does not count as
// having come: the list of the latest stays as it is.
func TestAskingForClientsChangesNothing(t *testing.T) {
	for _, algorithm := range algorithms {
		r := newRig(t, perClient(algorithm, 30, 1))
		first := r.Peek(r.client, r.now)
		if !first.Allowed || first.Remaining == 0 || first.Limit != 30 {
			t.Errorf("%v: an unknown client would get %+v", algorithm, first)
		}
		if after := r.ask(); after.Remaining != first.Remaining-1 {
			t.Errorf("%v: %+v was foretold, then came %+v", algorithm, first, after)
		}
		for n := range uint32(2 * maxClients) { // every place is taken
			r.Allow(v4(n), r.now)
		}
		r.after(time.Second)
		table, before := r.plan.Load().clients, r.Snapshot(r.now, 100)
		size := table.size()
		for n := range uint32(2 * maxClients) {
			r.Peek(v4(1<<24+n), r.now)
			r.Peek(v4(n), r.now)
		}
		if n := table.size(); n != size {
			t.Errorf("%v: %d clients before, %d after", algorithm, size, n)
		}
		if diff := cmp.Diff(before, r.Snapshot(r.now, 100), cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
			t.Errorf("%v: %s", algorithm, diff)
		}
	}
}

func TestAskingForAnUnknownClientAllocatesNothing(t *testing.T) {
	for _, algorithm := range algorithms {
		r := newRig(t, perClient(algorithm, 30, 1))
		if n := testing.AllocsPerRun(100, func() { r.Peek(r.client, r.now) }); n != 0 {
			t.Errorf("%v: %v allocations", algorithm, n)
		}
	}
}
