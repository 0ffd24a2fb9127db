package processes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// TestKeptProcessesAreServedInTurns sends requests for five models without a pause, of which
// one fits: each has its turn in the order in which it was asked for, and little time is
// spent on starts.
func TestKeptProcessesAreServedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		settings := five()
		names := []string{"a", "b", "c", "d", "e"}
		for _, name := range names {
			h.loads[name] = 10 * time.Second
		}
		k := h.manager(settings, 0)
		defer k.Close()
		end := time.Now().Add(time.Hour)
		var users sync.WaitGroup
		for n, name := range names {
			users.Go(func() {
				<-time.After(time.Duration(n) * time.Second)
				for time.Now().Before(end) {
					use(t, k, name, time.Second)
				}
			})
		}
		users.Wait()
		_, all := h.Running()
		for n, name := range all {
			if name != names[n%5] {
				t.Fatalf("started %v", all)
			}
		}
		if loads := time.Duration(len(all)) * 10 * time.Second; len(all) < 20 || loads > 31*time.Minute {
			t.Errorf("%d starts: %v of an hour", len(all), loads)
		}
	})
}

// TestAKeptProcessIsStoppedWhenNobodyUsesIt has one that is pinned beside one that is not.
func TestAKeptProcessIsStoppedWhenNobodyUsesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		settings := Settings{"a": {StopAfter: schema.Duration(5 * time.Minute)}}
		k := h.manager(settings, 0)
		defer k.Close()
		use(t, k, "a", time.Hour)
		<-time.After(4 * time.Minute)
		if got := stateOf(t, k, "a"); got != Ready {
			t.Errorf("a is %s after four minutes", got)
		}
		<-time.After(time.Minute + 2*time.Second)
		if got := stateOf(t, k, "a"); got != Stopped {
			t.Errorf("a is %s after five minutes", got)
		}
		if s := k.keeper.States(time.Now())[0]; s.State != "absent" || s.Sleeps != 1 || s.Counts.Loads != 1 {
			t.Errorf("%+v", s)
		}
		server := k.Server("a", settings["a"], 0)
		rules := server.Rules()
		rules.IsPinned = true
		k.keeper.Follow([]residency.Kept{{Place: k.model("a").Place(), Sleeper: server, Rules: rules}})
		use(t, k, "a", time.Second)
		<-time.After(time.Hour)
		if got := stateOf(t, k, "a"); got != Ready {
			t.Errorf("a is %s although it is pinned", got)
		}
	})
}

// TestAKeptProcessThatGoesByItself dies, is stopped by an administrator, or started by one.
func TestAKeptProcessThatGoesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.dies["a"] = 5 * time.Minute
		settings := Settings{"a": {}}
		k := h.manager(settings, 0)
		defer k.Close()
		residence := func() string { return k.keeper.States(time.Now())[0].State }
		use(t, k, "a", time.Second)
		<-time.After(6 * time.Minute)
		if got := residence(); got != residency.Failed {
			t.Errorf("a that has died is %s", got)
		}
		use(t, k, "a", time.Second)
		if err := k.Stop("a"); err != nil {
			t.Fatal(err)
		}
		if got := residence(); got != "absent" {
			t.Errorf("a that was stopped is %s", got)
		}
		use(t, k, "a", time.Second)
		if err := k.Stop("a"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if err := k.Start("a"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if got := residence(); got != "loaded" {
			t.Errorf("a that was started is %s", got)
		}
		begun := time.Now()
		use(t, k, "a", 0)
		if took := time.Since(begun); took > 0 {
			t.Errorf("a waited for %v for what runs", took)
		}
	})
}

// TestAKeptStartGoesOnForTheNext has clients who have waited for as long as they may, and
// clients who leave.
func TestAKeptStartGoesOnForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.loads["a"] = time.Minute
		settings := Settings{"a": {}}
		k := h.manager(settings, 0)
		defer k.Close()
		if err := k.model("a").Enter(t.Context(), 10*time.Second); !errors.Is(err, residency.ErrTimeout) {
			t.Errorf("a client whose time is over got %v", err)
		}
		if got := stateOf(t, k, "a"); got != Starting {
			t.Errorf("a is %s; its start was to go on for the next client", got)
		}
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if err := k.model("a").Enter(ctx, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("a client who left got %v", err)
		}
		if got := stateOf(t, k, "a"); got != Stopped {
			t.Errorf("a is %s although nobody waits for it", got)
		}
	})
}

// TestAProcessWhoseConnectionBrokeIsLookedAt doubts one that is well, and one that has died.
func TestAProcessWhoseConnectionBrokeIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		m := h.manager(Settings{"a": {Restarts: 3}}, 0)
		defer m.Close()
		use(t, m, "a", 0)
		m.server("a").Doubt()
		if m.server("a").Enter(1) {
			t.Error("it takes calls before it was looked at")
		}
		use(t, m, "a", 0)
		if _, all := h.Running(); len(all) != 1 {
			t.Errorf("started %v", all)
		}
		h.mu.Lock()
		h.loads["a"] = 3 * time.Second // it does not answer any more
		h.running["a"].begun = time.Now()
		h.mu.Unlock()
		m.server("a").Doubt()
		h.mu.Lock()
		dying := h.running["a"]
		h.mu.Unlock()
		time.AfterFunc(time.Second, func() { dying.end(ending{Code: 1}) })
		use(t, m, "a", 0)
		if _, all := h.Running(); !slices.Equal(all, []string{"a", "a"}) {
			t.Errorf("started %v", all)
		}
	})
}
