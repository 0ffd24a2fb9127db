package residency_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
)

// gpu is memory into which one server fits.
type gpu struct {
	mu     sync.Mutex
	awake  map[string]bool
	orders []string
	stays  bool // no server goes to sleep
}

// given returns the orders that servers have obeyed.
func (g *gpu) given() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.orders)
}

// has reports whether a server is awake.
func (g *gpu) has(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.awake[name]
}

var errMemory = errors.New("CUDA out of memory")

// server is one of several on a GPU. It has one model under all of its names.
type server struct {
	gpu  *gpu
	name string
}

func (s server) Wake(context.Context) error {
	s.gpu.mu.Lock()
	defer s.gpu.mu.Unlock()
	for other, awake := range s.gpu.awake {
		if awake && other != s.name {
			return errMemory
		}
	}
	s.gpu.awake[s.name] = true
	s.gpu.orders = append(s.gpu.orders, "wake "+s.name)
	return nil
}

func (s server) Sleep(context.Context) error {
	s.gpu.mu.Lock()
	defer s.gpu.mu.Unlock()
	if s.gpu.stays {
		return residency.ErrUnable
	}
	s.gpu.awake[s.name] = false
	s.gpu.orders = append(s.gpu.orders, "sleep "+s.name)
	return nil
}

// IsAwake implements residency.Looker.
func (s server) IsAwake(context.Context) bool { return s.gpu.has(s.name) }

// onGPU is how a model is kept whose server shares a GPU.
var onGPU = residency.Rules{Space: residency.GroupSpace("gpu"), Capacity: 1, Size: 1, IsNear: true, IsWhole: true}

// addServer adds a name of the model of a server.
func (r *rig) addServer(g *gpu, host, model string, rules residency.Rules) *residency.Model {
	place := r.fleet.Instance(host, model)
	r.kept = append(r.kept, residency.Kept{Place: place, Sleeper: server{g, host}, Rules: rules})
	r.keeper.Follow(r.kept)
	return r.keeper.Model(place)
}

// tell lets the servers tell whether they are awake.
func (r *rig) tell(g *gpu) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range r.kept {
		var told fleet.Models
		for _, other := range r.kept {
			if other.Place.Host() != one.Place.Host() {
				continue
			}
			if g.awake[one.Place.Host().Name()] {
				told.Awake = append(told.Awake, other.Place.Model())
			} else {
				told.Asleep = append(told.Asleep, other.Place.Model())
			}
		}
		one.Place.Host().Has(told, time.Now())
	}
}

// TestServersOfAGroupWakeUpOneAtATime lets requests for three servers on one GPU come at
// random, before and after these have told whether they are awake.
func TestServersOfAGroupWakeUpOneAtATime(t *testing.T) {
	for _, isTold := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, residency.Options{})
			defer r.end()
			g := &gpu{awake: map[string]bool{"a": true}}
			var all []*residency.Model
			for _, host := range []string{"a", "b", "c"} {
				all = append(all, r.addServer(g, host, "of "+host, onGPU))
			}
			if isTold {
				r.tell(g)
			}
			random := rand.New(rand.NewPCG(1, 2))
			var wait sync.WaitGroup
			for range 60 {
				m, takes := all[random.IntN(3)], time.Duration(random.IntN(4000))*time.Millisecond
				wait.Go(func() {
					if err := r.use(m, takes); err != nil {
						t.Error(err)
					}
				})
				<-time.After(time.Duration(random.IntN(2000)) * time.Millisecond)
				if isTold {
					r.tell(g)
				}
			}
			wait.Wait()
		})
	}
}

// TestRoomOfAGroupCounts lets two of three servers be awake at a time.
func TestRoomOfAGroupCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		one, two := onGPU, onGPU
		two.Capacity = 2 // as a service type says; the other says nothing
		a, b, c := newEngine(time.Second), newEngine(time.Second), newEngine(time.Second)
		one.IsWhole, two.IsWhole = false, false
		models := []*residency.Model{r.add("a", "a", a, two), r.add("b", "b", b, one), r.add("c", "c", c, one)}
		for _, m := range models {
			if err := r.use(m, time.Second); err != nil {
				t.Error(err)
			}
			<-time.After(10 * time.Second)
		}
		if a.has("a") || !b.has("b") || !c.has("c") {
			t.Errorf("a %t, b %t, c %t are in memory", a.has("a"), b.has("b"), c.has("c"))
		}
	})
}

// TestAServerThatDoesNotFallAsleepKeepsItsPlace lets no other one wake up beside it.
func TestAServerThatDoesNotFallAsleepKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		g := &gpu{awake: map[string]bool{"a": true}, stays: true}
		a, b := r.addServer(g, "a", "m", onGPU), r.addServer(g, "b", "n", onGPU)
		r.tell(g)
		if err := r.use(b, time.Second); !errors.Is(err, residency.ErrHeld) {
			t.Errorf("%v, and the other server does not fall asleep", err)
		}
		if err := r.use(a, time.Second); err != nil || len(g.given()) != 0 {
			t.Errorf("%v, %v", err, g.given())
		}
	})
}

// TestNamesOfOneServerSleepAndWakeUpTogether asks a server for its model under two names, and
// lets another one take its place.
func TestNamesOfOneServerSleepAndWakeUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		g := &gpu{awake: map[string]bool{"a": true}}
		rules := onGPU
		rules.SleepAfter = time.Minute
		one, two, other := r.addServer(g, "a", "one", rules), r.addServer(g, "a", "two", rules), r.addServer(g, "b", "other", onGPU)
		r.tell(g)
		use := func(m *residency.Model, takes time.Duration) {
			t.Helper()
			if err := r.use(m, takes); err != nil {
				t.Error(err)
			}
		}
		use(one, time.Second)
		use(two, 5*time.Minute)
		use(one, time.Second)
		if len(g.given()) != 0 {
			t.Errorf("%v, and one of the names was in use", g.given())
		}
		use(other, time.Second)
		var both sync.WaitGroup
		both.Go(func() { use(one, time.Second) })
		both.Go(func() { use(two, time.Second) })
		both.Wait()
		if want := "[sleep a wake b sleep b wake a]"; fmt.Sprint(g.given()) != want {
			t.Errorf("%v, want %s", g.given(), want)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if want := "[sleep a wake b sleep b wake a sleep a]"; fmt.Sprint(g.given()) != want {
			t.Errorf("%v, want %s", g.given(), want)
		}
	})
}

// TestAModelThatSomebodyElsePutsToSleepIsWokenUpForItsRequests lets a server sleep again and
// again while it has a request.
func TestAModelThatSomebodyElsePutsToSleepIsWokenUpForItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		g := &gpu{awake: map[string]bool{"a": true}}
		a := r.addServer(g, "a", "m", onGPU)
		r.tell(g)
		if !a.TryEnter() {
			t.Fatal("it is not awake")
		}
		for n := range 3 {
			<-time.After(2500 * time.Millisecond)
			_ = server{g, "a"}.Sleep(t.Context())
			r.tell(g)
			<-time.After(2 * time.Second)
			if !g.has("a") {
				t.Errorf("the %d. time it is not woken up", n+1)
			}
		}
		a.Leave()
		<-time.After(10 * time.Second)
		_ = server{g, "a"}.Sleep(t.Context())
		r.tell(g)
		<-time.After(10 * time.Second)
		if g.has("a") {
			t.Error("woken up for nobody")
		}
	})
}

// TestAllNamesOfAServerAreInItsGroup gives one name of a server a group, and asks for another.
func TestAllNamesOfAServerAreInItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		g := &gpu{awake: map[string]bool{"b": true}}
		alone := onGPU
		alone.Space, alone.Capacity, alone.Size = "", 0, 0
		r.addServer(g, "a", "one", onGPU)
		two := r.addServer(g, "a", "two", alone)
		r.addServer(g, "b", "other", onGPU)
		r.tell(g)
		if err := r.use(two, time.Second); err != nil || fmt.Sprint(g.given()) != "[sleep b wake a]" {
			t.Errorf("%v, %v", err, g.given())
		}
		for _, s := range r.keeper.States(time.Now()) {
			if s.Group != "gpu" {
				t.Errorf("%s at %s is in the group %q", s.Model, s.Host, s.Group)
			}
		}
	})
}

// TestAServerThatSomebodyElseWokeUpIsPutToSleep wakes up a server behind the back of the
// keeper, which has heard that it sleeps.
func TestAServerThatSomebodyElseWokeUpIsPutToSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		g := &gpu{awake: map[string]bool{}}
		a := r.addServer(g, "a", "m", onGPU)
		r.addServer(g, "b", "n", onGPU)
		r.tell(g)
		if err := (server{g, "b"}).Wake(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.use(a, time.Second); err != nil || fmt.Sprint(g.given()) != "[wake b sleep b wake a]" {
			t.Errorf("%v, %v", err, g.given())
		}
	})
}

// process is a server on a GPU that ends to give its memory up.
type process struct{ server }

func (p process) Enter(int) bool         { return p.gpu.has(p.name) }
func (p process) Leave()                 {}
func (p process) IsRunning() bool        { return p.gpu.has(p.name) }
func (p process) IsLoaded() bool         { return p.gpu.has(p.name) }
func (p process) Fault() residency.Fault { return residency.Fault{} }

// TestAProcessDoesNotStartBesideAServerThatDoesNotFallAsleep has both in one group.
func TestAProcessDoesNotStartBesideAServerThatDoesNotFallAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		g := &gpu{awake: map[string]bool{"a": true}, stays: true}
		a := r.addServer(g, "a", "m", onGPU)
		r.tell(g)
		rules := onGPU
		rules.IsNear, rules.IsWhole = false, false
		place := r.fleet.Instance("p", "p")
		r.kept = append(r.kept, residency.Kept{Place: place, Sleeper: process{server{g, "p"}}, Rules: rules})
		r.keeper.Follow(r.kept)
		if err := r.use(r.keeper.Model(place), time.Second); !errors.Is(err, residency.ErrHeld) {
			t.Errorf("%v, and the server does not fall asleep", err)
		}
		if err := r.use(a, time.Second); err != nil {
			t.Error(err)
		}
	})
}
