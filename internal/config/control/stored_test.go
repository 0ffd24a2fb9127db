package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/stored"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

func TestPropertyTheFileIsStoredWithoutLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		services := Services(config.Default().Services)
		chat := services[schema.Chat]
		chat.LoadBalancer = rapid.SampledFrom([]balance.Strategy{balance.Random, balance.RoundRobin}).Draw(t, "strategy")
		chat.RateLimit.Capacity = rapid.IntRange(1, 3).Draw(t, "capacity")
		for _, name := range []string{"a", "b", "c"}[:rapid.IntRange(0, 3).Draw(t, "instances")] {
			s := backend.DefaultSettings()
			s.Name, s.BaseURL, s.Weight = name, "http://127.0.0.1:1", float64(rapid.IntRange(1, 2).Draw(t, "weight"))
			s.APIKey = rapid.SampledFrom([]backend.Secret{{}, backend.Literal("${K}"), backend.Reference("${K}")}).Draw(t, "key")
			if rapid.Bool().Draw(t, "headers") {
				s.Headers = map[string]backend.Secret{"X-A": backend.Literal("1")}
			}
			chat.Instances = append(chat.Instances, s)
		}
		services[schema.Chat] = chat
		var read Services
		if err := read.UnmarshalJSON(stored.WithoutDefaults(services)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(services, read); diff != "" {
			t.Fatal(diff)
		}
	})
}
