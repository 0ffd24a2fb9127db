package balance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

// followed returns a balancer by least time, and instances that have their places in one
// fleet.
func followed(all []*backend.Instance) *balance.Soonest {
	f := fleet.New(fleet.Options{}, time.Now())
	for _, i := range all {
		i.Join(f)
	}
	return balance.New(balance.LeastTime, len(all)).(*balance.Soonest)
}

// asking returns a request that comes now.
func asking() balance.Asked {
	return balance.Asked{Request: &schema.Request{Service: schema.Chat, Stream: true}, Now: time.Now()}
}

// Two keys for one model at one address are two instances whose addresses are spelled
// differently. They have one place in the fleet, and both get requests.
func TestInstancesThatShareAPlaceShareItsCalls(t *testing.T) {
	all := team(t, 1, 1, 1)
	all[1].Settings.BaseURL = all[0].Settings.BaseURL + "/"
	b := followed(all)
	if all[0].Engine() != all[1].Engine() || all[0].Engine() == all[2].Engine() {
		t.Fatal("the first two do not have one place")
	}
	var picked strings.Builder
	for range 12 {
		asked := asking()
		would := b.Explain(all, asked)
		i, call := b.Begin(all, asked)
		if would[0].Instance != i {
			t.Errorf("%s was picked, and %s explained", letter(i), letter(would[0].Instance))
		}
		named := map[*backend.Instance]bool{would[0].Instance: true, would[1].Instance: true, would[2].Instance: true}
		if len(named) != len(all) {
			t.Errorf("%d of %d instances are explained", len(named), len(all))
		}
		picked.WriteString(letter(i))
		call.First(asked.Now)
		call.End(fleet.Answer{PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}, asked.Now)
	}
	for _, i := range all {
		if strings.Count(picked.String(), letter(i)) < 2 {
			t.Errorf("%s has less than 2 of 12 requests: %s", letter(i), picked.String())
		}
	}
}

// An instance that is hardly wanted under one name of its model has all of its weight under
// another one, although both names have one place in the fleet.
func TestWeightsAreThoseOfThePool(t *testing.T) {
	pool, alias := team(t, 1, 1), team(t, 0, 1)
	f := fleet.New(fleet.Options{}, time.Now())
	for _, i := range append(pool, alias...) {
		i.Join(f)
	}
	b := balance.New(balance.LeastTime, len(pool)).(*balance.Soonest)
	picked := map[string]int{}
	for range 20 { // none is answered
		i, _ := b.Begin(pool, asking())
		picked[letter(i)]++
	}
	if picked["a"] != 10 || picked["b"] != 10 {
		t.Errorf("of 20 requests with equal weights: %v", picked)
	}
}
