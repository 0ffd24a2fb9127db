package balance_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/balance"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

func pool(t *testing.T, weights ...float64) []*backend.Instance {
	t.Helper()
	all := make([]*backend.Instance, len(weights))
	for n, weight := range weights {
		s := backend.DefaultSettings()
		s.Name, s.BaseURL, s.Weight = "m", "http://127.0.0.1:"+string(rune('1'+n)), weight
		i, err := backend.New(s, schema.Chat, backend.Policy{Adapter: "openai", Breaker: breaker.DefaultSettings(), Limit: ratelimit.DefaultSettings()}, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		i.Position = n
		all[n] = i
	}
	return all
}

// What Peek says is what Pick does next, and asking changes nothing.
func TestPeekTellsThePickAndChangesNothing(t *testing.T) {
	all := pool(t, 5, 1, 3, 0.5)
	for _, strategy := range []balance.Strategy{balance.RoundRobin, balance.LeastConnections, balance.IPHash} {
		b := balance.New(strategy, len(all))
		for n := range 500 {
			from := all[:1+n%len(all)]
			client := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
			first, second := b.Peek(from, client), b.Peek(from, client)
			if picked := b.Pick(from, client); first != picked || second != picked {
				t.Fatalf("%s, pick %d: %s and %s were foretold, %s came", strategy, n, first.ID, second.ID, picked.ID)
			}
		}
	}
	if random := balance.New(balance.Random, len(all)); random.Peek(all, netip.Addr{}) != nil || random.Peek(all[:1], netip.Addr{}) != all[0] {
		t.Error("chance is foretold")
	}
}
