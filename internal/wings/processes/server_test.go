package processes

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
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// keptProcesses are processes that are kept in memory like the models of other servers, as a
// gateway does it.
type keptProcesses struct {
	keeper *residency.Keeper
	models map[string]*residency.Model
	end    context.CancelFunc
	ended  chan struct{}
}

func keep(m *Manager, settings Settings, memory int64) *keptProcesses {
	ctx, end := context.WithCancel(context.Background())
	k := &keptProcesses{keeper: residency.New(residency.Options{}), models: map[string]*residency.Model{}, end: end, ended: make(chan struct{})}
	m.keeps = func(name string) bool { return k.models[name] != nil }
	f := fleet.New(fleet.Options{}, time.Now())
	var all []residency.Kept
	for name, p := range settings {
		server := m.Server(name, p, schema.Bytes(memory))
		all = append(all, residency.Kept{Place: f.Instance(name, name), Sleeper: server, Rules: server.Rules()})
	}
	k.keeper.Follow(all)
	for _, one := range all {
		k.models[one.Place.Model()] = k.keeper.Model(one.Place)
	}
	go func() {
		defer close(k.ended)
		k.keeper.Run(ctx)
	}()
	return k
}

// stop ends the keeper, without which a bubble of synctest does not end.
func (k *keptProcesses) stop() {
	k.end()
	<-k.ended
}

// ensure is Manager.Ensure by way of the keeper, as requests have it.
func (k *keptProcesses) ensure(ctx context.Context, name string) (release func(), err error) {
	m := k.models[name]
	if !m.TryEnter() {
		if err := m.Enter(ctx, 10*time.Minute-time.Millisecond); err != nil {
			return nil, err
		}
	}
	return m.Leave, nil
}

func (k *keptProcesses) use(t *testing.T, name string, during time.Duration) {
	t.Helper()
	release, err := k.ensure(t.Context(), name)
	if err != nil {
		t.Error(name, err)
		return
	}
	<-time.After(during)
	release()
}

// TestRandomHistoriesOfKeptProcesses are those of TestRandomHistories for processes that are
// kept like the models of other servers.
func TestRandomHistoriesOfKeptProcesses(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { history(t, rand.New(rand.NewPCG(seed, 72)), true) })
		})
	}
}

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
		m := h.manager(settings, 0)
		defer m.Close()
		k := keep(m, settings, 0)
		defer k.stop()
		end := time.Now().Add(time.Hour)
		var users sync.WaitGroup
		for n, name := range names {
			users.Go(func() {
				<-time.After(time.Duration(n) * time.Second)
				for time.Now().Before(end) {
					k.use(t, name, time.Second)
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
		m := h.manager(settings, 0)
		defer m.Close()
		k := keep(m, settings, 0)
		defer k.stop()
		k.use(t, "a", time.Hour)
		<-time.After(4 * time.Minute)
		if got := stateOf(t, m, "a"); got != Ready {
			t.Errorf("a is %s after four minutes", got)
		}
		<-time.After(time.Minute + 2*time.Second)
		if got := stateOf(t, m, "a"); got != Stopped {
			t.Errorf("a is %s after five minutes", got)
		}
		if s := k.keeper.States(time.Now())[0]; s.State != "absent" || s.Sleeps != 1 || s.Counts.Loads != 1 {
			t.Errorf("%+v", s)
		}
		server := m.Server("a", settings["a"], 0)
		rules := server.Rules()
		rules.IsPinned = true
		k.keeper.Follow([]residency.Kept{{Place: k.models["a"].Place(), Sleeper: server, Rules: rules}})
		k.use(t, "a", time.Second)
		<-time.After(time.Hour)
		if got := stateOf(t, m, "a"); got != Ready {
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
		m := h.manager(settings, 0)
		defer m.Close()
		k := keep(m, settings, 0)
		defer k.stop()
		residence := func() string { return k.keeper.States(time.Now())[0].State }
		k.use(t, "a", time.Second)
		<-time.After(6 * time.Minute)
		if got := residence(); got != "absent" {
			t.Errorf("a that has died is %s", got)
		}
		k.use(t, "a", time.Second)
		if err := m.Stop("a"); err != nil {
			t.Fatal(err)
		}
		if got := residence(); got != "absent" {
			t.Errorf("a that was stopped is %s", got)
		}
		k.use(t, "a", time.Second)
		if err := m.Stop("a"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if err := m.Start("a"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if got := residence(); got != "loaded" {
			t.Errorf("a that was started is %s", got)
		}
		begun := time.Now()
		k.use(t, "a", 0)
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
		m := h.manager(settings, 0)
		defer m.Close()
		k := keep(m, settings, 0)
		defer k.stop()
		if err := k.models["a"].Enter(t.Context(), 10*time.Second); !errors.Is(err, residency.ErrTimeout) {
			t.Errorf("a client whose time is over got %v", err)
		}
		if got := stateOf(t, m, "a"); got != Starting {
			t.Errorf("a is %s; its start was to go on for the next client", got)
		}
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if err := k.models["a"].Enter(ctx, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("a client who left got %v", err)
		}
		if got := stateOf(t, m, "a"); got != Stopped {
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
		m.Doubt("a")
		if m.Enter("a", 1) {
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
		m.Doubt("a")
		h.mu.Lock()
		dying := h.running["a"]
		h.mu.Unlock()
		time.AfterFunc(time.Second, func() { dying.end(ending{code: 1}) })
		use(t, m, "a", 0)
		if _, all := h.Running(); !slices.Equal(all, []string{"a", "a"}) {
			t.Errorf("started %v", all)
		}
	})
}
