package fleet_test

import (
	"math/rand/v2"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// ofModel returns the instances of a model on hosts a and b.
func ofModel(f *fleet.Fleet, model string) []*fleet.Instance {
	return []*fleet.Instance{f.Instance("a", model), f.Instance("b", model)}
}

// TestModelsStayWhereTheyAreLoaded asks for two models on hosts with room for one.
func TestModelsStayWhereTheyAreLoaded(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	one, two := ofModel(f, "one"), ofModel(f, "two")
	for _, i := range one {
		i.Host().SetRoom(1)
	}
	first, second := f.Choose(one, small(), at(0)), f.Choose(two, small(), at(1))
	if first.Instance.Host() == second.Instance.Host() {
		t.Error("the second model pushes the first one out, and another host is empty")
	}
	if first.Estimate.Load == 0 || second.Estimate.Load == 0 {
		t.Error("nothing has to be loaded at first")
	}
	answer(first, 25, 26)
	answer(second, 26, 27)
	for n := range 20 {
		now := 100 + float64(n)
		for _, c := range []struct {
			from []*fleet.Instance
			home *fleet.Call
		}{{one, first}, {two, second}} {
			call := f.Choose(c.from, small(), at(now))
			if call.Instance != c.home.Instance || call.Estimate.Load != 0 {
				t.Fatalf("%+v, and the model is loaded elsewhere", call.Estimate)
			}
			answer(call, now+0.3, now+0.4)
		}
	}
	told := f.Explain(one, small(), at(200))
	if load := told[1].Load; load < 15 || load > 30 {
		t.Errorf("loading is believed to take %.1f s, it took 25", load)
	}
}

// TestHostsTellWhichModelsTheyHave follows a host that says which models it has in memory.
func TestHostsTellWhichModelsTheyHave(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	one := ofModel(f, "one")
	a, b := one[0].Host(), one[1].Host()
	states := func() (states [2]string) {
		for n, p := range f.Pictures(at(0)) {
			states[n] = p.State
		}
		return states
	}
	if states() != [2]string{"unknown", "unknown"} {
		t.Errorf("%v before anything was told", states())
	}
	if f.Explain(one, small(), at(0))[0].Load != 0 {
		t.Error("a model about which nothing is known has to be loaded")
	}
	a.Has(fleet.Models{Awake: []string{"two"}}, at(0))
	b.Has(fleet.Models{Awake: []string{"one", "two"}}, at(0))
	if states() != [2]string{"absent", "loaded"} {
		t.Errorf("%v where the model is loaded on the second", states())
	}
	for range 4 { // waits add up, and are less than loading
		if call := f.Choose(one, small(), at(0)); call.Instance != one[1] {
			t.Errorf("%+v was chosen", call.Estimate)
		}
	}
	b.Lost()
	b.Has(fleet.Models{Awake: []string{"two"}, Asleep: []string{"one"}}, at(0))
	if told := f.Explain(one, small(), at(0)); told[0].Instance != one[1] || told[0].Load >= told[1].Load {
		t.Errorf("a sleeping model takes as long as one that is not there: %+v", told)
	}
	call := f.Choose(one, small(), at(0))
	b.Has(fleet.Models{Awake: []string{"two"}}, at(0))
	if states() != [2]string{"absent", "loading"} {
		t.Errorf("%v while the model is loaded", states())
	}
	call.Abort(at(1))
	if states() != [2]string{"absent", "absent"} {
		t.Errorf("%v after the only call that needed the model was given up", states())
	}
}

// TestModelThatSleepsHasNoCache lets a model that has a prompt in its cache fall asleep and
// wake up.
func TestModelThatSleepsHasNoCache(t *testing.T) {
	f, all := team(1)
	ask := &fleet.Ask{Prompt: read(randomText(rand.New(rand.NewPCG(1, 1)), 40_000)), Tokens: 10_000}
	answer(f.Choose(all, ask, at(0)), 1, 2)
	host := all[0].Host()
	for n, c := range []struct {
		awake, asleep []string
		matched       bool
	}{{[]string{"m"}, nil, true}, {nil, []string{"m"}, false}, {[]string{"m"}, nil, false}} {
		host.Has(fleet.Models{Awake: c.awake, Asleep: c.asleep}, at(3))
		if matched := f.Explain(all, ask, at(3))[0].Matched; matched > 0 != c.matched {
			t.Errorf("%d: %.2f of the prompt is believed to be cached", n, matched)
		}
	}
}
