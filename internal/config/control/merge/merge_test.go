package merge

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

// services are those of a configuration.
type services = map[schema.ServiceType]config.Service

// withChat returns services whose chat has instances by name and key, as in
// "a=1 b", and was edited.
func withChat(instances string, edits ...func(*config.Service)) services {
	all := config.Default().Services
	chat := all[schema.Chat]
	for _, text := range strings.Fields(instances) {
		name, key, _ := strings.Cut(text, "=")
		s := backend.DefaultSettings()
		s.Name, s.BaseURL, s.APIKey = name, "http://127.0.0.1:1", backend.Literal(key)
		chat.Instances = append(chat.Instances, s)
	}
	for _, edit := range edits {
		edit(&chat)
	}
	all[schema.Chat] = chat
	return all
}

func without(all services, serviceType schema.ServiceType) services {
	delete(all, serviceType)
	return all
}

func TestMergeAppliesEditsOfTheFile(t *testing.T) {
	strategy := func(to balance.Strategy) func(*config.Service) {
		return func(s *config.Service) { s.LoadBalancer = to }
	}
	capacity := func(n int) func(*config.Service) { return func(s *config.Service) { s.RateLimit.Capacity = n } }
	refill := func(n int) func(*config.Service) { return func(s *config.Service) { s.RateLimit.RefillRate = n } }
	weight := func(n float64) func(*config.Service) { return func(s *config.Service) { s.Instances[0].Weight = n } }
	header := func(name, value string) func(*config.Service) {
		return func(s *config.Service) {
			if s.Instances[0].Headers == nil {
				s.Instances[0].Headers = map[string]backend.Secret{}
			}
			s.Instances[0].Headers[name] = backend.Literal(value)
		}
	}
	for name, test := range map[string]struct{ before, after, inForce, want services }{
		"a setting of the policy": {
			withChat("a"), withChat("a", strategy(balance.Random)), withChat("a x y"), withChat("a x y", strategy(balance.Random)),
		},
		"different settings of one group": {
			withChat(""), withChat("", capacity(7)), withChat("", refill(3)), withChat("", capacity(7), refill(3)),
		},
		"the same setting: the file wins": {
			withChat("a", capacity(1)), withChat("a", capacity(2)), withChat("a", capacity(3)), withChat("a", capacity(2)),
		},
		"a setting that only the API changed": {
			withChat("a", capacity(1)), withChat("a b", capacity(1)), withChat("a", capacity(3)), withChat("a b", capacity(3)),
		},
		"an instance is added":                {withChat("a c"), withChat("a b c"), withChat("a c x"), withChat("a b c x")},
		"an instance is removed":              {withChat("a b"), withChat("b"), withChat("a b x"), withChat("b x")},
		"one that the API changed is removed": {withChat("a b"), withChat("b"), withChat("a=changed b"), withChat("b")},
		"one that the API removed stays so":   {withChat("a b"), withChat("a b c"), withChat("b"), withChat("b c")},
		"one that the API removed is changed": {withChat("a b"), withChat("a=new b"), withChat("b"), withChat("a=new b")},
		"both sides add the same one":         {withChat(""), withChat("a=file"), withChat("a=api"), withChat("a=file")},
		"both sides change one instance": {
			withChat("a=1"), withChat("a=2"), withChat("a=1", weight(5)), withChat("a=2", weight(5)),
		},
		"the file changes the order": {withChat("a b"), withChat("b a"), withChat("a x b"), withChat("b a x")},
		"the API changed the order":  {withChat("a b"), withChat("a b c"), withChat("b a"), withChat("b c a")},
		"headers of both sides": {
			withChat("a", header("X-A", "1")), withChat("a", header("X-A", "2")), withChat("a", header("X-A", "1"), header("X-B", "3")),
			withChat("a", header("X-A", "2"), header("X-B", "3")),
		},
		"a header in another spelling": {
			withChat("a"), withChat("a", header("x-a", "file")), withChat("a", header("X-A", "api")), withChat("a", header("x-a", "file")),
		},
		"a header is removed": {
			withChat("a", header("X-A", "1"), header("X-C", "1")), withChat("a", header("X-C", "1")), withChat("a", header("X-A", "2"), header("X-C", "1")),
			withChat("a", header("X-C", "1")),
		},
		"a type that the API removed stays so": {
			withChat("a"), withChat("a b"), without(withChat("a"), schema.TTS), without(withChat("a b"), schema.TTS),
		},
		"a type that the API removed is changed": {
			withChat("a"), withChat("a b"), without(withChat("a"), schema.Chat), withChat("a b"),
		},
	} {
		got := Services(test.before, test.after, test.inForce)
		if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// drawServices makes services with some instances and settings of their own.
func drawServices(t *rapid.T, name string) services {
	all := config.Default().Services
	for _, serviceType := range []schema.ServiceType{schema.Chat, schema.TTS} {
		service := all[serviceType]
		service.LoadBalancer = rapid.SampledFrom([]balance.Strategy{balance.Random, balance.RoundRobin}).Draw(t, name+" strategy")
		service.RateLimit.Capacity = rapid.IntRange(1, 3).Draw(t, name+" capacity")
		service.HealthCheck.Enabled = rapid.Bool().Draw(t, name+" checks")
		for _, n := range rapid.Permutation([]string{"a", "b", "c", "d"}).Draw(t, name+" order")[:rapid.IntRange(0, 4).Draw(t, name+" instances")] {
			service.Instances = append(service.Instances, drawInstance(t, n))
		}
		all[serviceType] = service
	}
	return all
}

func drawInstance(t *rapid.T, name string) backend.Settings {
	s := backend.DefaultSettings()
	s.Name, s.BaseURL = name, "http://127.0.0.1:1"
	s.Weight = float64(rapid.IntRange(1, 2).Draw(t, "weight"))
	s.APIKey = rapid.SampledFrom([]backend.Secret{{}, backend.Literal("${K}"), backend.Reference("${K}")}).Draw(t, "key")
	if rapid.Bool().Draw(t, "headers") {
		s.Headers = map[string]backend.Secret{"X-A": backend.Literal(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "header"))}
	}
	return s
}

func TestPropertyAnEditOfAnUntouchedBaseGivesTheFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawServices(t, "before"), drawServices(t, "after")
		if diff := cmp.Diff(after, Services(before, after, before), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestPropertyAFileThatDidNotChangeChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file, inForce := drawServices(t, "file"), drawServices(t, "in force")
		if diff := cmp.Diff(inForce, Services(file, file, inForce), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// What the API added and the file never named survives any edit of the file, and
// whatever the file changed is as the file says.
func TestPropertyAdditionsOfTheAPISurviveEditsOfTheFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawServices(t, "before"), drawServices(t, "after")
		inForce := make(services)
		for serviceType, service := range drawServices(t, "in force") {
			for _, name := range []string{"x", "y", "z"}[:rapid.IntRange(0, 3).Draw(t, "own")] {
				at := rapid.IntRange(0, len(service.Instances)).Draw(t, "place")
				service.Instances = slices.Insert(service.Instances, at, drawInstance(t, name))
			}
			inForce[serviceType] = service
		}
		merged := Services(before, after, inForce)
		for serviceType, service := range inForce {
			isOwn := func(s backend.Settings) bool { return strings.Contains("xyz", s.Name) }
			own, left := byID(only(service.Instances, isOwn)), byID(only(merged[serviceType].Instances, isOwn))
			if diff := cmp.Diff(own, left, cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
			was, is, got := byID(before[serviceType].Instances), byID(after[serviceType].Instances), byID(merged[serviceType].Instances)
			for id, instance := range is {
				if old, had := was[id]; (!had || old.Weight != instance.Weight) && got[id].Weight != instance.Weight {
					t.Fatalf("%s has the weight %v, not %v", id, got[id].Weight, instance.Weight)
				}
			}
			for id := range was {
				_, stays := is[id]
				if _, there := got[id]; !stays && there {
					t.Fatalf("%s was removed and is there", id)
				}
			}
			if old, file := before[serviceType].RateLimit.Capacity, after[serviceType].RateLimit.Capacity; old != file && merged[serviceType].RateLimit.Capacity != file {
				t.Fatalf("the capacity is %d, not %d", merged[serviceType].RateLimit.Capacity, file)
			}
		}
	})
}

func only(instances []backend.Settings, keep func(backend.Settings) bool) []backend.Settings {
	var kept []backend.Settings
	for _, instance := range instances {
		if keep(instance) {
			kept = append(kept, instance)
		}
	}
	return kept
}
