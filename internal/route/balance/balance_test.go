package balance_test

import (
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/breaker"
)

func pool(t *testing.T, weights ...float64) []*backend.Instance {
	t.Helper()
	all := make([]*backend.Instance, len(weights))
	for n, weight := range weights {
		s := backend.DefaultSettings()
		s.Name, s.BaseURL, s.Weight = "m", "http://127.0.0.1:"+strconv.Itoa(1+n), weight
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
	for n := range balance.RoundRobin.Names() {
		strategy := balance.Strategy(n)
		if strategy == balance.Random {
			continue // it cannot be foretold
		}
		b := balance.New(strategy, len(all))
		for n := range 500 {
			from := all[:1+n%len(all)]
			client := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
			first, second := b.Peek(from, balance.Asked{Client: client}), b.Peek(from, balance.Asked{Client: client})
			if picked := b.Pick(from, balance.Asked{Client: client}); first != picked || second != picked {
				t.Fatalf("%s, pick %d: %s and %s were foretold, %s came", strategy, n, first.ID, second.ID, picked.ID)
			}
		}
	}
	if random := balance.New(balance.Random, len(all)); random.Peek(all, balance.Asked{}) != nil || random.Peek(all[:1], balance.Asked{}) != all[0] {
		t.Error("chance is foretold")
	}
}

// In a large pool an answer is remembered for each client. It is that of the walk, also
// when many clients share a place, and does not hold where an instance is missing.
func TestIPHashRemembersWhatTheWalkFinds(t *testing.T) {
	weights := make([]float64, 30)
	for n := range weights {
		weights[n] = float64(1 + n%3)
	}
	all := pool(t, weights...)
	remembers, walks := balance.New(balance.IPHash, len(all)), balance.New(balance.IPHash, 1)
	for range 2 {
		for n := range 2000 {
			client := netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)})
			got, want := remembers.Pick(all, balance.Asked{Client: client}), walks.Pick(all, balance.Asked{Client: client})
			if got != want {
				t.Fatalf("client %s goes to %s, want %s", client, got.ID, want.ID)
			}
			rest := make([]*backend.Instance, 0, len(all))
			for _, i := range all {
				if i != got {
					rest = append(rest, i)
				}
			}
			if got, want := remembers.Pick(rest, balance.Asked{Client: client}), walks.Pick(rest, balance.Asked{Client: client}); got != want {
				t.Fatalf("client %s without its instance goes to %s, want %s", client, got.ID, want.ID)
			}
		}
	}
}
