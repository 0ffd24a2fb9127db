package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// desk is a proxy without backends: requests are routed and settled by hand.
type desk struct {
	*Proxy
	t   testing.TB
	doc *config.Document
}

// newDesk returns a desk whose chat service has the model m at so many
// instances. Edit changes the service before it is put into force.
func newDesk(t testing.TB, instances int, edit func(*config.Service)) *desk {
	t.Helper()
	doc := config.Default()
	chat := doc.Services[schema.Chat]
	for n := range instances {
		settings := backend.DefaultSettings()
		settings.Name, settings.BaseURL = "m", fmt.Sprintf("http://gpu%d.test", n)
		chat.Instances = append(chat.Instances, settings)
	}
	doc.Services[schema.Chat] = chat
	d := &desk{Proxy: New(new(routing.Current), nil), t: t, doc: doc}
	d.edit(edit)
	return d
}

// edit puts a changed service into force.
func (d *desk) edit(change func(*config.Service)) {
	d.t.Helper()
	d.doc = d.doc.Clone()
	chat := d.doc.Services[schema.Chat]
	change(&chat)
	d.doc.Services[schema.Chat] = chat
	table, err := routing.Compile(d.doc.Routed(), d.current.Load(), nil)
	if err != nil {
		d.t.Fatal(err)
	}
	d.current.Store(table)
}

// slots returns an edit that gives every instance so many slots, and the pool a
// queue.
func slots(each int, q queue.Settings) func(*config.Service) {
	return func(s *config.Service) {
		s.Queue = q
		for n := range s.Instances {
			s.Instances[n].MaxConcurrency = backend.Concurrency(each)
		}
	}
}

func waiting(size int, timeout time.Duration) queue.Settings {
	return queue.Settings{Size: size, Timeout: schema.Duration(timeout)}
}

func (d *desk) pool() *routing.Pool { return d.current.Load().Service(schema.Chat).Find("m") }

func newRecord() *calls.Record { return &calls.Record{Started: time.Now()} }

// request returns a request that has found its pool.
func (d *desk) request(caller int) *run {
	req := &schema.Request{Service: schema.Chat, Model: []byte("m")}
	r := d.begin(&Request{Asks: req, Caller: &access.Caller{Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(caller)})}, Record: newRecord()})
	if err := r.choice.refreshPool(); err != nil {
		d.t.Fatal(err)
	}
	return r
}

// let admits a request and begins to route it.
func (r *run) let(ctx context.Context) error {
	if _, err := r.Open(ctx, func(context.Context) (account.Answer, error) { return nil, nil }); err != nil {
		return err
	}
	return r.choice.start(ctx)
}

// ask brings a request as far as its instance: limits, slots, queue.
func (d *desk) ask(ctx context.Context, caller int) (*run, error) {
	r := d.request(caller)
	if err := r.let(ctx); err != nil {
		return r, err
	}
	if err := r.choice.pick(ctx, &r.attempt); err != nil {
		return r, err
	}
	r.choice.noteCall(r.attempt.instance)
	return r, nil
}

// hold asks and fails the test where no instance is given.
func (d *desk) hold(caller int) *run {
	d.t.Helper()
	r, err := d.ask(context.Background(), caller)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

func (r *run) finish(outcome breaker.Outcome) {
	r.reply.Outcome = outcome
	r.end(false)
}

// codeOf returns the code of an error for callers, or its text.
func codeOf(err error) string {
	if known, ok := errors.AsType[*schema.Error](err); ok {
		return known.Code
	}
	return fmt.Sprint(err)
}

// Nobody sleeps here, so that on the fake clock no time passes unless somebody
// waits for a place that nobody tells him about. All instances are watched:
// none ever has more than its slots.
func TestNoFreeSlotIsEverForgotten(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ instances, slots, callers int }{{1, 1, 2}, {1, 1, 20}, {1, 4, 40}, {3, 2, 60}} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, row.instances, slots(row.slots, waiting(1000, time.Minute)))
				var inUse [8]atomic.Int64
				began := time.Now()
				var callers sync.WaitGroup
				for c := range row.callers {
					callers.Go(func() {
						for n := range 200 {
							r, err := d.ask(context.Background(), c%7)
							if err != nil {
								t.Errorf("caller %d, request %d: %v", c, n, err)
								r.end(false)
								return
							}
							if now := inUse[r.attempt.instance.Position].Add(1); now > int64(row.slots) {
								t.Errorf("%d requests at once at an instance with %d slots", now, row.slots)
							}
							for range rand.IntN(3) {
								runtime.Gosched()
							}
							inUse[r.attempt.instance.Position].Add(-1)
							r.finish(breaker.Success)
						}
					})
				}
				callers.Wait()
				if idle := time.Since(began); idle > 0 {
					t.Errorf("for %v a place was free while somebody waited", idle)
				}
				for _, i := range d.pool().Instances {
					if i.InFlight() != 0 {
						t.Errorf("%d in flight at the end", i.InFlight())
					}
				}
			})
		})
	}
}

// arrival is a request in the background.
type arrival struct {
	reply *run
	err   error
	after time.Duration // how long it took to get an instance or a refusal
}

// comes lets a request arrive now. The channel has what became of it.
func (d *desk) comes(ctx context.Context, caller int) <-chan arrival {
	done := make(chan arrival, 1)
	began := time.Now()
	go func() {
		r, err := d.ask(ctx, caller)
		done <- arrival{r, err, time.Since(began)}
	}()
	synctest.Wait()
	return done
}

// A service that takes a second each, four at a time; one caller sends 60, then
// another sends one. The one waits for the end of a call that runs and, at
// worst, for one turn of the other caller.
func TestLoneCallerWaitsAtMostTwoServiceTimes(t *testing.T) {
	t.Parallel()
	for _, places := range []int{1, 4} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, 1, slots(places, waiting(100, time.Hour)))
				began := time.Now()
				serve := func(caller int, waited *time.Duration) {
					r := d.hold(caller)
					*waited = time.Since(began)
					<-time.After(time.Second)
					r.finish(breaker.Success)
				}
				var all sync.WaitGroup
				var busy [60]time.Duration
				for n := range busy {
					all.Go(func() { serve(1, &busy[n]) })
				}
				synctest.Wait()
				<-time.After(time.Millisecond) // the first ones are under way
				var lone time.Duration
				all.Go(func() { serve(2, &lone) })
				all.Wait()
				if lone > 2*time.Second {
					t.Errorf("the lone caller waited %v", lone)
				}
				last := time.Duration(0)
				for _, waited := range busy {
					last = max(last, waited)
				}
				// 61 seconds of work at so many places at a time: none was idle.
				if want := time.Duration((61-1)/places) * time.Second; last != want && lone != want {
					t.Errorf("the last one began after %v, want %v", last, want)
				}
				t.Logf("%d slots: the lone caller waited %v, the last of the 60 %v", places, lone, last)
			})
		})
	}
}

func TestWaitersAreToldAtOnceWhenTheBreakerOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, func(s *config.Service) {
			slots(1, waiting(100, time.Hour))(s)
			s.CircuitBreaker.FailureThreshold = 1
		})
		running := d.hold(1)
		var all []<-chan arrival
		for n := range 10 {
			all = append(all, d.comes(context.Background(), n))
		}
		running.finish(breaker.Failure)
		synctest.Wait()
		for _, done := range all {
			a := <-done
			if codeOf(a.err) != schema.CodeCircuitBreakerOpen || a.after > 0 {
				t.Errorf("after %v: %v", a.after, a.err)
			}
			a.reply.end(false)
		}
		if d.pool().Queue.Len() != 0 {
			t.Errorf("%d still wait", d.pool().Queue.Len())
		}
	})
}

// A request that waits finds an instance that becomes ready without the end of a call.
func TestWaitersNoticeSlotsThatNoEndedCallFreed(t *testing.T) {
	t.Parallel()
	type change func(d *desk)
	trip := func(d *desk) { // the second instance fails and its breaker opens
		second := d.pool().Instances[1]
		permit, _ := second.Acquire(time.Now())
		second.Release(permit, breaker.Failure, time.Now())
	}
	for name, row := range map[string]struct {
		before, after change
		within        time.Duration
	}{
		"a breaker's pause is over": {trip, func(*desk) { <-time.After(10 * time.Second) }, time.Second},
		"an operator closes a breaker": {
			func(d *desk) { d.pool().Instances[1].Breaker.Force(breaker.ForcedOpen, breaker.Hold{}, time.Now()) },
			func(d *desk) { d.pool().Instances[1].Breaker.Force(breaker.Auto, breaker.Hold{}, time.Now()) }, time.Second,
		},
		"an edit adds slots": {
			func(d *desk) { d.edit(func(s *config.Service) { s.Instances[1].Enabled = false }) },
			func(d *desk) { d.edit(func(s *config.Service) { s.Instances[0].MaxConcurrency = 3 }) }, 0,
		},
		"an edit adds an instance": {
			func(d *desk) { d.edit(func(s *config.Service) { s.Instances[1].Enabled = false }) },
			func(d *desk) {
				d.edit(func(s *config.Service) {
					added := s.Instances[0]
					added.BaseURL = "http://new.test"
					s.Instances = append(s.Instances, added)
				})
			}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, 2, func(s *config.Service) {
					slots(1, waiting(10, time.Hour))(s)
					s.CircuitBreaker.FailureThreshold, s.CircuitBreaker.SuccessThreshold = 1, 1
					s.CircuitBreaker.RecoveryTimeout = schema.Duration(10 * time.Second)
				})
				row.before(d)
				running := d.hold(1)
				next := d.comes(context.Background(), 2)
				row.after(d)
				changed := time.Now()
				a := <-next
				if took := time.Since(changed); a.err != nil || took > row.within {
					t.Fatalf("served after %v: %v", took, a.err)
				}
				a.reply.finish(breaker.Success)
				running.finish(breaker.Success)
			})
		})
	}
}

// Requests that wait while the slots become fewer keep to the new number.
func TestFewerSlotsHoldForThoseWhoWaitAlready(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, slots(4, waiting(10, time.Hour)))
		var running []*run
		for range 4 {
			running = append(running, d.hold(1))
		}
		var all []<-chan arrival
		for range 4 {
			all = append(all, d.comes(context.Background(), 2))
		}
		d.edit(slots(1, waiting(10, time.Hour)))
		instance := d.pool().Instances[0]
		for _, r := range running {
			r.finish(breaker.Success)
			synctest.Wait()
		}
		for n, done := range all {
			if instance.InFlight() != 1 {
				t.Fatalf("%d in flight with one slot", instance.InFlight())
			}
			a := <-done
			if a.err != nil {
				t.Fatalf("request %d after %v: %v", n, a.after, a.err)
			}
			a.reply.finish(breaker.Success)
			synctest.Wait()
		}
	})
}

func TestQueueRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, slots(1, waiting(2, 5*time.Second)))
		running := d.hold(1)
		first, second := d.comes(context.Background(), 1), d.comes(context.Background(), 2)
		full := <-d.comes(context.Background(), 3)
		if codeOf(full.err) != schema.CodeNoSlot || full.after > 0 {
			t.Errorf("beyond the size: %v after %v", full.err, full.after)
		}
		full.reply.end(false)
		for _, done := range []<-chan arrival{first, second} {
			late := <-done
			if codeOf(late.err) != schema.CodeNoSlot || late.after != 5*time.Second {
				t.Errorf("beyond the time: %v after %v", late.err, late.after)
			}
			late.reply.end(false)
		}
		running.finish(breaker.Success)
	})
}

func TestNoWaitingWithoutAQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 2, slots(1, waiting(0, time.Minute)))
		one, two := d.hold(1), d.hold(1)
		if one.attempt.instance == two.attempt.instance {
			t.Error("the second slot is at the same instance")
		}
		third := <-d.comes(context.Background(), 1)
		if codeOf(third.err) != schema.CodeNoSlot || third.after > 0 {
			t.Errorf("%v after %v", third.err, third.after)
		}
		third.reply.end(false)
		one.finish(breaker.Cancelled)
		if three := d.hold(1); three.attempt.instance != d.pool().Instances[0] {
			t.Error("the slot that became free is not used")
		} else {
			three.finish(breaker.Success)
		}
		two.finish(breaker.Success)
	})
}

// A client that leaves while it waits is gone at once and costs nobody a turn.
func TestAbandonedRequestLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, slots(1, waiting(10, time.Hour)))
		running := d.hold(1)
		ctx, cancel := context.WithCancel(context.Background())
		leaves, stays := d.comes(ctx, 1), d.comes(context.Background(), 2)
		cancel()
		synctest.Wait()
		gone := <-leaves
		if !errors.Is(gone.err, context.Canceled) || gone.after > 0 || d.pool().Queue.Len() != 1 {
			t.Errorf("%v after %v, %d wait", gone.err, gone.after, d.pool().Queue.Len())
		}
		gone.reply.end(false)
		running.finish(breaker.Success)
		next := <-stays
		if next.err != nil || next.after > 0 {
			t.Errorf("%v after %v", next.err, next.after)
		}
		next.reply.finish(breaker.Success)
	})
}

// Requests come at three times the rate that the slots can serve, for a minute
// of fake time. Not one place is idle meanwhile: the policy itself costs no
// goodput.
func TestOverloadLeavesNoSlotIdle(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 8} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const places, service = 8, 40 * time.Millisecond
				d := newDesk(t, 2, slots(places/2, waiting(size, time.Second)))
				var good, refused atomic.Int64
				var all sync.WaitGroup
				const gap = service / places / 3
				const minute = int(time.Minute / gap)
				for n := range minute {
					all.Go(func() {
						r, err := d.ask(context.Background(), n%5)
						if err != nil {
							refused.Add(1)
							r.end(false)
							return
						}
						<-time.After(service)
						good.Add(1)
						r.finish(breaker.Success)
					})
					<-time.After(gap)
				}
				all.Wait()
				capacity := int64(places * time.Minute / service)
				t.Logf("goodput %d of %d, %d of %d refused", good.Load(), capacity, refused.Load(), minute)
				if good.Load() < capacity*9/10 || good.Load() > capacity+places+int64(size) {
					t.Errorf("goodput is %d of %d", good.Load(), capacity)
				}
				if good.Load()+refused.Load() != int64(minute) {
					t.Errorf("%d and %d of %d", good.Load(), refused.Load(), minute)
				}
			})
		})
	}
}
