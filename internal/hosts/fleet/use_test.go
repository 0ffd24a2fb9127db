package fleet_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// someText is the text of a prompt.
var someText = randomText(rand.New(rand.NewPCG(1, 1)), 8<<10)

// near reports whether two numbers are equal but for what sums of fractions lose.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1) }

// A choice that does not look comes to the mean of what the instances would come to, each
// as often as its weight says.
func TestEstimateTellsWhatABlindChoiceComesTo(t *testing.T) {
	f, all := team(2)
	shared := &fleet.Ask{Prompt: read(someText), Tokens: 2000}
	answer(f.Choose(all[:1], shared, at(0)), 0.2, 0.3)
	shared.Weights = []float64{3, 1}
	expected := f.Explain(all, shared, at(1))
	if expected[0].Instance != all[0] || expected[0].Matched == 0 || expected[1].Matched != 0 {
		t.Fatalf("the prompt is not where it was sent: %+v", expected)
	}
	call := f.Choose(all, shared, at(1))
	want := 0.75*expected[0].Expected + 0.25*expected[1].Expected
	if got := call.Estimate; !near(got.Blind, want) || !near(got.BlindMatched, 0.75*expected[0].Matched) {
		t.Errorf("blind: %v s and %v matched, want %v and %v", got.Blind, got.BlindMatched, want, 0.75*expected[0].Matched)
	}
}

// Use tells what the calls of the last minutes came to, of streams and whole answers, and
// forgets those from before.
func TestUseTellsWhatCallsCameTo(t *testing.T) {
	f, all := team(2)
	prompt := func() *fleet.Ask { return &fleet.Ask{Prompt: read(someText), Tokens: 2000} }
	var expected, blind float64
	uses := []*fleet.Uses{{}, {}}
	for n := range 10 {
		call := f.Choose(all, prompt(), at(float64(n)))
		call.CountIn(uses[n%2])
		expected += call.Estimate.Expected
		blind += call.Estimate.Blind
		call.First(at(float64(n) + 2*call.Estimate.Expected))
		call.End(fleet.Answer{PromptTokens: 1000, CachedTokens: 600, OutputTokens: 10}, at(float64(n)+0.9))
	}
	whole := f.Choose(all, &fleet.Ask{Prompt: read(), Tokens: 1000, Whole: true}, at(20))
	whole.CountIn(uses[0])
	whole.End(fleet.Answer{PromptTokens: -1, CachedTokens: -1, OutputTokens: 10}, at(21))
	lost := f.Choose(all, prompt(), at(22))
	lost.CountIn(uses[0])
	lost.Abort(at(23)) // counts nowhere
	use := f.Use(append(uses, uses[0], nil), at(30))
	if use.Calls != 11 || use.Streams != 10 || !use.IsTold || !near(use.HitRate, 0.6) {
		t.Errorf("%+v", use)
	}
	if !near(use.Expected, expected/10) || !near(use.FirstToken, expected/5) || !near(use.Ratio, 2) || !near(use.Blind, blind/5) {
		t.Errorf("%+v, want expected %v, blind %v, and twice of both", use, expected/10, blind/10)
	}
	if use.BlindHitRate >= use.HitRate || use.BlindHitRate <= 0 || use.BlindHitRate >= 1 || use.Saved <= 0 || use.Saved >= use.Prefill {
		t.Errorf("%+v", use)
	}
	if one := f.Use(uses[:1], at(30)); one.Calls != 6 {
		t.Errorf("one has counted %d calls", one.Calls)
	}
	if use := f.Use(uses, at(40+fleet.UseTime.Seconds())); use != (fleet.Use{}) {
		t.Errorf("after minutes: %+v", use)
	}
}

// Where engines tell nothing about their caches, what the index believed is told, as such.
func TestUseOfEnginesThatTellNothing(t *testing.T) {
	f, all := team(1)
	uses := new(fleet.Uses)
	for n := range 4 {
		call := f.Choose(all, &fleet.Ask{Prompt: read(someText), Tokens: 2000}, at(float64(n)))
		call.CountIn(uses)
		answer(call, float64(n)+0.1, float64(n)+0.2)
	}
	if use := f.Use([]*fleet.Uses{uses}, at(5)); use.IsTold || use.HitRate < 0.5 || use.HitRate >= 0.75 {
		t.Errorf("%+v, want what three of four calls found", use)
	}
	if use := f.Use(nil, at(5)); use != (fleet.Use{}) {
		t.Errorf("of no instance: %+v", use)
	}
}

// An engine that has no cache has none for a choice that does not look either.
func TestUseBelievesEnginesAboutTheirCaches(t *testing.T) {
	f, all := team(2)
	uses := new(fleet.Uses)
	for n := range 4 {
		call := f.Choose(all, &fleet.Ask{Prompt: read(someText), Tokens: 2000}, at(float64(n)))
		call.CountIn(uses)
		call.End(fleet.Answer{PromptTokens: 2000, CachedTokens: 0, OutputTokens: 10}, at(float64(n)+0.5))
	}
	if use := f.Use([]*fleet.Uses{uses}, at(5)); !use.IsTold || use.HitRate != 0 || use.BlindHitRate != 0 || use.Saved != 0 {
		t.Errorf("%+v", use)
	}
}

// Calls are counted by what they were asked as, although one instance has them all, from the
// beginning to their end, and also if the host loses them in between.
func TestUsesOfOneInstanceAreCountedApart(t *testing.T) {
	f, all := team(1)
	ours, theirs := new(fleet.Uses), new(fleet.Uses)
	ask := &fleet.Ask{Prompt: read(someText), Tokens: 2000}
	check := func(what string, u *fleet.Uses, waiting, decoding, calls int) {
		t.Helper()
		if use := f.Use([]*fleet.Uses{u}, at(10)); use.Waiting != waiting || use.Decoding != decoding || use.Calls != calls {
			t.Errorf("%s: %d wait, %d decode, %d calls", what, use.Waiting, use.Decoding, use.Calls)
		}
	}
	one, two, other := f.Choose(all, ask, at(1)), f.Choose(all, ask, at(1)), f.Choose(all, ask, at(1))
	one.CountIn(ours)
	two.CountIn(ours)
	other.CountIn(theirs)
	check("both begin", ours, 2, 0, 0)
	one.First(at(2))
	check("one has begun to answer", ours, 1, 1, 0)
	one.End(fleet.Answer{OutputTokens: 2}, at(3))
	check("one has ended", ours, 1, 0, 1)
	all[0].Host().Lost()
	two.First(at(4))
	two.Abort(at(5))
	check("the host was lost", ours, 0, 0, 1)
	check("the other name", theirs, 1, 0, 0)
	other.GiveUp(at(6))
	check("the other name, given up", theirs, 0, 0, 0)
}
