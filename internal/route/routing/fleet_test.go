package routing_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

// An instance has a place in the fleet for as long as its service is balanced by least
// time and its address and model stay the same.
func TestPlacesInTheFleetFollowTheTable(t *testing.T) {
	f := fleet.New(fleet.Options{}, time.Now())
	b := &board{t: t, doc: config.Default()}
	b.Follow(f)
	b.edit(func(s *config.Service) { s.Instances = []backend.Settings{at("a"), at("b")} })
	if b.instance("a").Engine() != nil || len(f.Pictures(time.Now())) != 0 {
		t.Fatal("round robin has places in the fleet")
	}
	b.edit(func(s *config.Service) { s.LoadBalancer = balance.LeastTime })
	first := b.instance("a").Engine()
	if first == nil || first.Host().Name() != "http://a.test" {
		t.Fatalf("least time has %v", first)
	}
	b.edit(func(s *config.Service) { s.Instances[0].Weight = 7; s.Instances = append(s.Instances, at("c")) })
	if b.instance("a").Engine() != first || len(f.Pictures(time.Now())) != 3 {
		t.Error("an edit gave an instance another place")
	}
	b.edit(func(s *config.Service) { s.Instances[0].UpstreamModel = "other" })
	if b.instance("a").Engine() == first {
		t.Error("another model has the old one's place")
	}
	b.edit(func(s *config.Service) { s.Instances = s.Instances[:2] })
	if got := len(f.Pictures(time.Now())); got != 2 {
		t.Errorf("%d places for two instances", got)
	}
	b.edit(func(s *config.Service) { s.LoadBalancer = balance.Random })
	if b.instance("b").Engine() != nil || len(f.Pictures(time.Now())) != 0 {
		t.Error("places are left of a strategy that is not in force")
	}
}

// Two names of one model on one server are one place, which stays while one name does.
func TestNamesOfOneModelShareAPlace(t *testing.T) {
	f := fleet.New(fleet.Options{}, time.Now())
	b := &board{t: t, doc: config.Default()}
	b.Follow(f)
	alias := at("a")
	alias.Name, alias.UpstreamModel = "n", "m"
	b.edit(func(s *config.Service) {
		s.LoadBalancer, s.Instances = balance.LeastTime, []backend.Settings{at("a"), alias}
	})
	place := b.instance("a").Engine()
	if other := b.Load().Service(schema.Chat).Instance("n@http://a.test").Engine(); other != place {
		t.Error("one model has two places on a server")
	}
	b.edit(func(s *config.Service) { s.Instances = s.Instances[1:] })
	if got := f.Pictures(time.Now()); len(got) != 1 || b.Load().Service(schema.Chat).Instance("n@http://a.test").Engine() != place {
		t.Errorf("%d places are left", len(got))
	}
}
