package routing_test

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// board is a table that is edited.
type board struct {
	t testing.TB
	routing.Current
	doc *config.Document
}

// newBoard has the model m at the instances a and b.
func newBoard(t testing.TB) *board {
	t.Helper()
	b := &board{t: t, doc: config.Default()}
	b.edit(func(s *config.Service) { s.Instances = []backend.Settings{at("a"), at("b")} })
	return b
}

// at describes an instance of the model m.
func at(host string) backend.Settings {
	s := backend.DefaultSettings()
	s.Name, s.BaseURL = "m", "http://"+host+".test"
	return s
}

func (b *board) edit(change func(*config.Service)) {
	b.t.Helper()
	b.doc = b.doc.Clone()
	chat := b.doc.Services[schema.Chat]
	change(&chat)
	b.doc.Services[schema.Chat] = chat
	table, err := routing.Compile(b.doc.Routed(), b.Load(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Store(table)
}

func (b *board) service() *routing.Service { return b.Load().Service(schema.Chat) }
func (b *board) pool() *routing.Pool       { return b.service().Find("m") }
func (b *board) instance(host string) *backend.Instance {
	return b.service().Instance("m@http://" + host + ".test")
}

// fail makes calls of an instance fail.
func fail(i *backend.Instance, times int) {
	for range times {
		permit, _ := i.Acquire(time.Now())
		i.Release(permit, breaker.Failure, time.Now())
	}
}

// What lives in an instance survives every edit of everything else.
func TestStateSurvivesEdits(t *testing.T) {
	edits := map[string]func(*config.Service){
		"weight":     func(s *config.Service) { s.Instances[0].Weight = 7 },
		"key":        func(s *config.Service) { s.Instances[0].APIKey = backend.Literal("other") },
		"a new one":  func(s *config.Service) { s.Instances = append(s.Instances, at("c")) },
		"order":      func(s *config.Service) { s.Instances[0], s.Instances[1] = s.Instances[1], s.Instances[0] },
		"the other":  func(s *config.Service) { s.Instances = s.Instances[:1] },
		"strategy":   func(s *config.Service) { s.LoadBalancer = balance.IPHash },
		"thresholds": func(s *config.Service) { s.CircuitBreaker.FailureThreshold = 50 },
		"the limit":  func(s *config.Service) { s.RateLimit.Enabled = true },
		"the queue":  func(s *config.Service) { s.Queue.Size = 9 },
		"nothing":    func(*config.Service) {},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard(t)
				a, line := b.instance("a"), b.pool().Queue
				permit, _ := a.Acquire(time.Now())
				fail(a, 5)
				b.edit(edit)
				after := b.instance("a")
				if after == a || after.State != a.State || b.pool().Queue != line {
					t.Fatal("the instance is the same, or its life is another one")
				}
				s := after.Breaker.Snapshot()
				if s.State != breaker.Open || s.FailureCount != 5 || after.InFlight() != 1 || after.Ended(breaker.Failure) != 5 {
					t.Errorf("breaker %v with %d failures, %d in flight, %d failed", s.State, s.FailureCount, after.InFlight(), after.Ended(breaker.Failure))
				}
				// A call that began before the edit is settled in the new life.
				a.Release(permit, breaker.Success, time.Now())
				if after.InFlight() != 0 || after.Ended(breaker.Success) != 1 {
					t.Errorf("%d in flight, %d succeeded", after.InFlight(), after.Ended(breaker.Success))
				}
			})
		})
	}
}

// An instance that is somewhere else, or that was away, is another one.
func TestOtherInstancesStartAnew(t *testing.T) {
	b := newBoard(t)
	fail(b.instance("a"), 5)
	b.edit(func(s *config.Service) { s.Instances[0].BaseURL = "http://c.test" })
	if b.instance("c").Breaker.Snapshot().State != breaker.Closed {
		t.Error("another address has the breaker of the first")
	}
	b.edit(func(s *config.Service) { s.Instances[0].BaseURL = "http://a.test" })
	if b.instance("a").Breaker.Snapshot().State != breaker.Closed {
		t.Error("an instance that was removed is remembered")
	}
}

// A failed compilation changes nothing that lives.
func TestTableThatIsNotPutIntoForceChangesNothing(t *testing.T) {
	b := newBoard(t)
	fail(b.instance("a"), 3)
	doc := b.doc.Clone()
	chat := doc.Services[schema.Chat]
	chat.CircuitBreaker.Enabled = false
	chat.RateLimit.Enabled, chat.RateLimit.Capacity = true, 1
	doc.Services[schema.Chat] = chat
	if _, err := routing.Compile(doc.Routed(), b.Load(), nil); err != nil {
		t.Fatal(err)
	}
	if n := b.instance("a").Breaker.Snapshot().FailureCount; n != 3 {
		t.Errorf("%d failures", n)
	}
	if b.service().Limiter.Allow(netip.Addr{}, time.Now()).Limited {
		t.Error("a limit that is not in force limits")
	}
}

// Runtime edits keep what was spent where the algorithm stays, and begin anew
// where it does not; only the limiter of the scope is in force.
func TestEditsKeepWhatWasSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(t)
		limit := func(change func(*ratelimit.Settings)) { b.edit(func(s *config.Service) { change(&s.RateLimit) }) }
		limit(func(s *ratelimit.Settings) { s.Enabled, s.Capacity, s.RefillRate = true, 10, 1 })
		spend := func(l *ratelimit.Limiter) ratelimit.Decision { return l.Allow(netip.Addr{}, time.Now()) }
		for range 7 {
			spend(b.service().Limiter)
		}
		for _, row := range []struct {
			what   string
			change func(*ratelimit.Settings)
			want   int
		}{
			{"a larger capacity", func(s *ratelimit.Settings) { s.Capacity = 20 }, 12},
			{"another rate", func(s *ratelimit.Settings) { s.RefillRate = 5 }, 11},
			{"a smaller capacity", func(s *ratelimit.Settings) { s.Capacity = 10 }, 0},
			{"another algorithm", func(s *ratelimit.Settings) { s.Algorithm = ratelimit.LeakyBucket }, 9},
		} {
			limit(row.change)
			if got := spend(b.service().Limiter); got.Remaining != row.want {
				t.Errorf("%s: %d left, want %d", row.what, got.Remaining, row.want)
			}
		}
		for scope, limiters := range map[ratelimit.Scope][3]bool{
			ratelimit.PerService: {true, false, false}, ratelimit.PerModel: {false, true, false}, ratelimit.PerInstance: {false, false, true},
		} {
			limit(func(s *ratelimit.Settings) { s.Scope = scope })
			for n, l := range []*ratelimit.Limiter{b.service().Limiter, b.pool().Limiter, b.instance("a").Limiter} {
				if spend(l).Limited != limiters[n] {
					t.Errorf("scope %s: limiter %d is wrong", scope, n)
				}
			}
		}
	})
}

// Timeouts come from the instance, else from its service, else from the limits,
// each on its own.
func TestTimeoutsAreInherited(t *testing.T) {
	b := newBoard(t)
	b.edit(func(s *config.Service) {
		s.Timeouts.FirstByte, s.Timeouts.Idle = schema.Duration(7*time.Second), schema.Duration(8*time.Second)
		s.Instances[0].Timeouts.Idle = schema.Duration(9 * time.Second)
	})
	want := backend.Timeouts{Connect: schema.Duration(5 * time.Second), FirstByte: schema.Duration(7 * time.Second), Idle: schema.Duration(9 * time.Second)}
	if got := b.instance("a").Timeouts; got != want {
		t.Errorf("timeouts %+v, want %+v", got, want)
	}
	if got := b.instance("b").Timeouts.Idle; got != schema.Duration(8*time.Second) {
		t.Errorf("idle %v", got)
	}
}

// Edits in the middle of traffic do not start the round anew.
func TestRoundsGoOnThroughEdits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBoard(t)
		var picks strings.Builder
		for range 60 {
			if rapid.Bool().Draw(rt, "edit") {
				b.edit(func(s *config.Service) { s.Queue.Size++ })
			}
			picks.WriteString(b.pool().Balancer.Pick(b.pool().Instances, balance.Asked{}).ID[len("m@http://"):][:1])
		}
		if got := picks.String(); got != strings.Repeat("ab", 30) {
			rt.Fatalf("picks %s", got)
		}
	})
}
