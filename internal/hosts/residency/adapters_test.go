package residency_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
)

// addAdapter adds a LoRA adapter beside the model of an engine.
func (r *rig) addAdapter(e *engine, host, name string, room float64) *residency.Model {
	place := r.fleet.Instance(host, name)
	r.kept = append(r.kept, residency.Kept{Place: place, Sleeper: sleeper{e, name}, Rules: residency.Rules{
		Space: place.Host().AdapterSpace(), Capacity: room, Size: 1, IsAdapter: true,
	}})
	r.keeper.Follow(r.kept)
	return r.keeper.Model(place)
}

// use makes a call.
func use(r *rig, m *residency.Model) {
	r.Helper()
	if err := r.use(m, time.Second); err != nil {
		r.Fatal(err)
	}
}

// Adapters have a room of their own: neither does the model of their engine leave for one, nor does
// an adapter count as a model that the engine has room for.
func TestAdaptersLeaveForAdapters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(200 * time.Millisecond)
		base := r.fleet.Instance("h", "m")
		base.Host().SetRoom(1)
		base.Host().Has(fleet.Models{Awake: []string{"m"}}, time.Now())
		one, two, three := r.addAdapter(e, "h", "l1", 2), r.addAdapter(e, "h", "l2", 2), r.addAdapter(e, "h", "l3", 2)
		for _, m := range []*residency.Model{one, two, three, one} {
			use(r, m)
			<-time.After(10 * time.Second)
		}
		if got := base.Residence(time.Now()); got.State != "loaded" {
			t.Errorf("the model is %s", got.State)
		}
		if e.has("l1") && e.has("l2") && e.has("l3") || !e.has("l1") {
			t.Errorf("the engine has %v", e.loaded)
		}
		if again, _ := e.count("l1"); again != 2 {
			t.Errorf("l1 was loaded %d times", again)
		}
	})
}

// What an engine tells of its adapters says nothing of its model, and the other way round. Its own
// number of adapters holds where nobody has said one, and survives an edit.
func TestEnginesTellOfAdaptersApart(t *testing.T) {
	t.Parallel()
	for room, loads := range map[float64]int{0: 2, 3: 1} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, residency.Options{})
			defer r.end()
			e := newEngine(200 * time.Millisecond)
			base := r.fleet.Instance("h", "m")
			one, two := r.addAdapter(e, "h", "l1", room), r.addAdapter(e, "h", "l2", room)
			host := base.Host()
			host.Has(fleet.Models{Awake: []string{"m"}}, time.Now())
			host.Has(fleet.Models{Awake: []string{"l1"}, AreAdapters: true}, time.Now())
			host.SetAdapterRoom(1)
			r.keeper.Follow(r.kept)
			now := time.Now()
			if m, a, b := base.Residence(now), one.Residence(now), two.Residence(now); m.State != "loaded" || a.State != "loaded" || b.State != "absent" {
				t.Errorf("%s, %s and %s", m.State, a.State, b.State)
			}
			use(r, one)
			<-time.After(10 * time.Second)
			use(r, two)
			<-time.After(10 * time.Second)
			use(r, one)
			if got, _ := e.count("l1"); got != loads-1 {
				t.Errorf("with room %g l1 was loaded %d times", room, got)
			}
		})
	}
}

// A call that finds the adapter gone says so, and the next one loads it again.
func TestAMissingAdapterIsLoadedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(200 * time.Millisecond)
		m := r.addAdapter(e, "h", "l1", 2)
		use(r, m)
		if !m.TryEnter() {
			t.Fatal("it is not loaded")
		}
		m.Missing(t.Context())
		m.Leave()
		if m.TryEnter() {
			t.Error("it counts as loaded")
		}
		use(r, m)
		if loads, _ := e.count("l1"); loads != 2 {
			t.Errorf("it was loaded %d times", loads)
		}
		if took := m.Residence(time.Now()).Loads; took < 100*time.Millisecond || took > 300*time.Millisecond {
			t.Errorf("loading is expected to take %s", took)
		}
	})
}
