package balance_test

import (
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
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

// Peek returns the instance that Pick returns next and changes nothing. A strategy that cannot
// predict its pick returns nil for every pool of several instances.
func TestPeekPredictsThePickAndChangesNothing(t *testing.T) {
	all := pool(t, 5, 1, 3, 0.5)
	for n := range balance.RoundRobin.Names() {
		strategy := balance.Strategy(n)
		b := balance.New(strategy, len(all))
		predicts := b.Peek(all, balance.Asked{}) != nil
		if strategy == balance.Random && predicts {
			t.Errorf("%s: got a prediction, want none", strategy)
		}
		for n := range 500 {
			from := all[:1+n%len(all)]
			asked := balance.Asked{Client: netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})}
			first, second, picked := b.Peek(from, asked), b.Peek(from, asked), b.Pick(from, asked)
			want := picked
			if !predicts && len(from) > 1 {
				want = nil
			}
			if first != want || second != want {
				t.Fatalf("%s, pick %d of %d: got predictions %v and %v, want %v", strategy, n, len(from), first, second, want)
			}
		}
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
