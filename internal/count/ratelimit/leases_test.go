package ratelimit_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// clientNumber returns the address of one of many clients.
func clientNumber(n int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24+uint32(n))
	return netip.AddrFrom4(b)
}

func perClientLimit(capacity, rate int) ratelimit.Settings {
	s := bucketOf(capacity, rate)
	s.ClientIPEnable = true
	return s
}

// shared returns a limiter whose limit is shared.
func (g *lone) shared(settings ratelimit.Settings) *ratelimit.Limiter {
	l := ratelimit.New(settings, time.Now())
	l.Share(g.pool, "chat")
	return l
}

// allow is take for a limiter.
func (g *lone) allow(l *ratelimit.Limiter, client netip.Addr) ratelimit.Decision {
	answer := make(chan ratelimit.Decision, 1)
	go func() { answer <- l.Allow(client, time.Now()) }()
	defer g.run()()
	return <-answer
}

// TestLimitsOfClientsAreSharedByName: every client has a limit of its own, with the same
// name at all gateways.
func TestLimitsOfClientsAreSharedByName(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := g.shared(perClientLimit(100, 10))
		if n := g.pool.Stats().Limits; n != 1 {
			t.Errorf("%d limits before the first client, want one, so that the pool is ready", n)
		}
		defer g.run()()
		for _, client := range []string{"192.0.2.1", "192.0.2.1", "2001:db8:1:2:3::4", "2001:db8:1:2:4::5", ""} {
			addr, _ := netip.ParseAddr(client)
			if d := l.Allow(addr, time.Now()); !d.Allowed || !d.Limited || d.Limit != 100 {
				t.Errorf("%s: %+v", client, d)
			}
		}
		pass(300 * time.Millisecond)
		var names []string
		for _, a := range g.store.told().asks {
			names = append(names, a.Name)
		}
		slices.Sort(names)
		if diff := cmp.Diff([]string{"chat/192.0.2.1", "chat/2001:db8:1:2::/64", "chat/unknown"}, names); diff != "" {
			t.Error(diff)
		}
		if n := g.pool.Stats().Limits; n != 4 {
			t.Errorf("%d limits, want those of three clients and one", n)
		}
	})
}

// TestPeekAtSharedLimits: a client that never came has everything, and is not added.
func TestPeekAtSharedLimits(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := g.shared(perClientLimit(100, 10))
		want := ratelimit.Decision{Limited: true, Allowed: true, Limit: 100, Remaining: 100}
		if d := l.Peek(clientNumber(1), time.Now()); d != want {
			t.Errorf("%+v", d)
		}
		if n := g.pool.Stats().Limits; n != 1 {
			t.Errorf("%d limits", n)
		}
		g.store.grantOnce(1, tally.Grant{Retry: time.Second})
		g.allow(l, clientNumber(1))
		if d := l.Peek(clientNumber(1), time.Now()); d.Allowed || d.Remaining != 0 {
			t.Errorf("%+v", d)
		}
		if d := l.Peek(clientNumber(2), time.Now()); d != want {
			t.Errorf("%+v", d)
		}
	})
}

// TestSnapshotOfSharedLimits shows what this gateway knows.
func TestSnapshotOfSharedLimits(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := g.shared(perClientLimit(100, 1000))
		began := time.Now()
		for n := range 4 {
			g.store.grantOnce(3, tally.Grant{Left: float64(10 * n)})
			g.allow(l, clientNumber(n))
			pass(10 * time.Minute)
		}
		// The first came 40 minutes ago, the second 30, which is too long.
		s := l.Snapshot(time.Now(), 9)
		want := []ratelimit.ClientSnapshot{
			{Client: netip.PrefixFrom(clientNumber(3), 32), Remaining: 100, Capacity: 100, LastRequest: began.Add(30 * time.Minute)},
			{Client: netip.PrefixFrom(clientNumber(2), 32), Remaining: 100, Capacity: 100, LastRequest: began.Add(20 * time.Minute)},
		}
		equal := cmp.Options{cmpopts.EquateComparable(netip.Prefix{}), cmpopts.EquateApproxTime(time.Second)}
		if diff := cmp.Diff(want, s.Clients, equal); diff != "" || !s.Shared || !s.PerClient {
			t.Errorf("%+v: %s", s, diff)
		}
		if s := l.Snapshot(time.Now(), 1); len(s.Clients) != 1 || s.Clients[0].Client.Addr() != clientNumber(3) {
			t.Errorf("%+v", s.Clients)
		}
		pass(time.Until(began.Add(50*time.Minute)) - 1)
		if s := l.Snapshot(time.Now(), 9); len(s.Clients) != 2 {
			t.Errorf("%d clients of the last half hour, want 2", len(s.Clients))
		}
	})
	alone(t, 1, func(t *testing.T, g *lone) {
		l := g.shared(bucketOf(100, 10))
		g.store.grantOnce(1, tally.Grant{Retry: 5 * time.Second})
		g.allow(l, netip.Addr{})
		s := l.Snapshot(time.Now(), 9)
		if !s.Shared || s.PerClient || s.Remaining != 0 || s.Clients != nil || !s.NextRefill.Equal(time.Now().Add(5*time.Second)) {
			t.Errorf("%+v", s)
		}
	})
}

// TestManyClientsOfASharedLimit: a gateway knows 10,000 clients at most. Those that came
// lately stay.
func TestManyClientsOfASharedLimit(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		const most = 10_000
		l := g.shared(perClientLimit(10, 10))
		g.cutOff() // requests need not wait
		for n := range most {
			if n == most/2 {
				pass(time.Second)
			}
			l.Allow(clientNumber(n), time.Now())
		}
		if n := g.pool.Stats().Limits; n != 1+most {
			t.Errorf("%d limits, want %d", n, 1+most)
		}
		pass(time.Second)
		const more = 500
		for n := range more {
			l.Allow(clientNumber(most+n), time.Now())
		}
		if n := g.pool.Stats().Limits; n != 1+most {
			t.Errorf("%d limits, want %d", n, 1+most)
		}
		early, late := 0, 0
		for _, c := range l.Snapshot(time.Now(), most).Clients {
			if time.Since(c.LastRequest) < 1500*time.Millisecond {
				late++
			} else {
				early++
			}
		}
		if late < most/2+more*9/10 || early+late != most {
			t.Errorf("%d clients that came early and %d that came late are known", early, late)
		}
	})
}

// TestEditsOfASharedLimit reach the store, whether the limit is one for all clients or
// one for each.
func TestEditsOfASharedLimit(t *testing.T) {
	for _, settings := range []ratelimit.Settings{bucketOf(100, 10), perClientLimit(100, 10)} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := g.shared(settings)
			g.allow(l, clientNumber(1))
			limits := g.pool.Stats().Limits
			settings.Capacity = 200
			l.Update(settings, time.Now())
			l.Update(settings, time.Now())
			defer g.run()()
			for n := range 2 {
				l.Allow(clientNumber(1+n), time.Now())
			}
			pass(300 * time.Millisecond)
			for _, a := range g.store.told().asks {
				if a.Capacity != 200 {
					t.Errorf("%+v", a)
				}
			}
			more := int64(0)
			if settings.ClientIPEnable {
				more = 1
			}
			if n := g.pool.Stats().Limits; len(g.store.told().asks) == 0 || n != limits+more {
				t.Errorf("%d limits after %d, %d of them reported", n, limits, len(g.store.told().asks))
			}
		})
	}
}

// TestLimitsThatAreNotSharedAnyMore: the pool forgets them, and the limiter counts for
// itself or not at all.
func TestLimitsThatAreNotSharedAnyMore(t *testing.T) {
	for _, settings := range []ratelimit.Settings{bucketOf(100, 10), perClientLimit(100, 10)} {
		for name, change := range map[string]func(l *ratelimit.Limiter){
			"withdrawn":  func(l *ratelimit.Limiter) { l.Withdraw() },
			"not shared": func(l *ratelimit.Limiter) { s := settings; s.Shared = false; l.Update(s, time.Now()) },
			"off":        func(l *ratelimit.Limiter) { s := settings; s.Enabled = false; l.Update(s, time.Now()) },
			"the other kind": func(l *ratelimit.Limiter) {
				s := settings
				s.ClientIPEnable = !s.ClientIPEnable
				l.Update(s, time.Now())
				l.Withdraw()
			},
		} {
			t.Run(name, func(t *testing.T) {
				alone(t, 1, func(t *testing.T, g *lone) {
					ratelimit.NewLease(g.pool, "other", bucketOf(1, 1))
					l := g.shared(settings)
					g.allow(l, clientNumber(1))
					g.allow(l, clientNumber(2))
					change(l)
					l.Withdraw()
					if n := g.pool.Stats().Limits; n != 1 {
						t.Errorf("%d limits are shared, want the other one alone", n)
					}
				})
			})
		}
	}
}

// TestLimitBecomesShared when it is switched on, and only with a pool.
func TestLimitBecomesShared(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.New(bucketOf(100, 10), time.Now())
		l.Withdraw()
		l.Share(nil, "chat")
		if l.Snapshot(time.Now(), 0).Shared || !l.Allow(netip.Addr{}, time.Now()).Allowed {
			t.Error("a limit without a pool is shared")
		}
		settings := bucketOf(100, 10)
		settings.Shared = false
		l.Update(settings, time.Now())
		l.Share(g.pool, "chat")
		l.Share(g.pool, "twice")
		if n := g.pool.Stats().Limits; n != 0 || l.Snapshot(time.Now(), 0).Shared {
			t.Errorf("%d limits are shared before one is", n)
		}
		l.Update(bucketOf(100, 10), time.Now())
		g.allow(l, netip.Addr{})
		if n := g.pool.Stats().Limits; n != 1 || !l.Snapshot(time.Now(), 0).Shared || g.store.told().asks[0].Name != "chat" {
			t.Errorf("%d limits are shared: %+v", n, g.store.told().asks)
		}
	})
}

// TestSpentOfASharedLimit: what a request took is held and given back as that of any
// other limit.
func TestSpentOfASharedLimit(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := g.shared(bucketOf(100, 10))
		defer g.run()()
		g.store.grantOnce(3, tally.Grant{Retry: time.Hour})
		d, spent := l.Take(netip.Addr{}, time.Now())
		if !d.Allowed {
			t.Fatalf("%+v", d)
		}
		spent.Hold()
		pass(600 * time.Millisecond)
		if a := g.store.told().asks[0]; a.Outstanding+a.Returned < 1 || a.Outstanding == 0 {
			t.Errorf("%+v while a request waits", a)
		}
		before := l.Peek(netip.Addr{}, time.Now()).Remaining
		if d := spent.Return(time.Now()); !d.Allowed || d.Remaining != before+1 {
			t.Errorf("%+v after %d remained", d, before)
		}
		if d := spent.Return(time.Now()); d.Limited {
			t.Errorf("given back twice: %+v", d)
		}
		g.store.grant(tally.Grant{})
		pass(2 * time.Second)
		if d, spent := l.Take(netip.Addr{}, time.Now()); d.Allowed || spent != (ratelimit.Spent{}) {
			t.Errorf("%+v %+v", d, spent)
		}
	})
}
