package balance_test

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

// fataler is what tests and property tests have in common.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// member makes an instance that is called by one letter.
func member(t fataler, letter byte, weight float64) *backend.Instance {
	t.Helper()
	settings := backend.DefaultSettings()
	settings.Name, settings.BaseURL, settings.Weight = "m", fmt.Sprintf("http://%c.test", letter), weight
	policy := backend.Policy{Adapter: "openai", Breaker: breaker.DefaultSettings(), Limit: ratelimit.DefaultSettings()}
	i, err := backend.New(settings, schema.Chat, policy, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// team makes instances a, b, c, ... with these weights.
func team(t fataler, weights ...float64) []*backend.Instance {
	t.Helper()
	var all []*backend.Instance
	for n, weight := range weights {
		i := member(t, 'a'+byte(n), weight)
		i.Position = n
		all = append(all, i)
	}
	return all
}

// letter is how an instance is called here.
func letter(i *backend.Instance) string { return i.ID[len("m@http://"):][:1] }

// order returns the letters of so many picks in a row.
func order(b balance.Balancer, from []*backend.Instance, picks int) string {
	var letters strings.Builder
	for range picks {
		letters.WriteString(letter(b.Pick(from, balance.Asked{})))
	}
	return letters.String()
}

// client returns one of many addresses.
func client(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

func TestRoundRobinIsSmooth(t *testing.T) {
	for _, row := range []struct {
		weights []float64
		want    string
	}{
		{[]float64{1, 1, 1}, "abcabcabc"},
		{[]float64{5, 1, 1}, "aabacaaaabacaa"},
		{[]float64{2, 1}, "abaabaaba"},
		{[]float64{0.5, 0.25}, "abaabaaba"},
		{[]float64{1}, "aaaa"},
	} {
		all := team(t, row.weights...)
		b := balance.New(balance.RoundRobin, len(all))
		if got := order(b, all, len(row.want)); got != row.want {
			t.Errorf("weights %v give %s, want %s", row.weights, got, row.want)
		}
	}
}

func TestRoundRobinTwoToOneOverThreeHundred(t *testing.T) {
	all := team(t, 2, 1)
	got := order(balance.New(balance.RoundRobin, 2), all, 300)
	if a, b := strings.Count(got, "a"), strings.Count(got, "b"); a != 200 || b != 100 {
		t.Errorf("%d and %d, want 200 and 100", a, b)
	}
}

// Wherever one looks, as many picks as the weights add up to hold each instance
// exactly as often as its weight says.
func TestRoundRobinIsExactInEveryRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 6).Draw(t, "weights")
		round := 0
		var shares []float64
		for _, w := range weights {
			round += w
			shares = append(shares, float64(w))
		}
		all := team(t, shares...)
		picks := order(balance.New(balance.RoundRobin, len(all)), all, 3*round)
		for at := range 2 * round {
			window := picks[at : at+round]
			for n, want := range weights {
				if got := strings.Count(window, string(rune('a'+n))); got != want {
					t.Fatalf("weights %v: %d times %c in %s at %d", weights, got, 'a'+n, window, at)
				}
			}
		}
	})
}

func TestRoundRobinIsExactForManyCallersAtOnce(t *testing.T) {
	all := team(t, 3, 2, 1)
	b := balance.New(balance.RoundRobin, len(all))
	var mu sync.Mutex
	counts := map[string]int{}
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			mine := order(b, all, 60)
			mu.Lock()
			defer mu.Unlock()
			for _, i := range all {
				counts[letter(i)] += strings.Count(mine, letter(i))
			}
		})
	}
	callers.Wait()
	if counts["a"] != 1920 || counts["b"] != 1280 || counts["c"] != 640 {
		t.Errorf("counts %v, want 1920, 1280, 640", counts)
	}
}

// An instance that was away neither catches up in one go nor starves when it
// comes back.
func TestRoundRobinContinuesAfterAnInstanceWasAbsent(t *testing.T) {
	all := team(t, 1, 1, 1)
	b := balance.New(balance.RoundRobin, len(all))
	order(b, all, 2)
	if got := order(b, all[:2], 100); strings.Count(got, "a") != 50 {
		t.Errorf("without c: %s", got)
	}
	if got := order(b, all, 30); strings.Count(got, "c") < 10 || strings.Count(got, "c") > 11 || strings.Contains(got, "cc") {
		t.Errorf("c is back: %s", got)
	}
}

// follow returns the balancer of a new pool after an edit of an old one.
func follow(before balance.Balancer, old, edited []*backend.Instance) balance.Balancer {
	slots := make([]int, len(edited))
	var was, is float64
	for _, i := range old {
		was += float64(i.Share)
	}
	for n, i := range edited {
		i.Position = n
		is += float64(i.Share)
		slots[n] = slices.IndexFunc(old, func(o *backend.Instance) bool { return o.ID == i.ID })
	}
	after := balance.New(balance.RoundRobin, len(edited))
	balance.Carry(after, before, slots, is/was)
	return after
}

// An edit between any two requests does not start the round anew: with one
// before each request the first instance would get everything.
func TestEditsDoNotStartTheRoundAnew(t *testing.T) {
	all := team(t, 5, 1, 1)
	b := balance.New(balance.RoundRobin, len(all))
	var got strings.Builder
	for range 14 {
		got.WriteString(order(b, all, 1))
		edited := team(t, 5, 1, 1)
		b = follow(b, all, edited)
		all = edited
	}
	if got.String() != "aabacaaaabacaa" {
		t.Errorf("with an edit after each request: %s", got.String())
	}
}

// Nor does it give the first of several idle instances every request.
func TestEditsDoNotStartTheTurnsOfTheIdleAnew(t *testing.T) {
	all := team(t, 1, 1, 1)
	b := balance.New(balance.LeastConnections, len(all))
	want := order(balance.New(balance.LeastConnections, len(all)), all, 9)
	var got strings.Builder
	for range 9 {
		got.WriteString(order(b, all, 1))
		after := balance.New(balance.LeastConnections, len(all))
		balance.Carry(after, b, []int{0, 1, 2}, 1)
		b = after
	}
	if got.String() != want {
		t.Errorf("with an edit after each request: %s, without: %s", got.String(), want)
	}
	// Another strategy starts from its own beginning.
	balance.Carry(b, balance.New(balance.RoundRobin, 3), []int{0, 1, 2}, 1)
	balance.Carry(balance.New(balance.RoundRobin, 3), b, []int{0, 1, 2}, 1)
}

func TestEditsKeepTheRoundOfTheInstancesThatStay(t *testing.T) {
	old := team(t, 1, 1, 1)
	b := balance.New(balance.RoundRobin, 3)
	order(b, old, 1) // a had its turn
	// a is gone and d is new; the turn is b's, then c's, then d's.
	edited := []*backend.Instance{member(t, 'd', 1), member(t, 'c', 1), member(t, 'b', 1)}
	if got := order(follow(b, old, edited), edited, 9); strings.Count(got, "b") != 3 || strings.Count(got, "c") != 3 || strings.Count(got, "d") != 3 {
		t.Errorf("after the edit %s", got)
	}
}

// What was earned under great weights is not a debt that small weights pay off
// for ever.
func TestWeightEditStarvesNoInstance(t *testing.T) {
	check := func(t fataler, a, b float64, picks int) {
		t.Helper()
		old := team(t, a, b)
		before := balance.New(balance.RoundRobin, 2)
		for range picks {
			before.Pick(old, balance.Asked{})
		}
		edited := team(t, 1, 1)
		got := order(follow(before, old, edited), edited, 20)
		if n := strings.Count(got, "a"); n < 8 || n > 12 {
			t.Fatalf("from %v:%v to equal weights after %d picks: %s", a, b, picks, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.SampledFrom([]float64{0.001, 1, 7, 100, 1e6})
		check(t, weight.Draw(t, "a"), weight.Draw(t, "b"), rapid.IntRange(0, 200).Draw(t, "picks"))
	})
	check(t, 1e6, 1, 500_001) // just after the turn of the small one, its debt is greatest
}

// within tells whether a count is within six standard deviations of what a
// probability promises: a sound balancer fails once in 500 million times.
func within(count, of int, probability float64) bool {
	expected := float64(of) * probability
	return math.Abs(float64(count)-expected) <= 6*math.Sqrt(expected*(1-probability))
}

func TestRandomFollowsTheWeights(t *testing.T) {
	const picks = 60_000
	all := team(t, 1, 2, 7)
	b := balance.New(balance.Random, len(all))
	got := order(b, all, picks)
	for n, probability := range []float64{0.1, 0.2, 0.7} {
		if count := strings.Count(got, string(rune('a'+n))); !within(count, picks, probability) {
			t.Errorf("%c was picked %d times of %d, want about %.0f", 'a'+n, count, picks, picks*probability)
		}
	}
	// It has no memory: after a the others come as often as ever.
	after, followed := 0, 0
	for n := range picks - 1 {
		if got[n] == 'a' {
			after++
			if got[n+1] == 'a' {
				followed++
			}
		}
	}
	if !within(followed, after, 0.1) {
		t.Errorf("a follows a %d times of %d, want about a tenth", followed, after)
	}
}

// Also where every unit of a share counts.
func TestRandomFollowsTheLeastWeights(t *testing.T) {
	const picks = 10_000
	all := team(t, 0.001, 0.001, 0.001)
	got := order(balance.New(balance.Random, len(all)), all, picks)
	for _, i := range all {
		if count := strings.Count(got, letter(i)); !within(count, picks, 1.0/3) {
			t.Errorf("%s was picked %d times of %d, want about a third", letter(i), count, picks)
		}
	}
}

// acquire takes an instance for a call that has not ended.
func acquire(t fataler, i *backend.Instance) backend.Permit {
	t.Helper()
	permit, ok := i.Acquire(time.Now())
	if !ok {
		t.Fatalf("%s cannot be acquired", i.ID)
	}
	return permit
}

func TestLeastConnectionsFillsInProportionToTheWeights(t *testing.T) {
	all := team(t, 2, 1)
	b := balance.New(balance.LeastConnections, len(all))
	for range 300 {
		acquire(t, b.Pick(all, balance.Asked{}))
	}
	if all[0].InFlight() != 200 || all[1].InFlight() != 100 {
		t.Errorf("%d and %d in flight, want 200 and 100", all[0].InFlight(), all[1].InFlight())
	}
}

func TestLeastConnectionsRotatesTies(t *testing.T) {
	all := team(t, 1, 1, 1, 1)
	b := balance.New(balance.LeastConnections, len(all))
	if got := order(b, all, 8); got != "bcdabcda" {
		t.Errorf("equals take turns as %s", got)
	}
	// Whose turn it is and who is busy leaves it to the next one that is not.
	acquire(t, all[2])
	if got := order(b, all, 8); got != "bddabdda" {
		t.Errorf("with c busy, the others take turns as %s", got)
	}
}

// Whatever comes and goes, the pick is one with the least in flight for its
// weight, and at the end nothing is in flight.
func TestLeastConnectionsPicksTheLeastBusy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.SampledFrom([]float64{0.5, 1, 2, 3}), 1, 5).Draw(t, "weights")
		all := team(t, weights...)
		b := balance.New(balance.LeastConnections, len(all))
		type call struct {
			to     *backend.Instance
			permit backend.Permit
		}
		var running []call
		end := func(n int) {
			running[n].to.Release(running[n].permit, breaker.Success, time.Now())
			running = slices.Delete(running, n, n+1)
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if len(running) > 0 && rapid.Bool().Draw(t, "end") {
				end(rapid.IntRange(0, len(running)-1).Draw(t, "which"))
				continue
			}
			peeked := b.Peek(all, balance.Asked{})
			picked := b.Pick(all, balance.Asked{})
			if peeked != picked {
				t.Fatalf("%s was foretold and %s picked", letter(peeked), letter(picked))
			}
			for _, other := range all {
				if float64(other.InFlight())/other.Settings.Weight < float64(picked.InFlight())/picked.Settings.Weight {
					t.Fatalf("%s was picked with %d in flight, %s has %d", letter(picked), picked.InFlight(), letter(other), other.InFlight())
				}
			}
			running = append(running, call{picked, acquire(t, picked)})
		}
		for len(running) > 0 {
			end(0)
		}
		for _, i := range all {
			if i.InFlight() != 0 || i.Ended(breaker.Success) == 0 && i.Ended(breaker.Failure) != 0 {
				t.Fatalf("%s has %d in flight at the end", letter(i), i.InFlight())
			}
		}
	})
}

const clients = 20_000

// homes returns where each client goes.
func homes(from []*backend.Instance) map[int]string {
	b := balance.New(balance.IPHash, len(from))
	to := make(map[int]string, clients)
	for n := range clients {
		to[n] = letter(b.Pick(from, balance.Asked{Client: client(n)}))
	}
	return to
}

func countOf(to map[int]string, letter string) (count int) {
	for _, l := range to {
		if l == letter {
			count++
		}
	}
	return count
}

func TestIPHashIsStableAndHonoursWeights(t *testing.T) {
	all := team(t, 1, 2, 7)
	first := homes(all)
	// Neither another balancer nor another order of the list moves a client.
	slices.Reverse(all)
	for n, to := range homes(all) {
		if first[n] != to {
			t.Fatalf("client %d went to %s and then to %s", n, first[n], to)
		}
	}
	for n, probability := range []float64{0.1, 0.2, 0.7} {
		name := string(rune('a' + n))
		if count := countOf(first, name); !within(count, clients, probability) {
			t.Errorf("%s has %d clients of %d, want about %.0f", name, count, clients, clients*probability)
		}
	}
}

func TestIPHashMovesOnlyClientsOfChangedInstances(t *testing.T) {
	all := team(t, 1, 1, 1, 1)
	before := homes(all)
	t.Run("an instance goes", func(t *testing.T) {
		moved := 0
		for n, to := range homes(all[:3]) {
			if to != before[n] {
				moved++
				if before[n] != "d" {
					t.Fatalf("client %d left %s, which is still there", n, before[n])
				}
			}
		}
		if moved != countOf(before, "d") {
			t.Errorf("%d moved, %d had to", moved, countOf(before, "d"))
		}
		for _, name := range []string{"a", "b", "c"} { // the others share what d had
			if count := countOf(homes(all[:3]), name); !within(count, clients, 1.0/3) {
				t.Errorf("%s has %d clients", name, count)
			}
		}
	})
	t.Run("an instance comes", func(t *testing.T) {
		moved := 0
		for n, to := range homes(append(slices.Clone(all), member(t, 'e', 1))) {
			if to != before[n] {
				moved++
				if to != "e" {
					t.Fatalf("client %d went from %s to %s, which is not new", n, before[n], to)
				}
			}
		}
		if !within(moved, clients, 0.2) {
			t.Errorf("%d of %d moved, want about a fifth", moved, clients)
		}
	})
	t.Run("a weight grows", func(t *testing.T) {
		for n, to := range homes(append(slices.Clone(all[:3]), member(t, 'd', 3))) {
			if to != before[n] && to != "d" {
				t.Fatalf("client %d went from %s to %s", n, before[n], to)
			}
		}
	})
}

// The lowest score of all, of which there is no logarithm, counts like any other.
func TestIPHashLowestDrawLoses(t *testing.T) {
	all := team(t, 7, 1)
	client := netip.IPv6Unspecified() // its seed is 0
	all[0].Hash = 0
	b := balance.New(balance.IPHash, len(all))
	if got := letter(b.Pick(all, balance.Asked{Client: client})); got != "b" {
		t.Errorf("the lowest score won: %s", got)
	}
	slices.Reverse(all)
	if got := letter(b.Pick(all, balance.Asked{Client: client})); got != "b" {
		t.Errorf("the lowest score won in second place: %s", got)
	}
}

// Equal bids go to the one that stands first, whatever the weights.
func TestIPHashEqualBidsGoToTheFirst(t *testing.T) {
	for _, weights := range [][]float64{{1, 1}, {1, 7}, {7, 1}} {
		all := team(t, weights...)
		all[0].Hash, all[1].Hash = 0, 0
		b := balance.New(balance.IPHash, len(all))
		if got := letter(b.Pick(all, balance.Asked{Client: netip.IPv6Unspecified()})); got != "a" { // its seed is 0, and so is every score
			t.Errorf("weights %v: %s was picked", weights, got)
		}
	}
}

func TestIPHashIgnoresTheSpellingOfAnAddress(t *testing.T) {
	all := team(t, 1, 1, 1, 1, 1)
	b := balance.New(balance.IPHash, len(all))
	for n := range 100 {
		mapped := netip.AddrFrom16(client(n).As16())
		if b.Pick(all, balance.Asked{Client: client(n)}) != b.Pick(all, balance.Asked{Client: mapped}) {
			t.Fatalf("%v and %v part", client(n), mapped)
		}
	}
	if b.Pick(all, balance.Asked{}) == nil {
		t.Error("a client without an address gets no instance")
	}
}

// Every strategy picks from what it is offered and nothing else, and foretells
// what it will pick, or says that it cannot.
func TestEveryStrategyPicksFromTheOffer(t *testing.T) {
	for n := range balance.RoundRobin.Names() {
		strategy := balance.Strategy(n)
		t.Run(strategy.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				all := team(t, rapid.SliceOfN(rapid.Float64Range(0.001, 1000), 1, 8).Draw(t, "weights")...)
				b := balance.New(strategy, len(all))
				for range rapid.IntRange(1, 30).Draw(t, "picks") {
					var offer []*backend.Instance
					for _, i := range all {
						if rapid.Bool().Draw(t, "ready") {
							offer = append(offer, i)
						}
					}
					if len(offer) == 0 {
						continue
					}
					from := client(rapid.IntRange(0, 99).Draw(t, "client"))
					foretold := b.Peek(offer, balance.Asked{Client: from})
					picked := b.Pick(offer, balance.Asked{Client: from})
					if !slices.Contains(offer, picked) {
						t.Fatalf("picked %v of %d", picked, len(offer))
					}
					if foretold != nil && foretold != picked {
						t.Fatalf("foretold %s, picked %s", letter(foretold), letter(picked))
					}
				}
			})
		})
	}
}
