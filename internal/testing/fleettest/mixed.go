package fleettest

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// Three kinds of engines with the same model. The second is four times slower than the first,
// the third ten times. The more tokens are before it, the longer a token of a prompt takes, and
// more so on the slower ones; the same is true of prompts and answers beside other answers.
func large() engine.Spec {
	return engine.Spec{Block: 512, Cache: 1_228_800, Token: 0.00006, Attend: 1e-9, Request: 0.02, Decode: 0.01,
		Drag: 0.005, Crowd: 0.01, Width: 1}
}

func medium() engine.Spec {
	return engine.Spec{Block: 512, Cache: 204_800, Token: 0.00024, Attend: 8e-9, Request: 0.05, Decode: 0.03,
		Drag: 0.02, Crowd: 0.04, Width: 1, Slots: 32}
}

func small() engine.Spec {
	return engine.Spec{Block: 512, Cache: 307_200, Token: 0.0006, Attend: 4e-8, Request: 0.1, Decode: 0.04,
		Drag: 0.1, Crowd: 0.25, Width: 1, Slots: 6}
}

// mix returns so many engines of each kind.
func mix(larges, mediums, smalls int) Engines {
	e := Engines{Number: larges + mediums + smalls, Spec: large(), Kinds: map[int]engine.Spec{}}
	for n := range e.Number {
		switch {
		case n < larges:
			e.Kinds[n] = large()
		case n < larges+mediums:
			e.Kinds[n] = medium()
		default:
			e.Kinds[n] = small()
		}
	}
	return e
}

// mixed returns the scenarios with engines of several kinds.
func mixed(conversations func() []*Request) []Scenario {
	turns := mix(3, 4, 0)
	turns.Turns = []Turn{{Engine: 0, At: 600, Slow: 4}, {Engine: 0, At: 1200, Slow: 1}}
	return []Scenario{
		{"mixed_four", conversations, mix(3, 4, 0), 1200},
		{"mixed_ten", conversations, mix(3, 3, 3), 1200},
		{"mixed_agents", Agents, mix(2, 3, 2), 0},
		{"mixed_unique", Unique, mix(4, 4, 2), 0},
		{"mixed_office", func() []*Request { return Office(11, 1800, 6) }, mix(2, 3, 2), 0},
		{"mixed_calm", func() []*Request { return Office(13, 1800, 4) }, mix(2, 3, 2), 0},
		{"mixed_turns", func() []*Request { return Office(12, 1800, 7) }, turns, 0},
		// Two of other seeds and shapes, which nothing was tuned on.
		{"mixed_aside_office", func() []*Request { return Office(77, 1800, 3) }, mix(1, 2, 4), 0},
		{"mixed_aside_bursts", func() []*Request { return Bursts(78, 1800) }, mix(2, 6, 1), 0},
		// Two more, made after the numbers of speed.go were chosen.
		{"mixed_aside_slow", func() []*Request { return Office(901, 1800, 3.5) }, mix(2, 0, 5), 0},
		{"mixed_aside_talks", func() []*Request { return Talks(400, 9, 512, 1200) }, mix(1, 3, 1), 0},
	}
}

// Bursts returns the requests of some seconds, in bursts of up to forty that share a document.
func Bursts(seed uint64, seconds float64) []*Request {
	rng := source(seed, 0)
	var all []*Request
	for at, k := rng.ExpFloat64()*10, 0; at < seconds; at, k = at+rng.ExpFloat64()*10, k+1 {
		document := spread(rng, 3000, 0.9)
		for n := range 1 + rng.IntN(40) {
			r := talk(at+rng.Float64(), k, 1, document, 0, spread(rng, 300, 0.8), rng)
			r.Tokens += n % 7 * 150 // each has a question of its own behind it
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Request) int {
		if a.At < b.At {
			return -1
		}
		return 1
	})
	return all
}

// Office returns the requests of some seconds, so many a second on average: short questions,
// documents of ten to eighty thousand tokens that are asked about a few times, long answers to
// short prompts, and conversations that grow.
func Office(seed uint64, seconds, rate float64) []*Request {
	rng := source(seed, 0)
	var all []*Request
	for at, k := rng.ExpFloat64()/rate, 0; at < seconds; at, k = at+rng.ExpFloat64()/rate, k+1 {
		switch draw := rng.Float64(); {
		case draw < 0.55:
			all = append(all, talk(at, k, 1, 100+spread(rng, 400, 1), 0, spread(rng, 120, 0.7), rng))
		case draw < 0.60:
			document := min(spread(rng, 20_000, 0.8), 80_000)
			all = append(all, talk(at, k, 1+rng.IntN(4), document, 200, spread(rng, 250, 0.6), rng))
		case draw < 0.80:
			all = append(all, talk(at, k, 1, 200+spread(rng, 300, 0.5), 0, min(spread(rng, 900, 0.6), 3000), rng))
		default:
			all = append(all, talk(at, k, 1+rng.IntN(5), 1500+spread(rng, 1500, 0.8), 700, spread(rng, 200, 0.6), rng))
		}
	}
	slices.SortFunc(all, func(a, b *Request) int {
		if a.At < b.At {
			return -1
		}
		return 1
	})
	return all
}

// spread returns a number around a median.
func spread(rng *rand.Rand, median, deviation float64) float64 {
	return median * math.Exp(deviation*rng.NormFloat64())
}

// talk returns the first of some turns: each waits for the answer to the one before, and adds
// tokens to its prompt. All begin with one of four system prompts of two blocks.
func talk(at float64, talker, turns int, tokens, adds, outputs float64, rng *rand.Rand) *Request {
	const block = 512
	var first, before *Request
	for range turns {
		r := &Request{At: at, Tokens: int(tokens) + 2*block, Outputs: max(int(outputs), 1), Model: "m",
			Session: strconv.Itoa(talker)}
		for n := range r.Tokens / block {
			if n < 2 {
				r.Blocks = append(r.Blocks, number(9, talker%4, n))
			} else {
				r.Blocks = append(r.Blocks, number(10, talker, n))
			}
		}
		if before == nil {
			first = r
		} else {
			before.Next, before.Pause = r, rng.ExpFloat64()*20
		}
		before = r
		tokens += adds + outputs
	}
	return first
}
