package fleet_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// keep returns the place of a model that is kept and in memory.
func keep(f *fleet.Fleet, host, model string, how fleet.Keeping, now time.Time) *fleet.Instance {
	i := f.Instance(host, model)
	i.Keep(how)
	i.EndLoad(0, now)
	return i
}

// TestGatewaysTellEachOtherWhichModelsTheyUse lets three gateways use a model or not. That
// one has heard of a use is no use of its own, or it would never end.
func TestGatewaysTellEachOtherWhichModelsTheyUse(t *testing.T) {
	var all []*fleet.Fleet
	var places []*fleet.Instance
	for range 3 {
		f := fleet.New(fleet.Options{}, at(0))
		all = append(all, f)
		places = append(places, keep(f, "h", "m", fleet.Keeping{}, at(1)))
	}
	exchange := func(now float64) (told [3]bool) {
		for n, f := range all {
			message := f.Export(at(now))
			told[n] = message != nil
			for other, g := range all {
				if other == n || message == nil {
					continue
				}
				if err := g.Import(string(rune('a'+n)), message, at(now)); err != nil {
					t.Fatal(err)
				}
			}
		}
		return told
	}
	exchange(2) // that it was loaded
	places[0].Enter(1, at(10))
	if told := exchange(11); told != [3]bool{true, false, false} {
		t.Errorf("%v tell of a use", told)
	}
	if told := exchange(60); !told[0] || told[1] {
		t.Errorf("%v tell of a use that lasts", told)
	}
	places[0].Leave(at(61))
	exchange(62)
	for n := range 10 {
		if told := exchange(64 + float64(n)); told != [3]bool{} {
			t.Errorf("%v tell of a use at %d s, and nobody uses it", told, 64+n)
		}
	}
	for n, place := range places[1:] {
		if used := place.Residence(at(100)).Used; !used.Equal(at(62)) {
			t.Errorf("gateway %d believes that it was used at %s", n+1, used)
		}
		if place.PutOut(at(61), at(100)) {
			t.Error("put out although it was used since")
		}
		if !place.PutOut(at(63), at(100)) {
			t.Error("not put out although it was not used since")
		}
	}
}

// TestAHostIsNotBelievedRightAfterAChange tells what was true before an order.
func TestAHostIsNotBelievedRightAfterAChange(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	i := keep(f, "h", "m", fleet.Keeping{}, at(10))
	i.Host().Has(fleet.Models{}, at(11))
	if state := i.Residence(at(11)).State; state != "loaded" {
		t.Errorf("%s one second after it was loaded", state)
	}
	i.Host().Has(fleet.Models{Bytes: map[string]int64{"m": 5}}, at(20))
	if r := i.Residence(at(20)); r.State != "absent" || !r.Since.Equal(at(20)) || r.Bytes != 5 {
		t.Errorf("%+v ten seconds after it was loaded", r)
	}
	if _, begun, _ := i.BeginLoad(false, at(30)); begun != fleet.Began {
		t.Fatal(begun)
	}
	i.Host().Lost()
	i.Host().Has(fleet.Models{}, at(50))
	if state := i.Residence(at(50)).State; state != "loading" {
		t.Errorf("%s while it is loaded by order", state)
	}
	i.GiveUpLoad(at(51))
	if state := i.Residence(at(51)).State; state != "absent" {
		t.Errorf("%s after that was given up", state)
	}
	// An Ollama lists a model while it loads it, and for a moment after that was given up.
	i.Host().Has(fleet.Models{Awake: []string{"m"}}, at(50.9))
	i.Host().Has(fleet.Models{Awake: []string{"m"}}, at(51.1))
	if state := i.Residence(at(51.1)).State; state != "absent" {
		t.Errorf("%s by a report from before that was noticed", state)
	}
	i.Host().Has(fleet.Models{Awake: []string{"m"}}, at(60))
	if state := i.Residence(at(60)).State; state != "loaded" {
		t.Errorf("%s although the host has it all the same", state)
	}
}

// TestRequestsGoWhereTheirModelIs asks for the preferred instances in each state.
func TestRequestsGoWhereTheirModelIs(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	a, b := f.Instance("a", "m"), f.Instance("b", "m")
	all := []*fleet.Instance{a, b}
	check := func(what string, spread bool, now float64, want ...int) {
		t.Helper()
		got := f.Preferred(all, spread, false, at(now))
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
		for n := range want {
			if got[n] != want[n] {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
	}
	check("not kept", false, 1)
	a.Keep(fleet.Keeping{Room: 1})
	b.Keep(fleet.Keeping{Room: 1})
	resident := keep(f, "a", "other", fleet.Keeping{Room: 1}, at(2))
	check("a has another model", false, 3, 1)
	check("announced at b", false, 3.5, 1)
	check("spread, announced at b", true, 3.5, 1)
	check("the announcement is old", true, 10, 0, 1)
	b.BeginLoad(false, at(11))
	check("being loaded at b", false, 20, 1)
	b.EndLoad(0, at(21))
	check("loaded at b", false, 22, 1)
	check("spread, loaded at b", true, 22, 1, 0)
	resident.Keep(fleet.Keeping{Room: 1, IsPinned: true})
	check("spread, and a cannot make room", true, 23, 1)
	all = all[:1]
	if got := f.Preferred(all, false, false, at(24)); got == nil || len(got) > 0 {
		t.Errorf("%v, and a cannot make room", got)
	}
}

// TestRequestsThatChooseAtOnceLoadTheirModelOnce lets several requests ask where their model
// may go before the first of them has chosen, as they do on a machine with many cores.
func TestRequestsThatChooseAtOnceLoadTheirModelOnce(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	var all []*fleet.Instance
	for _, host := range []string{"a", "b", "c"} {
		i := f.Instance(host, "m")
		i.Keep(fleet.Keeping{Room: 1})
		all = append(all, i)
	}
	for range 4 {
		if got := f.Preferred(all, true, false, at(1)); len(got) != len(all) {
			t.Fatalf("%v before the first choice", got)
		}
	}
	ask := &fleet.Ask{Prompt: read([]byte("hello")), Tokens: 1000}
	first := f.Choose(all, ask, at(1)).Instance
	for n := range 3 {
		if next := f.Choose(all, ask, at(1)).Instance; next != first {
			t.Errorf("request %d loads the model once more", n+2)
		}
	}
	first.BeginLoad(false, at(1))
	first.EndLoad(0, at(2))
	elsewhere := false
	for range 50 { // once one has it, others may be worth loading it for
		elsewhere = elsewhere || f.Choose(all, ask, at(3)).Instance != first
	}
	if !elsewhere {
		t.Error("a crowd never loads the model elsewhere")
	}
}

// TestAHostIsBelievedThatNobodyHasGivenAnOrder tells where models are right after a gateway
// has started, after a load that failed, and after what the host told itself.
func TestAHostIsBelievedThatNobodyHasGivenAnOrder(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	i := f.Instance("h", "m")
	i.Keep(fleet.Keeping{})
	for n, c := range []struct {
		models fleet.Models
		want   string
	}{
		{fleet.Models{Awake: []string{"m"}}, "loaded"},
		{fleet.Models{Asleep: []string{"m"}}, "sleeping"},
		{fleet.Models{}, "absent"},
	} {
		now := 0.1 + float64(n)/10
		i.Host().Has(c.models, at(now))
		if state := i.Residence(at(now)).State; state != c.want {
			t.Errorf("%s after the host told %+v", state, c.models)
		}
	}
	i.BeginLoad(false, at(10))
	i.FailLoad(at(11))
	i.Host().Has(fleet.Models{Awake: []string{"m"}}, at(11.1))
	if state := i.Residence(at(11.1)).State; state != "loaded" {
		t.Errorf("%s after a load failed and the host has the model", state)
	}
	i.BeginLoad(false, at(20))
	i.EndLoad(0, at(21))
	i.Host().Lost()
	i.Host().Has(fleet.Models{}, at(21.5))
	if state := i.Residence(at(21.5)).State; state != "absent" {
		t.Errorf("%s although the host was started anew without it", state)
	}
}
