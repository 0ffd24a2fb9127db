package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
)

// limited returns an edit that limits the service to so many requests.
func limited(capacity int, scope ratelimit.Scope) func(*config.Service) {
	return func(s *config.Service) {
		s.RateLimit.Enabled, s.RateLimit.Scope = true, scope
		s.RateLimit.Capacity, s.RateLimit.RefillRate = capacity, 1
	}
}

// remaining returns what is left of the limit of the service type.
func (d *desk) remaining() int {
	return d.pool().Service.Limiter.Snapshot(time.Now(), 0).Remaining
}

// A request that is refused for another reason than a limit does not count for it.
func TestRefusedRequestsDoNotCountForLimits(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*desk){
		"disabled":  func(d *desk) { d.edit(func(s *config.Service) { s.Instances[0].Enabled = false }) },
		"no weight": func(d *desk) { d.edit(func(s *config.Service) { s.Instances[0].Weight = 0 }) },
		"open":      func(d *desk) { d.pool().Instances[0].Breaker.Force(breaker.ForcedOpen, breaker.Hold{}, time.Now()) },
		"no slot": func(d *desk) {
			d.edit(slots(1, waiting(0, time.Minute)))
			permit, _ := d.pool().Instances[0].Acquire(time.Now())
			d.t.Cleanup(func() { d.pool().Instances[0].Release(permit, breaker.Success, time.Now()) })
		},
		"at the limit": func(d *desk) {
			for range 5 {
				d.hold(1).finish(breaker.Success)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, 1, limited(5, ratelimit.PerService))
				prepare(d)
				before := d.remaining()
				for range 3 {
					r, err := d.ask(context.Background(), 1)
					if err == nil {
						t.Fatal("it was served")
					}
					r.end(false)
				}
				if after := d.remaining(); after != before {
					t.Errorf("%d left before, %d after", before, after)
				}
			})
		})
	}
}

// A request that waited in the queue and got no slot does not count either, whatever
// the algorithm, however long it waited, and also if the client left.
func TestWaitThatFailedDoesNotCountForLimits(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []ratelimit.Algorithm{ratelimit.TokenBucket, ratelimit.LeakyBucket, ratelimit.SlidingWindow, ratelimit.WarmUp} {
		for _, patience := range []time.Duration{time.Second, time.Minute} { // the client's; the queue's is 10 s
			t.Run(fmt.Sprint(algorithm, patience), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDesk(t, 1, func(s *config.Service) {
						limited(20, ratelimit.PerService)(s)
						s.RateLimit.Algorithm = algorithm
						slots(1, waiting(10, 10*time.Second))(s)
					})
					<-time.After(time.Hour) // warm
					holder := d.hold(1)
					defer holder.finish(breaker.Success)
					<-time.After(time.Minute) // what the holder took is back
					before := d.remaining()
					var all sync.WaitGroup
					for range 5 {
						all.Go(func() {
							ctx, cancel := context.WithTimeout(context.Background(), patience)
							defer cancel()
							client := newClientConn()
							err := d.Do(ctx, &Request{Asks: chatRequest(t), Caller: &access.Caller{}, Record: newRecord()}, client)
							if err == nil || client.route.Attempts != 0 {
								t.Error("it was served")
							}
							if limit := client.route.Limit; limit.Limited && patience == time.Minute && limit.Remaining > before {
								t.Errorf("%d are said to remain of %d", limit.Remaining, before)
							}
						})
					}
					synctest.Wait()
					if waiting := d.remaining(); waiting != before-5 {
						t.Errorf("%d left while five wait, %d before", waiting, before)
					}
					all.Wait()
					if after := d.remaining(); after != before {
						t.Errorf("%d left before, %d after", before, after)
					}
				})
			})
		}
	}
}

func chatRequest(t testing.TB) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	if err := req.ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)); err != nil {
		t.Fatal(err)
	}
	return req
}

// An instance at its limit is passed over; when all are, the caller learns when
// the first of them has room.
func TestLimitsOfInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 2, func(s *config.Service) {
			limited(3, ratelimit.PerInstance)(s)
			s.RateLimit.Algorithm = ratelimit.SlidingWindow // of 3 s
		})
		for range 6 {
			d.hold(1).finish(breaker.Success)
		}
		for _, i := range d.pool().Instances {
			if i.Ended(breaker.Success) != 3 {
				t.Errorf("%s answered %d of 6", i.ID, i.Ended(breaker.Success))
			}
		}
		<-time.After(time.Second)
		r, err := d.ask(context.Background(), 1)
		known, ok := errors.AsType[*schema.Error](err)
		if !ok || known.Code != schema.CodeRateLimitExceeded || known.Type != schema.TypeRateLimit {
			t.Fatalf("beyond both limits: %v", err)
		}
		if known.RetryAfter != 2*time.Second {
			t.Errorf("retry after %v, want the 2 s until the window has moved on", known.RetryAfter)
		}
		r.end(false)
		<-time.After(known.RetryAfter)
		d.hold(1).finish(breaker.Success)
	})
}

// A trial that others were faster to take costs no part of the instance's limit.
func TestLimitOfAnInstanceIsNotSpentOnRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, func(s *config.Service) {
			limited(1000, ratelimit.PerInstance)(s)
			s.CircuitBreaker.FailureThreshold, s.CircuitBreaker.SuccessThreshold = 1, 2
		})
		d.hold(1).finish(breaker.Failure)
		<-time.After(30 * time.Second)
		instance := d.pool().Instances[0]
		spent := func() int { return 1000 - instance.Limiter.Snapshot(time.Now(), 0).Remaining }
		before := spent()
		var admitted atomic.Int64
		release := make(chan struct{})
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				r, err := d.ask(context.Background(), 1)
				if err == nil {
					admitted.Add(1)
					<-release
				}
				r.finish(breaker.Success)
			})
		}
		synctest.Wait()
		if n := admitted.Load(); n != 2 || spent()-before != 2 || instance.InFlight() != 2 {
			t.Errorf("%d trials, %d counted, %d in flight, want 2 each", n, spent()-before, instance.InFlight())
		}
		close(release)
		all.Wait()
	})
}

// The budget never holds more than its share, never refuses below its floor,
// never spends more than its credit beyond the floor, and is empty at the end.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b retryBudget
		inFlight, retries, credit := 0, 0, 0
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"enter", "enter", "enter", "leave", "retry", "retry", "retried", "owe"}).Draw(t, "step") {
			case "enter":
				b.enter()
				inFlight++
				credit = min(credit+1, 120)
			case "leave":
				if inFlight > retries {
					b.leave()
					inFlight--
				}
			case "retry":
				may := b.beginRetry()
				if want := retries < 3 || retries < inFlight/5 && credit >= 6; may != want {
					t.Fatalf("with %d in flight, %d retries and %d credit: %v", inFlight, retries, credit, may)
				}
				if may {
					retries++
					if credit >= 6 {
						credit -= 6
					}
				}
			case "retried":
				if retries > 0 {
					b.endRetry()
					retries--
				}
			case "owe":
				b.charge()
				if credit > -120 {
					credit -= 6
				}
			}
		}
		for ; retries > 0; retries-- {
			b.endRetry()
		}
		for ; inFlight > 0; inFlight-- {
			b.leave()
		}
		if b.inFlight.Load() != 0 || b.retries.Load() != 0 {
			t.Fatalf("%d in flight, %d retries at the end", b.inFlight.Load(), b.retries.Load())
		}
	})
}

// Second attempts that fail at once would all fit into a share of what is in
// flight, one after the other. They need credit as well.
func TestFastRetriesAreBounded(t *testing.T) {
	t.Parallel()
	var b retryBudget
	for range 100 {
		b.enter() // requests that take their time
	}
	const requests = 10_000
	allowed := 0
	for range requests {
		b.enter()
		held := 0
		for range 4 { // the floor and one more
			if b.beginRetry() {
				held++
			}
		}
		allowed += held - 3
		for range held {
			b.endRetry()
		}
		b.leave()
	}
	if most := requests/6 + 20; allowed > most {
		t.Errorf("%d retries beyond the floor for %d requests, want at most %d", allowed, requests, most)
	}
}

// Many at once never hold more than the share.
func TestRetryBudgetUnderContention(t *testing.T) {
	t.Parallel()
	var b retryBudget
	const callers = 100
	for range callers {
		b.enter()
	}
	var held, most atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 500 {
				if !b.beginRetry() {
					continue
				}
				n := held.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				held.Add(-1)
				b.endRetry()
			}
		})
	}
	all.Wait()
	if most.Load() > callers/5 || b.retries.Load() != 0 {
		t.Errorf("%d retries at once of %d requests, %d left", most.Load(), callers, b.retries.Load())
	}
}

// One service type's outage does not use up what another one may spend.
func TestBudgetsOfServiceTypesAreSeparate(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, func(*config.Service) {})
	chat, other := d.request(1), d.begin(&Request{Asks: &schema.Request{Service: schema.Embedding}, Caller: &access.Caller{}, Record: newRecord()})
	for chat.retryBudget().beginRetry() {
	}
	if chat.retryBudget() == other.retryBudget() || !other.retryBudget().beginRetry() {
		t.Error("embeddings may not be tried again because chats were")
	}
	// A stream lets go of its request before it ends.
	other.Return()
	other.retryBudget().endRetry()
	other.end(true)
	if b := &d.retryBudgets[schema.Embedding]; b.inFlight.Load() != 0 || b.retries.Load() != 0 {
		t.Errorf("%d in flight, %d retries at the end", b.inFlight.Load(), b.retries.Load())
	}
}

// A second attempt goes to an instance that is well if there is one, whatever the
// budget says, and only within the budget to one that failed itself.
func TestRetriesPreferInstancesThatAreWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 3, func(*config.Service) {})
		failed, bad, well := d.pool().Instances[0], d.pool().Instances[1], d.pool().Instances[2]
		for _, i := range []*backend.Instance{failed, bad} {
			permit, _ := i.Acquire(time.Now())
			i.Release(permit, breaker.Failure, time.Now())
		}
		again := func() *backend.Instance {
			r := d.request(1)
			defer r.end(false)
			r.choice.excluded.Called = append(r.choice.excluded.Called, failed)
			if !r.choice.pickAnother(&r.attempt) {
				return nil
			}
			r.choice.endRetry()
			r.release(breaker.Cancelled)
			return r.attempt.instance
		}
		for d.request(1).retryBudget().beginRetry() {
		}
		for range 20 {
			if got := again(); got != well {
				t.Fatalf("%v got the second attempt", got)
			}
		}
		well.Troubled()
		if got := again(); got != nil {
			t.Errorf("%v got a second attempt that the budget does not allow", got)
		}
		permit, _ := bad.Acquire(time.Now())
		bad.Release(permit, breaker.Success, time.Now())
		if got := again(); got != bad {
			t.Errorf("%v got the second attempt, not the one that recovered", got)
		}
	})
}

// What Explain foretells is what happens, and asking costs nothing.
func TestExplainPredictsAndConsumesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 2, func(s *config.Service) {
			slots(1, waiting(0, time.Minute))(s)
			limited(3, ratelimit.PerService)(s)
		})
		caller := &access.Caller{}
		look := func() survey.Explanation {
			for range 3 { // asking twice more changes nothing
				survey.Explain(d.current.Load(), survey.Subject{Door: schema.DoorChat, Model: "m", Client: caller.Addr}, time.Now())
			}
			return survey.Explain(d.current.Load(), survey.Subject{Door: schema.DoorChat, Model: "m", Client: caller.Addr}, time.Now())
		}
		var running []*run
		for range 2 {
			foretold := look()
			r := d.hold(1)
			if foretold.Refusal != nil || foretold.Pick != r.attempt.instance {
				t.Errorf("foretold %v, %v", foretold.Pick, foretold.Refusal)
			}
			running = append(running, r)
		}
		if x := look(); x.Refusal == nil || x.Refusal.Code != schema.CodeNoSlot || x.Candidates[0].Reason.String() != "all 1 slots taken" {
			t.Errorf("without a slot: %+v", x)
		}
		running[0].finish(breaker.Success)
		d.hold(1).finish(breaker.Success)
		if x := look(); x.Refusal == nil || x.Refusal.Code != schema.CodeRateLimitExceeded || x.Pick != nil {
			t.Errorf("at the limit: %+v", x)
		}
		running[1].finish(breaker.Success)
		if x := survey.Explain(d.current.Load(), survey.Subject{Door: schema.DoorChat, Model: "n", Client: caller.Addr}, time.Now()); x.Refusal == nil || !x.Refusal.NoRetry {
			t.Errorf("an unknown model: %+v", x)
		}
	})
}
