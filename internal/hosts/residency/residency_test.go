package residency_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
)

// engine is a server that loads models in a time.
type engine struct {
	mu     sync.Mutex
	takes  time.Duration
	fails  error
	loaded map[string]bool
	loads  map[string]int
	put    map[string]int
	// cancelled counts loads that were given up, and atOnce how many were done at a time.
	cancelled, running, atOnce int
}

func newEngine(takes time.Duration) *engine {
	return &engine{takes: takes, loaded: map[string]bool{}, loads: map[string]int{}, put: map[string]int{}}
}

// set changes how long everything takes, and how it fails.
func (e *engine) set(takes time.Duration, fails error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.takes, e.fails = takes, fails
}

func (e *engine) has(model string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.loaded[model]
}

// count returns how often a model was loaded and put to sleep.
func (e *engine) count(model string) (loads, sleeps int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.loads[model], e.put[model]
}

// wakes returns how many loads were given up, and how many were done at a time.
func (e *engine) wakes() (cancelled, atOnce int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cancelled, e.atOnce
}

// sleeper is one model of an engine.
type sleeper struct {
	*engine
	model string
}

func (s sleeper) Wake(ctx context.Context) error {
	s.mu.Lock()
	s.running++
	s.atOnce = max(s.atOnce, s.running)
	takes := s.takes
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		s.mu.Lock()
		s.cancelled++
		s.mu.Unlock()
		return ctx.Err()
	case <-time.After(takes):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return s.fails
	}
	s.loaded[s.model] = true
	s.loads[s.model]++
	return nil
}

func (s sleeper) Sleep(ctx context.Context) error {
	s.mu.Lock()
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(takes / 4):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return s.fails
	}
	s.loaded[s.model] = false
	s.put[s.model]++
	return nil
}

// rig is a keeper of some models on hosts.
type rig struct {
	*testing.T
	fleet  *fleet.Fleet
	keeper *residency.Keeper
	kept   []residency.Kept
	stop   context.CancelFunc
	ended  chan struct{}
}

func newRig(t *testing.T, options residency.Options) *rig {
	r := &rig{T: t, fleet: fleet.New(fleet.Options{}, time.Now()), keeper: residency.New(options), ended: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.ended)
		r.keeper.Run(ctx)
	}()
	return r
}

// end stops the keeper, without which a bubble of synctest does not end.
func (r *rig) end() {
	r.stop()
	<-r.ended
}

func (r *rig) add(host, model string, e *engine, rules residency.Rules) *residency.Model {
	place := r.fleet.Instance(host, model)
	r.kept = append(r.kept, residency.Kept{Place: place, Sleeper: sleeper{e, model}, Rules: rules})
	r.keeper.Follow(r.kept)
	return r.keeper.Model(place)
}

// use uses a model for a time, as a request does.
func (r *rig) use(m *residency.Model, takes time.Duration) error {
	if !m.TryEnter() {
		if err := m.Enter(r.Context(), 10*time.Minute); err != nil {
			return err
		}
	}
	<-time.After(takes)
	m.Leave()
	return nil
}

func (r *rig) state(m *residency.Model) residency.State {
	for _, s := range r.keeper.States(time.Now()) {
		if s.Host == m.Place().Host().Name() && s.Model == m.Place().Model() {
			return s
		}
	}
	r.Fatal("the model is not listed")
	return residency.State{}
}

func TestOneWakeServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(14 * time.Second)
		m := r.add("h", "m", e, residency.Rules{})
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				<-time.After(time.Duration(n) * 100 * time.Millisecond)
				if err := r.use(m, time.Second); err != nil {
					t.Error(err)
				}
			})
		}
		<-time.After(4 * time.Second)
		if s := r.state(m); s.State != "loading" || s.Waiting != 20 {
			t.Errorf("%+v", s)
		}
		all.Wait()
		loads, _ := e.count("m")
		if _, atOnce := e.wakes(); loads != 1 || atOnce != 1 {
			t.Errorf("%d loads, %d at a time", loads, atOnce)
		}
		s := r.state(m)
		if s.State != "loaded" || s.Counts.Loads != 1 || s.IsInUse || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		if s.Residence.Loads < 11*time.Second || s.Residence.Loads > 14*time.Second {
			t.Errorf("loading is believed to take %s, it took 14 s", s.Residence.Loads)
		}
		if !m.TryEnter() {
			t.Error("the model is in memory, and a request has to wait")
		}
		m.Leave()
	})
}

// TestTheTimeThatIsLeftIsTold looks at a model while it is loaded for the second time.
func TestTheTimeThatIsLeftIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		m := r.add("h", "m", newEngine(10*time.Second), residency.Rules{})
		var all sync.WaitGroup
		all.Go(func() { _ = r.use(m, 0) })
		<-time.After(3 * time.Second)
		if left := r.state(m).Left; left.Round(time.Second) != 7*time.Second {
			t.Errorf("%s are left", left)
		}
		all.Wait()
	})
}

func TestWhoLeavesIsNotWaitedFor(t *testing.T) {
	left := errors.New("the client has left")
	for name, c := range map[string]struct {
		stay             []bool
		loads, cancelled int
	}{
		"the first":  {[]bool{false, true, true}, 1, 0},
		"the middle": {[]bool{true, false, true}, 1, 0},
		"the last":   {[]bool{true, true, false}, 1, 0},
		"all":        {[]bool{false, false, false}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, residency.Options{})
				defer r.end()
				e := newEngine(10 * time.Second)
				m := r.add("h", "m", e, residency.Rules{})
				var all sync.WaitGroup
				for _, stays := range c.stay {
					all.Go(func() {
						ctx, cancel := context.WithCancelCause(t.Context())
						defer cancel(nil)
						if !stays {
							time.AfterFunc(3*time.Second, func() { cancel(left) })
						}
						err := m.Enter(ctx, time.Minute)
						switch {
						case stays && err != nil, !stays && !errors.Is(err, left):
							t.Errorf("stays: %t, got %v", stays, err)
						case err == nil:
							m.Leave()
						}
					})
				}
				all.Wait()
				synctest.Wait()
				loads, _ := e.count("m")
				if cancelled, _ := e.wakes(); loads != c.loads || cancelled != c.cancelled {
					t.Errorf("%d loads, %d cancelled", loads, cancelled)
				}
				if s := r.state(m); s.IsInUse || s.Waiting != 0 || s.Failures != 0 {
					t.Errorf("%+v", s)
				}
				if err := r.use(m, 0); err != nil {
					t.Error("afterwards:", err)
				}
			})
		})
	}
}

func TestAWakeThatFails(t *testing.T) {
	dead := errors.New("connection refused")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(10 * time.Second)
		m := r.add("h", "m", e, residency.Rules{})
		e.set(10*time.Second, dead)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := m.Enter(t.Context(), time.Minute); !errors.Is(err, dead) {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		if s := r.state(m); s.State != "absent" || s.Failures != 1 || s.Failure.String() != dead.Error() {
			t.Errorf("%+v", s)
		}
		e.set(10*time.Second, nil)
		if err := r.use(m, 0); err != nil || r.state(m).Failure.String() != "" {
			t.Errorf("the next request: %v, %+v", err, r.state(m))
		}

		e.set(time.Hour, nil) // it hangs
		if err := r.keeper.Sleep(t.Context(), "h", "m"); err == nil {
			t.Error("a model falls asleep in an hour")
		}
	})
}

func TestAWakeThatHangsEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(time.Hour)
		m := r.add("h", "m", e, residency.Rules{})
		var all sync.WaitGroup
		began := time.Now()
		for n := range 3 {
			all.Go(func() {
				<-time.After(time.Duration(n) * 20 * time.Second)
				if err := m.Enter(t.Context(), time.Minute); !errors.Is(err, residency.ErrTimeout) {
					t.Errorf("got %v", err)
				}
				if waited := time.Since(began); waited > time.Minute {
					t.Errorf("the wake still runs after %s", waited)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if cancelled, _ := e.wakes(); cancelled != 1 || r.state(m).State != "absent" {
			t.Errorf("%d wakes were cancelled, %+v", cancelled, r.state(m))
		}
	})
}

func TestRoomIsMadeByTheModelThatWasUsedLongestAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(time.Second)
		rules := residency.Rules{Room: 2}
		a, b, c := r.add("h", "a", e, rules), r.add("h", "b", e, rules), r.add("h", "c", e, rules)
		for _, m := range []*residency.Model{a, b, a, c} {
			if err := r.use(m, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if e.has("b") || !e.has("a") || !e.has("c") || r.state(b).Evictions != 1 {
			t.Errorf("%+v", r.keeper.States(time.Now()))
		}
		// A model that is in use stays, although it was used before the other.
		if !a.TryEnter() {
			t.Fatal("a is not in memory")
		}
		<-time.After(time.Second)
		if err := r.use(c, 0); err != nil {
			t.Fatal(err)
		}
		if err := r.use(b, 0); err != nil {
			t.Fatal(err)
		}
		if !e.has("a") || e.has("c") {
			t.Errorf("%+v", r.keeper.States(time.Now()))
		}
		a.Leave()
	})
}

func TestAModelInUseIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(time.Second)
		a, b := r.add("h", "a", e, residency.Rules{Room: 1}), r.add("h", "b", e, residency.Rules{Room: 1})
		var all sync.WaitGroup
		all.Go(func() { _ = r.use(a, 9*time.Second) })
		<-time.After(2 * time.Second)
		began := time.Now()
		if err := r.use(b, 0); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < 9*time.Second {
			t.Errorf("b was loaded after %s, and a was in use for 8 s more", waited)
		}
		all.Wait()
	})
}

// TestABusyModelLeavesInItsTurn sends requests for one model without a pause, so that it is
// never idle, and one request for another.
func TestABusyModelLeavesInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(2 * time.Second)
		a, b := r.add("h", "a", e, residency.Rules{Room: 1}), r.add("h", "b", e, residency.Rules{Room: 1})
		ends := time.Now().Add(10 * time.Minute)
		var all sync.WaitGroup
		served := 0
		for n := range 3 {
			all.Go(func() {
				<-time.After(time.Duration(n) * 300 * time.Millisecond)
				for time.Now().Before(ends) {
					if err := r.use(a, time.Second); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Go(func() {
			<-time.After(10 * time.Second)
			for time.Now().Before(ends) {
				began := time.Now()
				if err := r.use(b, time.Second); err != nil {
					t.Error(err)
					return
				}
				served++
				if waited := time.Since(began); waited > time.Minute {
					t.Errorf("b waited %s", waited)
				}
				<-time.After(5 * time.Second)
			}
		})
		all.Wait()
		if _, atOnce := e.wakes(); atOnce != 1 {
			t.Errorf("%d models were loaded at a time", atOnce)
		}
		loadsOfA, _ := e.count("a")
		loadsOfB, _ := e.count("b")
		if loads := loadsOfA + loadsOfB; served < 10 || loads > 150 {
			t.Errorf("%d requests for b were served, with %d loads", served, loads)
		}
	})
}

func TestPinnedModelsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(time.Second)
		rules := residency.Rules{Room: 1, SleepAfter: time.Minute}
		b := r.add("h", "b", e, rules)
		rules.IsPinned = true
		a := r.add("h", "a", e, rules)
		if err := r.use(a, 0); err != nil {
			t.Fatal(err)
		}
		if err := b.Enter(t.Context(), time.Minute); !errors.Is(err, residency.ErrFull) {
			t.Errorf("got %v", err)
		}
		<-time.After(time.Hour)
		if !e.has("a") {
			t.Error("a pinned model was put to sleep")
		}
		if err := r.keeper.Sleep(t.Context(), "h", "a"); !errors.Is(err, residency.ErrPinned) {
			t.Errorf("by hand: %v", err)
		}
		r.kept[1].Rules.IsPinned = false
		r.keeper.Follow(r.kept)
		if err := r.use(b, 0); err != nil || e.has("a") {
			t.Errorf("%v, %+v", err, r.state(a))
		}
	})
}

func TestIdleModelsArePutToSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(4 * time.Second)
		m := r.add("h", "m", e, residency.Rules{SleepAfter: time.Minute, IsNear: true})
		if err := r.use(m, 2*time.Minute); err != nil { // it is in use
			t.Fatal(err)
		}
		<-time.After(55 * time.Second)
		if !e.has("m") {
			t.Fatal("put to sleep too early")
		}
		if err := r.use(m, 0); err != nil {
			t.Fatal(err)
		}
		<-time.After(55 * time.Second)
		if !e.has("m") {
			t.Fatal("put to sleep too early after it was used again")
		}
		<-time.After(10 * time.Second)
		if s := r.state(m); e.has("m") || s.State != "sleeping" || s.Sleeps != 1 {
			t.Fatalf("%+v", s)
		}
		err := r.use(m, 0)
		if loads, _ := e.count("m"); err != nil || loads != 2 {
			t.Errorf("%v, %d loads", err, loads)
		}
	})
}

// TestARequestWhileTheModelFallsAsleep comes at the moment in which the engine is told.
func TestARequestWhileTheModelFallsAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(40 * time.Second) // and 10 s to fall asleep
		m := r.add("h", "m", e, residency.Rules{SleepAfter: time.Minute})
		if err := r.use(m, 0); err != nil {
			t.Fatal(err)
		}
		<-time.After(64 * time.Second)
		if r.state(m).State != "absent" || !e.has("m") {
			t.Fatalf("it does not fall asleep: %+v", r.state(m))
		}
		if err := r.use(m, time.Second); err != nil {
			t.Fatal(err)
		}
		if loads, sleeps := e.count("m"); !e.has("m") || loads != 2 || sleeps != 1 {
			t.Errorf("%d loads, %d sleeps, %+v", loads, sleeps, r.state(m))
		}
	})
}

func TestAModelThatCannotBePutToSleepStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(4 * time.Second)
		m := r.add("h", "m", e, residency.Rules{SleepAfter: time.Minute})
		if err := r.use(m, 0); err != nil {
			t.Fatal(err)
		}
		e.set(4*time.Second, errors.New("no such command"))
		<-time.After(3 * time.Minute)
		if s := r.state(m); s.State != "loaded" || s.Sleeps != 0 || s.Failure.String() == "" {
			t.Errorf("%+v", s)
		}
		e.set(4*time.Second, nil)
		<-time.After(3 * time.Minute)
		if e.has("m") {
			t.Error("it is not tried again")
		}
	})
}

// TestOthersAreHeardBeforeAModelIsPutToSleep lets gateways hear each other, or not.
func TestOthersAreHeardBeforeAModelIsPutToSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var since atomic.Pointer[time.Time]
		r := newRig(t, residency.Options{Heard: func(time.Time) (time.Time, bool) {
			if began := since.Load(); began != nil {
				return *began, true
			}
			return time.Time{}, false
		}})
		defer r.end()
		e := newEngine(4 * time.Second)
		m := r.add("h", "m", e, residency.Rules{SleepAfter: time.Minute})
		if err := r.use(m, 0); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		if !e.has("m") {
			t.Fatal("put to sleep although others are not heard")
		}
		now := time.Now()
		since.Store(&now)
		<-time.After(50 * time.Second)
		if !e.has("m") {
			t.Fatal("put to sleep although others may have used it before they were heard")
		}
		// Another gateway uses it.
		other := fleet.New(fleet.Options{}, time.Now())
		place := other.Instance("h", "m")
		place.Keep(fleet.Keeping{})
		place.EndLoad(1, time.Now())
		if err := r.fleet.Import("other", other.Export(time.Now().Add(time.Second)), time.Now()); err != nil {
			t.Fatal(err)
		}
		<-time.After(50 * time.Second)
		if !e.has("m") {
			t.Fatal("put to sleep although another gateway uses it")
		}
		<-time.After(20 * time.Second)
		if e.has("m") {
			t.Error("not put to sleep although nobody uses it")
		}
	})
}

func TestAModelThatIsRemovedWhileSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		e := newEngine(10 * time.Second)
		a, b := r.add("h", "a", e, residency.Rules{}), r.add("h", "b", e, residency.Rules{})
		time.AfterFunc(time.Second, func() { r.keeper.Follow(r.kept[1:]) })
		if err := a.Enter(t.Context(), time.Minute); !errors.Is(err, residency.ErrRemoved) {
			t.Errorf("got %v", err)
		}
		if err := a.Enter(t.Context(), time.Minute); !errors.Is(err, residency.ErrRemoved) {
			t.Errorf("afterwards: %v", err)
		}
		time.AfterFunc(time.Second, r.stop)
		if err := b.Enter(t.Context(), time.Minute); !errors.Is(err, residency.ErrStopped) {
			t.Errorf("when the gateway stops: %v", err)
		}
		r.end()
		if err := b.Enter(t.Context(), time.Minute); !errors.Is(err, residency.ErrStopped) {
			t.Errorf("after the gateway has stopped: %v", err)
		}
	})
}

// TestModelsThatExcludeEachOther are on two hosts and share a space in which one fits.
func TestModelsThatExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(time.Second)
		rules := residency.Rules{Space: "gpu", Capacity: 24, Size: 8}
		a, b := r.add("one", "a", e, rules), r.add("two", "b", e, rules)
		rules.Size = 16
		c := r.add("three", "c", e, rules)
		for _, m := range []*residency.Model{a, b, c, a} {
			if err := r.use(m, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if !e.has("a") || e.has("b") || !e.has("c") {
			t.Errorf("%+v", r.keeper.States(time.Now()))
		}
		if err := r.use(b, 0); err != nil {
			t.Fatal(err)
		}
		if !e.has("a") || !e.has("b") || e.has("c") {
			t.Errorf("%+v", r.keeper.States(time.Now()))
		}
	})
}

// TestTwoModelsOnTwoHostsAreLoadedOnce sends requests for two models in random order to two
// hosts with room for one each.
func TestTwoModelsOnTwoHostsAreLoadedOnce(t *testing.T) {
	for _, room := range []int{0, 1} { // the engine does not tell, or somebody knows
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, residency.Options{})
			defer r.end()
			engines := []*engine{newEngine(5 * time.Second), newEngine(5 * time.Second)}
			places := map[string][]*fleet.Instance{}
			for _, model := range []string{"a", "b"} {
				for n, host := range []string{"one", "two"} {
					places[model] = append(places[model], r.add(host, model, engines[n], residency.Rules{Room: room}).Place())
				}
			}
			random := rand.New(rand.NewPCG(1, 2))
			var all sync.WaitGroup
			for range 200 {
				<-time.After(time.Duration(random.IntN(200)) * time.Millisecond)
				model := []string{"a", "b"}[random.IntN(2)]
				all.Go(func() {
					from := places[model]
					preferred := r.fleet.Preferred(from, false, false, time.Now())
					if len(preferred) != 1 {
						t.Errorf("%v are preferred", preferred)
						return
					}
					if err := r.use(r.keeper.Model(from[preferred[0]]), 300*time.Millisecond); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			loads := 0
			for _, s := range r.keeper.States(time.Now()) {
				loads += int(s.Counts.Loads)
			}
			if loads != 2 {
				t.Errorf("room %d: %d loads", room, loads)
			}
		})
	}
}

// TestAModelThatRestsIsNotWaitedForLonger switches between two models that are loaded in a
// moment: what is left alone after a call, for a tenth of that moment, holds others up for no
// longer.
func TestAModelThatRestsIsNotWaitedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(400 * time.Millisecond)
		a, b := r.add("h", "a", e, residency.Rules{Room: 1}), r.add("h", "b", e, residency.Rules{Room: 1})
		if err := r.use(a, time.Millisecond); err != nil { // now it is known how long loading takes
			t.Fatal(err)
		}
		for _, m := range []*residency.Model{b, a, b} {
			began := time.Now()
			if err := r.use(m, 0); err != nil {
				t.Fatal(err)
			}
			// 0.4 s to load, 0.1 s to put the other one to sleep, and 0.05 s of rest.
			if took := time.Since(began); took > 600*time.Millisecond {
				t.Errorf("%s took %s", m.Place().Model(), took)
			}
		}
	})
}
