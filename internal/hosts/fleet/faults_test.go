package fleet_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// TestFloodOfPromptsIsBounded sends more prompts that share nothing than the index can hold.
func TestFloodOfPromptsIsBounded(t *testing.T) {
	if kept := memoryAfter(50_000); kept > 32<<20 {
		t.Errorf("%d MB are kept", kept>>20)
	}
}

// TestHostThatComesBackIsEmpty loses a host with a cached prompt and calls on their way.
func TestHostThatComesBackIsEmpty(t *testing.T) {
	f, all := team(2)
	text := randomText(rand.New(rand.NewPCG(1, 1)), 40_000)
	ask := &fleet.Ask{Prompt: read(text), Tokens: 10_000}
	home := f.Choose(all, ask, at(0))
	answer(home, 1, 2)
	waits, decodes := f.Choose(all, ask, at(3)), f.Choose(all, ask, at(3))
	decodes.First(at(4))
	home.Instance.Host().Lost()
	for _, p := range f.Pictures(at(4)) {
		if p.Waiting+p.Decoding != 0 || p.Queue != 0 || p.Cached != 0 || p.Told != (fleet.Told{Waiting: -1, Running: -1, Used: -1, Capacity: -1}) {
			t.Errorf("%+v after the host was lost", p)
		}
	}
	waits.First(at(5))
	waits.End(fleet.Answer{}, at(6))
	decodes.End(fleet.Answer{}, at(6))
	waits.Abort(at(7))
	if p := f.Pictures(at(7)); p[0].Decoding+p[1].Decoding+p[0].Waiting+p[1].Waiting != 0 {
		t.Errorf("calls of before count: %+v", p)
	}
	for _, e := range f.Explain(all, ask, at(8)) {
		if e.Matched != 0 {
			t.Errorf("%.2f of the prompt is believed to be cached", e.Matched)
		}
	}
}

// TestCacheThatWasEmptiedIsNoticed lets a host lose its cache without anybody saying so:
// only the answers tell that nothing was cached.
func TestCacheThatWasEmptiedIsNoticed(t *testing.T) {
	f, all := team(1)
	rng := rand.New(rand.NewPCG(1, 1))
	var asks []*fleet.Ask
	for range 10 {
		asks = append(asks, &fleet.Ask{Prompt: read(randomText(rng, 40_000)), Tokens: 10_000})
		answer(f.Choose(all, asks[len(asks)-1], at(0)), 1, 2)
	}
	seen := f.Choose(all, asks[9], at(5))
	seen.First(at(6))
	seen.End(fleet.Answer{PromptTokens: 9000, CachedTokens: 8900, OutputTokens: 10}, at(7))
	for n, ask := range asks[:4] {
		call := f.Choose(all, ask, at(10))
		if known := call.Estimate.Matched > 0.5; known != (n < 3) {
			t.Errorf("call %d: %.2f of the prompt is believed to be cached", n, call.Estimate.Matched)
		}
		call.First(at(11))
		call.End(fleet.Answer{PromptTokens: 9000, CachedTokens: 0, OutputTokens: 10}, at(12))
	}
}

// TestRemovedInstanceDisturbsNobody ends calls of an instance whose place another one has.
func TestRemovedInstanceDisturbsNobody(t *testing.T) {
	f, all := team(2)
	all = all[:1]
	rng := rand.New(rand.NewPCG(1, 1))
	var asks []*fleet.Ask
	var calls []*fleet.Call
	for range 4 {
		ask := &fleet.Ask{Prompt: read(randomText(rng, 40_000)), Tokens: 10_000}
		answer(f.Choose(all, ask, at(0)), 1, 2)
		asks, calls = append(asks, ask), append(calls, f.Choose(all, ask, at(3)))
	}
	counts := f.Choose(all, asks[0], at(3))
	counts.First(at(3.5))
	counts.End(fleet.Answer{PromptTokens: 10_000, CachedTokens: 9_900, OutputTokens: 1}, at(3.5))
	all[0].Remove()
	all = []*fleet.Instance{f.Instance("new", "m")}
	for _, ask := range asks {
		answer(f.Choose(all, ask, at(4)), 5, 6)
	}
	for _, call := range calls { // says four times that the cache is empty
		call.First(at(7))
		call.End(fleet.Answer{PromptTokens: 10_000, CachedTokens: 0, OutputTokens: 1}, at(8))
	}
	for n, ask := range asks {
		if matched := f.Explain(all, ask, at(9))[0].Matched; matched < 0.9 {
			t.Errorf("%.2f of prompt %d is believed to be cached", matched, n)
		}
	}
	if p := f.Pictures(at(9)); len(p) != 2 || p[0].Waiting+p[0].Decoding+p[1].Waiting+p[1].Decoding != 0 {
		t.Errorf("%+v", p)
	}
}

// TestSizeOfCacheIsLearned tells in answers how much was cached of prompts that come again,
// by a cache that holds fewer or more of them than is believed at first.
func TestSizeOfCacheIsLearned(t *testing.T) {
	for _, holds := range []int{10, 60} { // of 80 prompts with 40 KB each; a megabyte is believed at first
		f, all := team(1)
		rng := rand.New(rand.NewPCG(1, 1))
		var asks []*fleet.Ask
		for range 80 {
			asks = append(asks, &fleet.Ask{Prompt: read(randomText(rng, 40_000)), Tokens: 10_000})
		}
		var used []int // the prompts in the cache, the newest last
		for n := range 3000 {
			k := rng.IntN(len(asks))
			cached := 0
			for m, other := range used {
				if other == k {
					cached = 9900
					used = append(used[:m], used[m+1:]...)
					break
				}
			}
			if used = append(used, k); len(used) > holds {
				used = used[1:]
			}
			call := f.Choose(all, asks[k], at(float64(n)))
			call.First(at(float64(n) + 0.1))
			call.End(fleet.Answer{PromptTokens: 10_000, CachedTokens: cached, OutputTokens: 1}, at(float64(n)+0.2))
		}
		if got := float64(f.Pictures(at(0))[0].Capacity) / 40_000; got < 0.6*float64(holds) || got > 1.6*float64(holds) {
			t.Errorf("a cache for %d prompts is believed to hold %.0f", holds, got)
		}
	}
}

// TestClocksThatJumpDoLittleHarm lets time go back and far ahead between the events of
// calls.
func TestClocksThatJumpDoLittleHarm(t *testing.T) {
	f, all := team(3)
	for n := range 300 {
		now := float64(n)
		answer(f.Choose(all, small(), at(now)), now+0.3, now+0.5)
	}
	before := f.Pictures(at(300))[0].PerToken
	rng := rand.New(rand.NewPCG(1, 1))
	now := 300.0
	for n := range 300 {
		call := f.Choose(all, small(), at(now))
		if n%10 == 0 {
			now += []float64{-200, 3e7, -3e7, 86_400, -86_400}[rng.IntN(5)]
		}
		answer(call, now+0.3, now+0.5)
		now++
	}
	for _, p := range f.Pictures(at(now)) {
		if ratio := p.PerToken / before; ratio < 0.2 || ratio > 5 {
			t.Errorf("a token is believed to take %.3f times as long after the clock jumped", ratio)
		}
		if p.Queue != 0 || math.IsNaN(p.PerOutput) {
			t.Errorf("%+v after the clock jumped", p)
		}
	}
}

// TestNonsenseOfCallersDoesNoHarm asks with numbers that cannot be true.
func TestNonsenseOfCallersDoesNoHarm(t *testing.T) {
	f, all := team(3)
	for _, weight := range []float64{0, -1, math.NaN()} {
		for _, tokens := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -5, 1e300, 0} {
			call := f.Choose(all, &fleet.Ask{Prompt: read(randomText(rand.New(rand.NewPCG(1, 1)), 1000)), Tokens: tokens, Weights: []float64{weight, 1, 1}}, at(0))
			call.First(at(1))
			call.End(fleet.Answer{PromptTokens: math.MinInt, CachedTokens: math.MaxInt, OutputTokens: math.MaxInt, Prefill: -1}, at(2))
		}
	}
	for _, e := range f.Explain(all, small(), at(3)) {
		if !(e.Cost > 0 && e.Cost < 1000) {
			t.Errorf("%+v", e)
		}
	}
}

// TestHostThatHangsIsLeft lets the first token of one call never come: the host gets nothing
// more, although by the estimate it is done with that call for long.
func TestHostThatHangsIsLeft(t *testing.T) {
	f, all := team(2)
	ask := &fleet.Ask{Prompt: read([]byte("a text")), Tokens: 1_000}
	hung := f.Choose(all, ask, at(0))
	for second := 10; second < 20; second++ {
		call := f.Choose(all, ask, at(float64(second)))
		if call.Instance == hung.Instance {
			t.Fatalf("after %d s the host that hangs gets another call", second)
		}
		call.Abort(at(float64(second)))
	}
}

// TestEngineWithoutACacheIsBelieved lets an engine tell that it keeps no prompts.
func TestEngineWithoutACacheIsBelieved(t *testing.T) {
	f, all := team(1)
	all[0].Host().Tell(fleet.Told{Waiting: -1, Running: -1, Used: -1, Capacity: 0}, at(0))
	ask := &fleet.Ask{Prompt: read(randomText(rand.New(rand.NewPCG(1, 1)), 400_000)), Tokens: 100_000}
	answer(f.Choose(all, ask, at(0)), 1, 2)
	if matched := f.Explain(all, ask, at(3))[0].Matched; matched > 0.1 {
		t.Errorf("%.2f of the prompt is believed to be cached", matched)
	}
}

// TestBackendThatCountsNoCachedTokensKeepsItsPlaceInTheIndex lets every answer say that
// nothing was cached, as servers do that write the number and do not know it.
func TestBackendThatCountsNoCachedTokensKeepsItsPlaceInTheIndex(t *testing.T) {
	f, all := team(1)
	ask := &fleet.Ask{Prompt: read(randomText(rand.New(rand.NewPCG(1, 1)), 40_000)), Tokens: 10_000}
	for n := range 10 {
		call := f.Choose(all, ask, at(float64(n)))
		call.First(at(float64(n) + 0.1))
		call.End(fleet.Answer{PromptTokens: 9000, CachedTokens: 0, OutputTokens: 10}, at(float64(n)+0.2))
	}
	if matched := f.Explain(all, ask, at(20))[0].Matched; matched < 0.9 {
		t.Errorf("%.2f of the prompt is believed to be cached", matched)
	}
}

// TestEngineThatBecomesSlowIsLeftAndTakenBack makes one of three engines ten times slower
// for a while: it gets few calls then, and its share again when it is as fast as before and
// there is enough to do for three.
func TestEngineThatBecomesSlowIsLeftAndTakenBack(t *testing.T) {
	f, all := team(3)
	now := 0.0
	// round sends calls, some at a time, and returns which share of them the first instance
	// got. An engine reads one prompt after the other.
	round := func(calls, atATime int, slowness float64) float64 {
		got := 0
		for range calls / atATime {
			free := map[*fleet.Instance]float64{}
			var sent []*fleet.Call
			for range atATime {
				sent = append(sent, f.Choose(all, small(), at(now)))
			}
			last := now
			for _, call := range sent {
				takes := 0.3
				if call.Instance == all[0] {
					got++
					takes *= slowness
				}
				free[call.Instance] += takes
				first := now + free[call.Instance]
				answer(call, first, first+0.1)
				last = max(last, first)
			}
			now = last + 1
		}
		return float64(got) / float64(calls)
	}
	if got := round(300, 2, 1); got < 0.3 || got > 0.36 {
		t.Errorf("%.2f of the calls before", got)
	}
	round(30, 2, 10) // to notice it
	if got := round(300, 2, 10); got > 0.05 {
		t.Errorf("%.2f of the calls while it is slow", got)
	}
	round(300, 30, 1) // to notice it
	if got := round(300, 30, 1); got < 0.25 {
		t.Errorf("%.2f of the calls after it is as fast as before", got)
	}
}
