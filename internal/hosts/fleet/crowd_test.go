package fleet_test

import (
	"strconv"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// ollamas are two hosts that have one model each in memory, and do not say so. They throw out
// a model by themselves for another one.
type ollamas struct {
	t      *testing.T
	fleet  *fleet.Fleet
	places map[string][]*fleet.Instance
	has    map[string]string // the model of each host
	loads  map[string]int    // of each model
	now    float64
	told   float64
}

func newOllamas(t *testing.T, gateway string, pinned string, models ...string) *ollamas {
	o := &ollamas{
		t: t, fleet: fleet.New(fleet.Options{Gateway: gateway}, at(0)),
		places: map[string][]*fleet.Instance{}, has: map[string]string{}, loads: map[string]int{},
	}
	for _, model := range models {
		o.places[model] = ofModel(o.fleet, model)
		for _, i := range o.places[model] {
			i.Keep(fleet.Keeping{IsPinned: model == pinned})
		}
	}
	o.tell()
	return o
}

// tell lets the hosts tell which model they have.
func (o *ollamas) tell() {
	for _, all := range o.places {
		for _, i := range all {
			models := fleet.Models{}
			if model := o.has[i.Host().Name()]; model != "" {
				models.Awake = []string{model}
			}
			i.Host().Has(models, at(o.now))
		}
	}
	o.told = o.now
}

// ask sends a request for a model.
func (o *ollamas) ask(model string) {
	o.t.Helper()
	from := o.places[model]
	if chosen := o.fleet.Preferred(from, true, false, at(o.now)); chosen != nil {
		var list []*fleet.Instance
		for _, n := range chosen {
			list = append(list, from[n])
		}
		from = list
	}
	call := o.fleet.Choose(from, small(), at(o.now))
	i := call.Instance
	if !i.Enter(1, at(o.now)) {
		if _, begun, _ := i.BeginLoad(false, at(o.now)); begun != fleet.Began {
			o.t.Fatalf("loading %s: %v", model, begun)
		}
		o.load(i)
		i.EndLoad(1, at(o.now))
	}
	o.load(i) // where the gateway did not know that it was thrown out
	answer(call, o.now+0.1, o.now+0.2)
	o.now += 0.2
	i.Leave(at(o.now))
	if o.now-o.told >= 2 {
		o.tell()
	}
	o.now += 0.1
}

// load lets the host of an instance have its model.
func (o *ollamas) load(i *fleet.Instance) {
	if o.has[i.Host().Name()] != i.Model() {
		o.has[i.Host().Name()] = i.Model()
		o.loads[i.Model()]++
		o.now += 0.5
	}
}

func (o *ollamas) sum() (loads int) {
	for _, n := range o.loads {
		loads += n
	}
	return loads
}

// TestAModelIsLoadedWhereTheFewestAre asks for two models in turns, of hosts that have room
// for one and do not say so.
func TestAModelIsLoadedWhereTheFewestAre(t *testing.T) {
	for n := range 8 { // gateways with other names begin with other hosts
		o := newOllamas(t, strconv.Itoa(n), "", "one", "two")
		for range 10 {
			o.ask("one")
			o.ask("two")
		}
		if o.sum() != 2 {
			t.Errorf("gateway %d: loads %v", n, o.loads)
		}
	}
}

// TestAPinnedModelStaysAlthoughItsHostDoesNotKnowIt asks for three models in turns.
func TestAPinnedModelStaysAlthoughItsHostDoesNotKnowIt(t *testing.T) {
	for n := range 8 {
		o := newOllamas(t, strconv.Itoa(n), "one", "one", "two", "three")
		for range 20 {
			o.ask("one")
			o.ask("two")
			o.ask("three")
		}
		if o.loads["one"] != 1 {
			t.Errorf("gateway %d: loads %v, and one is pinned", n, o.loads)
		}
	}
}

// TestWhatAHostThrewOutOnceIsForgotten lets one of two hosts throw out a model once, for a
// request that took much memory perhaps.
func TestWhatAHostThrewOutOnceIsForgotten(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	one, two := ofModel(f, "one"), ofModel(f, "two")
	a, b := one[0].Host(), one[1].Host()
	costs := func(now float64) (first, second float64) {
		for _, e := range f.Explain(two, small(), at(now)) {
			if e.Instance == two[0] {
				first = e.Avoidable
			} else {
				second = e.Avoidable
			}
		}
		return first, second
	}
	b.Has(fleet.Models{Awake: []string{"one"}}, at(1))
	a.Has(fleet.Models{Awake: []string{"one"}}, at(1))
	answer(f.Choose(one[:1], small(), at(2)), 3, 4)
	answer(f.Choose(two[:1], small(), at(6)), 16, 17)
	a.Has(fleet.Models{Awake: []string{"two"}}, at(18))
	for now := 60.0; now < 3600; now += 60 { // both tell the same from now on
		for n, host := range []*fleet.Host{a, b} {
			host.Has(fleet.Models{Awake: []string{"one"}}, at(now))
			answer(f.Choose(one[n:n+1], small(), at(now)), now+1, now+2)
		}
		if first, second := costs(now + 10); now < 600 && first <= second {
			t.Fatalf("%.1f s at the host that threw out a model %.0f s ago, %.1f at the other", first, now, second)
		}
	}
	if first, second := costs(3610); first > second*1.05 {
		t.Errorf("%.1f s at the host that threw out a model an hour ago, %.1f at the other", first, second)
	}
}

// TestWhatAHostThrowsOutIsLearned lets a host with other models show how many it has at a time.
func TestWhatAHostThrowsOutIsLearned(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	one, two := ofModel(f, "one"), ofModel(f, "two")
	a, b := one[0].Host(), one[1].Host()
	again := func(now float64) float64 {
		told := f.Explain(two, small(), at(now))
		for _, e := range told {
			if e.Instance == two[0] {
				return e.Avoidable
			}
		}
		return 0
	}
	a.Has(fleet.Models{Awake: []string{"one"}}, at(1))
	b.Has(fleet.Models{}, at(1))
	answer(f.Choose(one[:1], small(), at(2)), 3, 4)
	unknown := again(5)
	if unknown <= 0 {
		t.Error("a host with another model costs no more than an empty one")
	}
	answer(f.Choose(two[:1], small(), at(6)), 16, 17)
	a.Has(fleet.Models{Awake: []string{"two"}}, at(18)) // it has thrown out the first
	answer(f.Choose(one[:1], small(), at(19)), 29, 30)
	a.Has(fleet.Models{Awake: []string{"one"}}, at(31))
	if learned := again(32); learned <= unknown {
		t.Errorf("%.1f s after one model left for the other, %.1f before", learned, unknown)
	}
	a.Has(fleet.Models{Awake: []string{"one", "two"}}, at(40))
	a.Has(fleet.Models{Awake: []string{"one"}}, at(400)) // nobody has used it
	if shown := again(401); shown != 0 {
		t.Errorf("%.1f s where the host has had both", shown)
	}
}
