package processes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// use uses a process for a while.
func use(t *testing.T, m *kept, name string, during time.Duration) {
	t.Helper()
	release, err := m.Ensure(t.Context(), name)
	if err != nil {
		t.Error(name, err)
		return
	}
	<-time.After(during)
	release()
}

func stateOf(t *testing.T, m *kept, name string) State {
	t.Helper()
	synctest.Wait()
	state, known := m.StateOf(name)
	if !known {
		t.Fatalf("%s is not known", name)
	}
	return state
}

// five returns five processes of one group.
func five() Settings {
	all := Settings{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		all[name] = Process{Group: Groups{"gpu"}, Restarts: 3}
	}
	return all
}

func TestOneStartServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["a"] = 10 * time.Second
		m := h.manager(five(), 0)
		defer m.Close()
		begun := time.Now()
		var users sync.WaitGroup
		for range 20 {
			users.Go(func() { use(t, m, "a", time.Second) })
		}
		users.Wait()
		if _, all := h.Running(); len(all) != 1 {
			t.Errorf("started %v", all)
		}
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("all were served after %v", took)
		}
	})
}

func TestAProcessInUseStaysUntilItsRequestsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		m := h.manager(five(), 0)
		defer m.Close()
		release, err := m.Ensure(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		var users sync.WaitGroup
		users.Go(func() { use(t, m, "b", 0) })
		<-time.After(time.Hour)
		if got := stateOf(t, m, "a"); got != Ready {
			t.Errorf("a is %s while it is in use", got)
		}
		if got := stateOf(t, m, "b"); got != Stopped {
			t.Errorf("b is %s while a is in use", got)
		}
		release()
		users.Wait()
		if got := stateOf(t, m, "a"); got != Stopped {
			t.Errorf("a is %s beside b", got)
		}
	})
}

// TestRequestsOfManyModelsAreServedInTurns sends requests for five models at once, of which
// one fits: each is loaded once.
func TestRequestsOfManyModelsAreServedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		for name := range five() {
			h.loads[name], h.ends[name] = 10*time.Second, time.Second
		}
		m := h.manager(five(), 0)
		defer m.Close()
		var users sync.WaitGroup
		for n := range 50 {
			users.Go(func() { use(t, m, string(rune('a'+n%5)), time.Duration(n)*100*time.Millisecond) })
		}
		users.Wait()
		if _, all := h.Running(); len(all) != 5 {
			t.Errorf("started %v", all)
		}
	})
}

// TestAtMostHalfOfTheTimeIsSpentOnStarts lets two clients ask for one of two models each,
// one request after the other. Without a stay every request would have to wait for a start.
func TestAtMostHalfOfTheTimeIsSpentOnStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["a"], h.loads["b"] = 10*time.Second, 10*time.Second
		m := h.manager(five(), 0)
		defer m.Close()
		end := time.Now().Add(time.Hour)
		served := map[string]int{}
		var mu sync.Mutex
		var users sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			users.Go(func() {
				for time.Now().Before(end) {
					use(t, m, name, time.Second)
					mu.Lock()
					served[name]++
					mu.Unlock()
				}
			})
		}
		users.Wait()
		_, all := h.Running()
		if loads := time.Duration(len(all)) * 10 * time.Second; loads > 31*time.Minute {
			t.Errorf("%v of an hour were spent on starts", loads)
		}
		if served["a"] < 800 || served["b"] < 800 {
			t.Errorf("served %v", served)
		}
	})
}

// TestAnIdleProcessGivesWayAtOnce is the laptop: somebody has used a model and now wants
// another one.
func TestAnIdleProcessGivesWayAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["a"], h.loads["b"] = 10*time.Second, 10*time.Second
		m := h.manager(five(), 0)
		defer m.Close()
		use(t, m, "a", 20*time.Second)
		<-time.After(time.Minute)
		begun := time.Now()
		use(t, m, "b", 0)
		if took := time.Since(begun); took > 11*time.Second {
			t.Errorf("b was ready after %v", took)
		}
	})
}

func TestAnIdleProcessIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		m := h.manager(Settings{"a": {StopAfter: schema.Duration(5 * time.Minute)}, "b": {}}, 0)
		defer m.Close()
		use(t, m, "a", time.Hour)
		use(t, m, "b", time.Second)
		<-time.After(4 * time.Minute)
		if got := stateOf(t, m, "a"); got != Ready {
			t.Errorf("a is %s after four minutes", got)
		}
		use(t, m, "a", 0)
		<-time.After(5*time.Minute + time.Second)
		if got := stateOf(t, m, "a"); got != Stopped {
			t.Errorf("a is %s after five minutes", got)
		}
		if got := stateOf(t, m, "b"); got != Ready {
			t.Errorf("b is %s", got)
		}
	})
}

func TestProcessesStayWithinTheirMemoryTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		m := h.manager(Settings{"a": {Memory: 4}, "b": {Memory: 4}, "c": {Memory: 4}, "all": {Memory: 10}, "free": {}}, 10)
		defer m.Close()
		for _, name := range []string{"a", "b", "free", "a", "c"} {
			use(t, m, name, time.Second)
			<-time.After(time.Minute)
		}
		if now, _ := h.Running(); !slices.Equal(now, []string{"a", "c", "free"}) {
			t.Errorf("%v run; b was used least recently", now)
		}
		use(t, m, "all", time.Second)
		if now, _ := h.Running(); !slices.Equal(now, []string{"all", "free"}) {
			t.Errorf("%v run", now)
		}
		if h.peak > 10 {
			t.Errorf("they had %d together", h.peak)
		}
	})
}

func TestALowerBudgetEndsWhatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		settings := Settings{"a": {Memory: 4}, "b": {Memory: 4}}
		m := h.manager(settings, 10)
		defer m.Close()
		use(t, m, "a", time.Second)
		use(t, m, "b", time.Second)
		m.Set(settings, 5)
		<-time.After(time.Minute)
		if now, _ := h.Running(); !slices.Equal(now, []string{"b"}) {
			t.Errorf("%v run", now)
		}
	})
}

// TestAStartThatNobodyWaitsForIsGivenUp has clients that leave, and clients that have
// waited for as long as they may.
func TestAStartThatNobodyWaitsForIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["a"] = time.Minute
		m := h.manager(five(), 0)
		defer m.Close()
		ctx, leave := context.WithCancel(t.Context())
		other, otherLeaves := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for _, ctx := range []context.Context{ctx, other} {
			clients.Go(func() {
				if _, err := m.Ensure(ctx, "a"); !errors.Is(err, context.Canceled) {
					t.Errorf("a client that left got %v", err)
				}
			})
		}
		<-time.After(time.Second)
		leave()
		if got := stateOf(t, m, "a"); got != Starting {
			t.Errorf("a is %s although one waits for it", got)
		}
		otherLeaves()
		clients.Wait()
		if got := stateOf(t, m, "a"); got != Stopped {
			t.Errorf("a is %s although nobody waits for it", got)
		}
		bounded, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := m.Ensure(bounded, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a client whose time is over got %v", err)
		}
		<-time.After(time.Minute)
		if got := stateOf(t, m, "a"); got != Ready {
			t.Errorf("a is %s; its start was to go on for the next client", got)
		}
	})
}

// TestAStartThatNobodyWaitsForGivesWay has a client whose time is over, and one who wants another
// process of the group.
func TestAStartThatNobodyWaitsForGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["a"] = time.Hour
		m := h.manager(five(), 0)
		defer m.Close()
		bounded, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := m.Ensure(bounded, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a client whose time is over got %v", err)
		}
		begun := time.Now()
		use(t, m, "b", 0)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("b was ready after %v", took)
		}
	})
}

// TestAProcessThatNoRequestAsksForTakesItsPlace has an administrator start a process that no
// instance names: one of its group starts after it has ended, and it is in no list of models.
func TestAProcessThatNoRequestAsksForTakesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.ends["a"] = 5 * time.Second
		m := h.manager(five(), 0)
		defer m.Close()
		b := residency.Kept{Place: m.place("b"), Sleeper: m.server("b"), Rules: m.server("b").Rules()}
		m.keeper.Follow([]residency.Kept{b})
		if err := m.Start("a"); err != nil || stateOf(t, m, "a") != Ready {
			t.Fatal(err, stateOf(t, m, "a"))
		}
		use(t, m, "b", time.Second) // the host fails the test where both run
		if states := m.keeper.States(time.Now()); len(states) != 1 || states[0].Model != "b" || m.model("a") != nil {
			t.Errorf("listed are %+v, and requests may ask for %v", states, m.model("a"))
		}
	})
}

// TestWhoLeavesTheQueueStartsNothing has a client that waits for a place and leaves.
func TestWhoLeavesTheQueueStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		m := h.manager(five(), 0)
		defer m.Close()
		release, err := m.Ensure(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := m.Ensure(bounded, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		begun := time.Now()
		use(t, m, "a", 0)
		if took := time.Since(begun); took > 0 {
			t.Errorf("a waited for %v for somebody who left", took)
		}
		release()
		synctest.Wait()
		if _, all := h.Running(); !slices.Equal(all, []string{"a"}) {
			t.Errorf("started %v", all)
		}
	})
}

func TestFailuresAreTriedAgainAtGrowingIntervalsUpToALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["a"], h.dies["a"] = time.Hour, time.Millisecond
		m := h.manager(five(), 0)
		defer m.Close()
		begun := time.Now()
		_, err := m.Ensure(t.Context(), "a")
		if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "exited with status 1") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun).Round(100 * time.Millisecond); took != 3500*time.Millisecond {
			t.Errorf("it was given up after %v", took)
		}
		if _, all := h.Running(); len(all) != 4 {
			t.Errorf("it was started %d times", len(all))
		}
		for range 100 { // clients that insist
			if _, err := m.Ensure(t.Context(), "a"); !errors.Is(err, ErrFailed) {
				t.Errorf("got %v", err)
			}
		}
		use(t, m, "b", time.Second) // is not kept by it
		if _, all := h.Running(); len(all) != 5 {
			t.Errorf("started %v", all)
		}
		<-time.After(refusal)
		if _, err := m.Ensure(t.Context(), "a"); !errors.Is(err, ErrFailed) {
			t.Errorf("got %v", err)
		}
		if _, all := h.Running(); len(all) != 6 {
			t.Errorf("after a minute it has one try more; started %v", all)
		}
		h.dies["a"], h.loads["a"] = 0, 0
		if err := m.Start("a"); err != nil { // an administrator need not wait
			t.Error(err)
		}
		if got := stateOf(t, m, "a"); got != Ready {
			t.Errorf("a is %s", got)
		}
	})
}

func TestAProgramThatCannotBeStartedIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["a"] = -1
		m := h.manager(five(), 0)
		defer m.Close()
		begun := time.Now()
		if _, err := m.Ensure(t.Context(), "a"); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "no such program") || time.Since(begun) > 0 {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
	})
}

// TestAFailedStartHasNoLineOfTheRunBefore stops a process that wrote, and takes its program away.
func TestAFailedStartHasNoLineOfTheRunBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		m := h.manager(five(), 0)
		defer m.Close()
		release, err := m.Ensure(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		release()
		if view, _, _ := m.View("a"); view.Line != "a loads" {
			t.Errorf("got the line %q, want that of the run", view.Line)
		}
		if err := m.Stop("a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.mu.Lock()
		h.loads["a"] = -1
		h.mu.Unlock()
		if err := m.Start("a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		view, lines, _ := m.View("a")
		if fault := m.server("a").Fault(); view.State != Failed || view.Line != "" || fault.Line != "" || len(lines) != 1 {
			t.Errorf("got %+v, the fault %+v and %d lines, want a failure without a line and the output of the run", view, fault, len(lines))
		}
	})
}

// TestAServerOfSomebodyElseIsNotTakenForTheProcess has a foreign program listen where the
// process is to be, until that ends.
func TestAServerOfSomebodyElseIsNotTakenForTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.isTaken = true
		m := h.manager(Settings{"a": {Restarts: 3}}, 0)
		defer m.Close()
		if _, err := m.Ensure(t.Context(), "a"); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "another program already listens on 127.0.0.1:1") {
			t.Errorf("got %v", err)
		}
		if _, all := h.Running(); len(all) != 0 {
			t.Errorf("started %v", all)
		}
		<-time.After(refusal)
		h.mu.Lock()
		h.isTaken = false
		h.mu.Unlock()
		use(t, m, "a", 0)
	})
}

// TestALostSupervisorIsOneFailure ends the supervisor of a process, which says nothing of the
// program.
func TestALostSupervisorIsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		m := h.manager(Settings{"a": {Restarts: 3}}, 0)
		defer m.Close()
		use(t, m, "a", 0)
		h.mu.Lock()
		lost := h.running["a"]
		h.mu.Unlock()
		lost.end(ending{IsLost: true})
		synctest.Wait()
		if view, _, _ := m.View("a"); view.State != Failed || view.Reason != "its supervisor was ended" {
			t.Errorf("a is %s: %s", view.State, view.Reason)
		}
		begun := time.Now()
		use(t, m, "a", 0)
		if took := time.Since(begun); took != firstBackoff {
			t.Errorf("the next request waited for %v", took)
		}
	})
}

// TestWhoWaitsIsToldThatTheGatewayStops waits for a process while the gateway stops, and asks
// for it afterwards.
func TestWhoWaitsIsToldThatTheGatewayStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["a"] = time.Hour
		m := h.manager(Settings{"a": {Restarts: 3}}, 0)
		waited := make(chan error, 1)
		go func() {
			_, err := m.Ensure(t.Context(), "a")
			waited <- err
		}()
		synctest.Wait()
		m.Close()
		if err := <-waited; !errors.Is(err, residency.ErrStopped) {
			t.Errorf("who waits is told %v", err)
		}
		if _, err := m.Ensure(t.Context(), "a"); !errors.Is(err, residency.ErrStopped) {
			t.Errorf("who comes later is told %v", err)
		}
	})
}

// TestAProcessThatDiesIsStartedByTheNextRequest kills a process that was ready for long, and
// one that dies again and again.
func TestAProcessThatDiesIsStartedByTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.dies["a"] = 2 * time.Minute
		m := h.manager(Settings{"a": {Restarts: 2}}, 0)
		defer m.Close()
		for range 10 { // each time it was well before
			use(t, m, "a", 3*time.Minute)
			if got := stateOf(t, m, "a"); got != Failed {
				t.Fatalf("a is %s", got)
			}
		}
		h.dies["a"] = time.Second
		for range 2 {
			use(t, m, "a", 2*time.Second)
		}
		if _, err := m.Ensure(t.Context(), "a"); !errors.Is(err, ErrFailed) {
			t.Errorf("after two short lives: %v", err)
		}
	})
}

func TestAStartThatTakesTooLongFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["a"], h.ends["a"] = time.Hour, time.Hour // and it ignores SIGTERM
		m := h.manager(Settings{"a": {StartTimeout: schema.Duration(time.Minute), StopTimeout: schema.Duration(10 * time.Second)}}, 0)
		defer m.Close()
		begun := time.Now()
		_, err := m.Ensure(t.Context(), "a")
		if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "not ready within 1m0s") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took != 70*time.Second {
			t.Errorf("it was given up after %v", took)
		}
		if now, _ := h.Running(); len(now) > 0 {
			t.Errorf("%v is left", now)
		}
	})
}

func TestChangedSettingsLeaveTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		settings := Settings{"a": {}, "b": {}, "c": {}}
		m := h.manager(settings, 0)
		defer m.Close()
		for name := range settings {
			use(t, m, name, time.Second)
		}
		release, err := m.Ensure(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		next := Settings{"a": settings["a"], "b": settings["b"]}
		changed := next["b"]
		changed.Env = map[string]string{"X": "1"}
		next["b"] = changed
		idle := next["a"]
		idle.StopAfter = schema.Duration(time.Hour)
		next["a"] = idle
		m.Set(next, 0)
		if now, _ := h.Running(); !slices.Equal(now, []string{"a", "b"}) && !slices.Equal(now, []string{"a", "b", "c"}) {
			t.Errorf("%v run", now)
		}
		var users sync.WaitGroup
		users.Go(func() { use(t, m, "b", time.Second) }) // gets the new one
		<-time.After(time.Second)
		if _, all := h.Running(); len(all) != 3 {
			t.Errorf("started %v", all)
		}
		release()
		users.Wait()
		now, all := h.Running()
		if !slices.Equal(now, []string{"a", "b"}) || len(all) != 4 || all[3] != "b" {
			t.Errorf("%v run, started %v", now, all)
		}
		if _, known := m.StateOf("c"); known {
			t.Error("c is still known")
		}
		if _, err := m.Ensure(t.Context(), "c"); !errors.Is(err, ErrUnknown) {
			t.Errorf("c: %v", err)
		}
		<-time.After(time.Hour)
		if got := stateOf(t, m, "a"); got != Stopped {
			t.Errorf("a is %s: its new stop-after is not in force", got)
		}
	})
}

func TestAnAdministratorStopsWhatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["b"] = time.Hour
		m := h.manager(Settings{"a": {}, "b": {}}, 0)
		defer m.Close()
		release, err := m.Ensure(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := m.Ensure(t.Context(), "b"); !errors.Is(err, ErrStopped) {
				t.Errorf("who waits for what is stopped got %v", err)
			}
		})
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			if err := m.Stop(name); err != nil {
				t.Error(err)
			}
			if got := stateOf(t, m, name); got != Stopped {
				t.Errorf("%s is %s", name, got)
			}
		}
		waiting.Wait()
		if err := m.Stop("x"); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
	})
}

// TestRandomHistories has clients that ask for random processes, use them for random times
// and sometimes leave, while processes die and settings change. The host fails the test
// where two processes of a group run; in the end everybody has an answer and nothing runs.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { history(t, rand.New(rand.NewPCG(seed, 27))) })
		})
	}
}

func history(t *testing.T, random *rand.Rand) {
	h := newHost(t)
	settings := five()
	for _, name := range []string{"x", "y", "z"} {
		settings[name] = Process{Memory: schema.Bytes(3 + random.Int64N(4)), Restarts: 2, StopAfter: schema.Duration(random.Int64N(60)) * schema.Duration(time.Second)}
	}
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		h.loads[name] = time.Duration(random.IntN(20_000)) * time.Millisecond
		h.ends[name] = time.Duration(random.IntN(15_000)) * time.Millisecond
		if random.IntN(4) == 0 {
			h.dies[name] = time.Duration(1+random.IntN(90_000)) * time.Millisecond
		}
	}
	m := h.manager(settings, 10)
	var served, failed, left int
	var mu sync.Mutex
	count := func(n *int) {
		mu.Lock()
		defer mu.Unlock()
		*n++
	}
	var clients sync.WaitGroup
	for range 8 {
		steps := rand.New(rand.NewPCG(random.Uint64(), 1))
		clients.Go(func() {
			for range 40 {
				<-time.After(time.Duration(steps.IntN(10_000)) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				if steps.IntN(5) == 0 {
					time.AfterFunc(time.Duration(steps.IntN(20_000))*time.Millisecond, cancel)
				}
				release, err := m.Ensure(ctx, names[steps.IntN(len(names))])
				switch {
				case err == nil:
					<-time.After(time.Duration(steps.IntN(8_000)) * time.Millisecond)
					release()
					count(&served)
				case errors.Is(err, context.DeadlineExceeded):
					t.Errorf("somebody waited in vain")
				case ctx.Err() != nil:
					count(&left)
				default:
					count(&failed)
				}
				cancel()
				switch steps.IntN(50) {
				case 0:
					_ = m.Stop(names[steps.IntN(len(names))])
				case 1:
					_ = m.Start(names[steps.IntN(len(names))])
				}
			}
		})
	}
	clients.Wait()
	synctest.Wait() // for what those began who left last
	for _, v := range m.List() {
		if v.Requests != 0 || v.Waiting != 0 {
			t.Errorf("%s has %d requests, and %d wait", v.Name, v.Requests, v.Waiting)
		}
	}
	if h.peak > 10 {
		t.Errorf("processes had %d together", h.peak)
	}
	m.Close()
	now, all := h.Running()
	if len(now) > 0 {
		t.Errorf("%v are left", now)
	}
	if served == 0 {
		t.Errorf("nobody was served; %d failed, %d left", failed, left)
	}
	t.Logf("served %d, failed %d, left %d, %d starts", served, failed, left, len(all))
}

// TestAProcessOfSeveralGroupsRunsAlone has a large model that needs both GPUs, and others that
// need one of them: one of each GPU runs at a time, and the large one beside none.
func TestAProcessOfSeveralGroupsRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		settings := Settings{
			"large": {Group: Groups{"gpu0", "gpu1"}}, "a": {Group: Groups{"gpu0"}}, "b": {Group: Groups{"gpu0"}},
			"voice": {Group: Groups{"gpu1"}},
		}
		for name := range settings {
			h.loads[name] = 10 * time.Second
		}
		k := h.manager(settings, 0)
		defer k.Close()
		for _, c := range []struct{ name, runs string }{
			{"a", "a"}, {"voice", "a voice"}, {"b", "b voice"}, {"large", "large"}, {"voice", "voice"}, {"a", "a voice"},
		} {
			use(t, k, c.name, time.Second)
			if now, _ := h.Running(); strings.Join(now, " ") != c.runs {
				t.Errorf("beside %s run %v", c.name, now)
			}
			<-time.After(time.Minute)
		}
		if got := k.List()[2]; got.Group != "gpu0, gpu1" {
			t.Errorf("%+v", got)
		}
		end := time.Now().Add(time.Hour)
		served := map[string]int{}
		var mu sync.Mutex
		var users sync.WaitGroup
		for name := range settings {
			users.Go(func() {
				for time.Now().Before(end) {
					use(t, k, name, time.Second)
					mu.Lock()
					served[name]++
					mu.Unlock()
				}
			})
		}
		users.Wait()
		for name := range settings {
			if served[name] < 200 {
				t.Errorf("%s was served %d times in an hour of four models: %v", name, served[name], served)
			}
		}
	})
}

// TestMemoryIsTakenUntilAProcessHasEnded has a process that takes long to end, in the place of
// which two others fit.
func TestMemoryIsTakenUntilAProcessHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		m := h.manager(Settings{"all": {Memory: 10}, "a": {Memory: 4}, "b": {Memory: 4}, "c": {Memory: 4}}, 10)
		defer m.Close()
		for _, name := range []string{"all", "a", "b", "c"} {
			h.loads[name], h.ends[name] = time.Second, 5*time.Second
		}
		for range 10 {
			use(t, m, "all", time.Second)
			<-time.After(time.Minute)
			var users sync.WaitGroup
			for _, name := range []string{"a", "b"} {
				users.Go(func() { use(t, m, name, time.Second) })
			}
			users.Wait()
			<-time.After(time.Minute)
		}
		use(t, m, "a", time.Second)
		<-time.After(time.Minute)
		use(t, m, "c", time.Second)
		<-time.After(time.Minute)
		if now, _ := h.Running(); !slices.Equal(now, []string{"a", "c"}) {
			t.Errorf("%v run; only b had to leave", now)
		}
		if h.peak > 10 {
			t.Errorf("they had %d together", h.peak)
		}
	})
}
