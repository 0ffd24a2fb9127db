package fleet_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// at returns a time so many seconds after the start.
func at(seconds float64) time.Time {
	return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// small is a request that shares nothing.
func small() *fleet.Ask { return &fleet.Ask{Prompt: read(), Tokens: 1000} }

// answer ends a call as a stream does: its first token comes, and then the rest.
func answer(call *fleet.Call, first, end float64) {
	call.First(at(first))
	call.End(fleet.Answer{PromptTokens: -1, CachedTokens: -1, OutputTokens: 10}, at(end))
}

// shares counts how often each instance is chosen of so many times, when every call is
// answered before the next one comes.
func shares(f *fleet.Fleet, all []*fleet.Instance, times int, weights ...float64) map[*fleet.Instance]int {
	count := map[*fleet.Instance]int{}
	for n := range times {
		ask := small()
		ask.Weights = weights
		call := f.Choose(all, ask, at(float64(n)))
		count[call.Instance]++
		answer(call, float64(n)+0.1, float64(n)+0.2)
	}
	return count
}

func TestEqualInstancesHaveTheirTurns(t *testing.T) {
	f, all := team(4)
	for i, n := range shares(f, all, 400) {
		if n != 100 {
			t.Errorf("%s had %d of 400 turns", i.Host().Name(), n)
		}
	}
}

// TestWeightsDivideTurnsAndQueues gives weights to instances that are equal otherwise.
func TestWeightsDivideTurnsAndQueues(t *testing.T) {
	for _, scale := range []float64{0.01, 1, 100} {
		f, all := team(3)
		weights := []float64{5 * scale, 2 * scale, scale}
		turns := shares(f, all, 800, weights...)
		for n, want := range []int{500, 200, 100} {
			if got := turns[all[n]]; math.Abs(float64(got-want)) > 1 {
				t.Errorf("scale %g: instance %d has %d turns of 800 without load, want %d", scale, n, got, want)
			}
		}
		queues := map[*fleet.Instance]int{}
		for range 800 { // none is answered
			ask := small()
			ask.Weights = weights
			queues[f.Choose(all, ask, at(1000)).Instance]++
		}
		for n, want := range []int{500, 200, 100} {
			if got := queues[all[n]]; math.Abs(float64(got-want)) > 8 {
				t.Errorf("scale %g: instance %d has %d of 800 waiting calls, want %d", scale, n, got, want)
			}
		}
	}
}

// TestEqualWeightsChangeNothing chooses with weights of 1 and with others that are equal.
func TestEqualWeightsChangeNothing(t *testing.T) {
	choices := func(weight float64) (chosen []string) {
		f, all := team(5)
		weights := slices.Repeat([]float64{weight}, len(all))
		rng := rand.New(rand.NewPCG(1, 1))
		var texts [][]byte
		for range 10 {
			texts = append(texts, randomText(rng, 20_000))
		}
		var open []*fleet.Call
		for n := range 500 {
			now := float64(n) / 20
			call := f.Choose(all, &fleet.Ask{Prompt: read(texts[rng.IntN(10)]), Tokens: 5000, Weights: weights}, at(now))
			chosen = append(chosen, call.Instance.Host().Name())
			if open = append(open, call); len(open) > 6 {
				answer(open[0], now, now)
				open = open[1:]
			}
		}
		return chosen
	}
	one := choices(1)
	for n, chosen := range choices(0.1) {
		if chosen != one[n] {
			t.Fatalf("choice %d is %s with weights of 0.1 and %s with weights of 1", n, chosen, one[n])
		}
	}
}

// TestCachedPrefixIsWorthAWait chooses where a prompt is known until the queue there costs
// more than its work elsewhere.
func TestCachedPrefixIsWorthAWait(t *testing.T) {
	f, all := team(4)
	text := randomText(rand.New(rand.NewPCG(1, 1)), 40_000)
	ask := &fleet.Ask{Prompt: read(text), Tokens: 10_000}
	home := f.Choose(all, ask, at(0))
	answer(home, 3, 4)
	stayed := 0
	for range 200 {
		call := f.Choose(all, ask, at(10))
		if call.Instance != home.Instance {
			if call.Estimate.Matched > 0 {
				t.Errorf("%.2f of the prompt is believed to be cached where it never was", call.Estimate.Matched)
			}
			break
		}
		if stayed++; call.Estimate.Matched < 0.9 {
			t.Fatalf("%.2f of the prompt is believed to be cached where it was sent before", call.Estimate.Matched)
		}
	}
	// 10,256 tokens elsewhere count three times, 456 here once and in every call before.
	if stayed < 50 || stayed > 80 {
		t.Errorf("%d calls in a row went where the prompt is cached", stayed)
	}
}

// TestHintCountsWhereNothingIsKnown keeps conversations together whose text says nothing.
func TestHintCountsWhereNothingIsKnown(t *testing.T) {
	f, all := team(8)
	rng := rand.New(rand.NewPCG(1, 1))
	ask := func(key string, text []byte) *fleet.Ask {
		p := read(text)
		p.Hint(key)
		return &fleet.Ask{Prompt: p, Tokens: 2000}
	}
	homes := map[string]*fleet.Instance{}
	for n := range 8 {
		key := "conversation " + strconv.Itoa(n)
		call := f.Choose(all, ask(key, randomText(rng, 8000)), at(float64(n)))
		homes[key] = call.Instance
		answer(call, float64(n)+0.1, float64(n)+0.2)
	}
	for key, home := range homes {
		call := f.Choose(all, ask(key, randomText(rng, 8000)), at(100))
		if call.Instance != home {
			t.Errorf("%s went to %s, and was at %s before", key, call.Instance.Host().Name(), home.Host().Name())
		}
		answer(call, 100.1, 100.2)
	}
	text := randomText(rng, 8000)
	known := f.Choose(all, ask("elsewhere", text), at(200))
	answer(known, 200.1, 200.2)
	for key, home := range homes {
		if home == known.Instance {
			continue
		}
		if call := f.Choose(all, ask(key, text), at(300)); call.Instance != known.Instance {
			t.Errorf("the hint counted for more than the text")
		} else {
			answer(call, 300.1, 300.2)
		}
		break
	}
}

// TestExplainTellsWhatWouldBeChosen asks before every choice.
func TestExplainTellsWhatWouldBeChosen(t *testing.T) {
	f, all := team(6)
	rng := rand.New(rand.NewPCG(1, 1))
	var texts [][]byte
	for range 5 {
		texts = append(texts, randomText(rng, 30_000))
	}
	for n := range 300 {
		now := at(float64(n) / 10)
		ask := &fleet.Ask{Prompt: read(texts[rng.IntN(5)]), Tokens: 7500, Weights: []float64{1, 1, 3, 1, 1, 1}}
		f.Explain(all, ask, now)
		told := f.Explain(all, ask, now)
		call := f.Choose(all, ask, now)
		if len(told) != len(all) || told[0].Instance != call.Instance || told[0] != call.Estimate {
			t.Fatalf("choice %d: %+v was chosen, %+v was told", n, call.Estimate, told)
		}
		for k, e := range told {
			if sum := e.Queue + e.Prefill + e.Load; sum != e.Expected || e.Avoidable < 0 || k > 0 && e.Cost < told[0].Cost-1e-6 {
				t.Fatalf("choice %d: %+v is not what it should be", n, e)
			}
		}
		if n%3 == 0 {
			answer(call, float64(n)/10+0.5, float64(n)/10+1)
		}
	}
	if f.Explain(nil, small(), at(0)) != nil || f.Choose(nil, small(), at(0)) != nil {
		t.Error("something was chosen out of nothing")
	}
}

// TestGatewaysBeginDifferently makes the first choices of gateways that know nothing.
func TestGatewaysBeginDifferently(t *testing.T) {
	firsts := map[string]bool{}
	for n := range 16 {
		f := fleet.New(fleet.Options{Gateway: "gateway-" + strconv.Itoa(n)}, at(0))
		var all []*fleet.Instance
		for k := range 8 {
			all = append(all, f.Instance(strconv.Itoa(k), "m"))
		}
		firsts[f.Choose(all, small(), at(0)).Instance.Host().Name()] = true
	}
	if len(firsts) < 4 {
		t.Errorf("16 gateways began with %d of 8 instances", len(firsts))
	}
}

// TestManyChooseAtOnce is of use with the race detector.
func TestManyChooseAtOnce(t *testing.T) {
	f, all := team(8)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 0))
			p := fleet.NewPrompt(&fleet.Secret{1})
			for n := range 200 {
				p.Reset("")
				p.Text(randomText(rng, 1000))
				call := f.Choose(all, &fleet.Ask{Prompt: p, Tokens: 300, Whole: n%3 == 0}, at(float64(n)))
				switch n % 5 {
				case 0:
					call.Abort(at(float64(n)))
				case 1:
					f.Pictures(at(float64(n)))
					fallthrough
				default:
					answer(call, float64(n)+0.1, float64(n)+0.3)
				}
				if n%50 == g {
					all[g].Host().Lost()
					_ = f.Import(strconv.Itoa(g), f.Export(at(float64(n))), at(float64(n)))
				}
			}
		})
	}
	group.Wait()
	for _, p := range f.Pictures(at(1e6)) {
		if p.Waiting != 0 || p.Decoding < 0 || p.Queue != 0 {
			t.Errorf("%+v after all calls have ended", p)
		}
	}
}
