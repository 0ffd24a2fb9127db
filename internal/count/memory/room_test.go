package memory

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
)

var here, there = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

// takeAll takes in steps until it is refused, and returns how much it got.
func takeAll(l *Lease, step int64) (got int64) {
	for l.Take(step) == Granted {
		got += step
	}
	return got
}

// One holder never keeps the others from what it does not hold, however many leases it
// has.
func TestOneHolderLeavesSomethingToOthers(t *testing.T) {
	for name, c := range map[string]struct {
		holder, other func(*Room) Lease
		want, left    int64 // what the holder gets, and the other one after it
	}{
		"two keys from one address": {
			func(p *Room) Lease { return p.Lease("a", here) }, func(p *Room) Lease { return p.Lease("b", here) }, 600, 200,
		},
		"two keys from two addresses": {
			func(p *Room) Lease { return p.Lease("a", here) }, func(p *Room) Lease { return p.Lease("b", there) }, 600, 200,
		},
		"a key from anywhere": {
			func(p *Room) Lease { return p.Lease("a", netip.AddrFrom4([4]byte{10, 0, 0, byte(rand.N(255))})) },
			func(p *Room) Lease { return p.Lease("b", there) }, 600, 200,
		},
		"two addresses": {
			func(p *Room) Lease { return p.Lease("", here) }, func(p *Room) Lease { return p.Lease("", there) }, 600, 200,
		},
		"an address in two notations": {
			func(p *Room) Lease { return p.Lease("", here) },
			func(p *Room) Lease { return p.Lease("", netip.MustParseAddr("::ffff:192.0.2.1")) }, 600, 0,
		},
		"a network of IPv6": {
			func(p *Room) Lease { return p.Lease("", netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", rand.N(9)+1))) },
			func(p *Room) Lease { return p.Lease("", netip.MustParseAddr("2001:db8::ffff")) }, 600, 0,
		},
		"many keys from one address": {
			func(p *Room) Lease { return p.Lease(fmt.Sprint("key-", rand.Int()), here) },
			func(p *Room) Lease { return p.Lease("b", there) }, 800, 60,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewRoom(900)
			var got int64
			for range 200 {
				l := c.holder(p)
				defer l.Close() //nolint:gocritic // what it holds counts until the end
				if l.Take(10) == Granted {
					got += 10
				}
			}
			if got != c.want || p.Taken() != got {
				t.Errorf("the holder got %d (the pool says %d), want %d", got, p.Taken(), c.want)
			}
			other := c.other(p)
			defer other.Close()
			if got := takeAll(&other, 10); got != c.left {
				t.Errorf("the other one got %d, want %d", got, c.left)
			}
		})
	}
}

func TestVerdictsSayWhatIsShort(t *testing.T) {
	p := NewRoom(900)
	a, b := p.Lease("a", here), p.Lease("b", here)
	if p.Most() != 600 {
		t.Errorf("a holder may have %d", p.Most())
	}
	for _, step := range []struct {
		lease  *Lease
		amount int64
		want   Verdict
	}{{&a, 901, Exhausted}, {&a, 602, ShareUsed}, {&a, 600, Granted}, {&a, 2, ShareUsed}, {&b, 301, Exhausted}, {&b, 202, ShareUsed}, {&b, 200, Granted}} {
		if got := step.lease.May(step.amount); got != step.want {
			t.Errorf("%d may be taken: %v, want %v", step.amount, got, step.want)
		}
		if got := step.lease.Take(step.amount); got != step.want {
			t.Errorf("taking %d: %v, want %v", step.amount, got, step.want)
		}
	}
	a.Keep(100)
	if a.Held() != 100 || p.Taken() != 300 {
		t.Errorf("%d are held, %d taken", a.Held(), p.Taken())
	}
	a.Keep(200)
	a.Close()
	b.Close()
	if p.Taken() != 0 || len(p.keys)+len(p.addrs) != 0 {
		t.Errorf("%d are taken, accounts %v and %v", p.Taken(), p.keys, p.addrs)
	}
}

func TestNoPoolAndNoLimitTakeAnything(t *testing.T) {
	var none Lease
	if none.Take(1<<60) != Granted {
		t.Error("a lease of no pool refuses")
	}
	none.Keep(0)
	none.Close()
	p := NewRoom(Unlimited)
	l := p.Lease("a", here)
	if p.Most() != Unlimited || l.Take(1<<60) != Granted || l.Take(1<<60) != Granted {
		t.Error("a pool without a limit refuses")
	}
	// One that gets a limit keeps it from then on, also towards leases that are open.
	p.SetLimit(1000)
	other := p.Lease("a", here)
	if l.Take(1) != Exhausted || other.Take(1) != Exhausted {
		t.Error("the new limit does not hold")
	}
	l.Close()
	if got := takeAll(&other, 1); got < 666 || p.Taken() != got {
		t.Errorf("%d of 1000 could be taken, the pool says %d", got, p.Taken())
	}
	other.Close()
	if p.Taken() != 0 || len(p.keys)+len(p.addrs) != 0 {
		t.Errorf("%d are taken, accounts %v and %v", p.Taken(), p.keys, p.addrs)
	}
}

func TestLimitIsNeverExceeded(t *testing.T) {
	const limit = 1000
	p := NewRoom(limit)
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			for range 2000 {
				l := p.Lease(fmt.Sprint(n%3), here)
				for l.Take(rand.Int64N(50)) == Granted {
					if taken := p.Taken(); taken > limit {
						t.Errorf("%d are taken", taken)
					}
				}
				l.Keep(rand.Int64N(50))
				l.Close()
			}
		})
	}
	all.Wait()
	if p.Taken() != 0 || len(p.keys)+len(p.addrs) != 0 {
		t.Errorf("%d are taken, accounts %v and %v", p.Taken(), p.keys, p.addrs)
	}
}

func BenchmarkLease(b *testing.B) {
	p := NewRoom(1 << 30)
	other := p.Lease("team-a", here)
	defer other.Close()
	other.Take(1 << 10)
	b.ReportAllocs()
	for b.Loop() {
		l := p.Lease("team-a", here)
		l.Take(1 << 10)
		l.Close()
	}
}
