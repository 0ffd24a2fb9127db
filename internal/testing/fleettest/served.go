package fleettest

import "slices"

// Workloads for engines that are no simulations: minutes of work for a small GPU, in prompts
// that a context of 32,768 tokens has room for. A block has ServedBlock words.

// ServedBlock is how many words a block of Desk and Mix has.
const ServedBlock = 64

// Desk returns 40 conversations of three turns, which begin at once and pause for half a second.
// Each begins with one of eight system prompts of 1,900 to 8,000 words, of which a few are
// common, and has short answers.
func Desk() []*Request {
	rng := source(21, 0)
	var systems [8]int
	for n := range systems {
		systems[n] = (1900 + rng.IntN(6100)) / ServedBlock
	}
	var all []*Request
	for conversation := range 40 {
		system := min(len(systems)-1, int(spread(rng, 1, 1)))
		var first, before *Request
		words, blocks := systems[system]*ServedBlock, []uint64(nil)
		for range 3 {
			words += 30 + rng.IntN(500)
			for n := len(blocks); n < words/ServedBlock; n++ {
				if n < systems[system] {
					blocks = append(blocks, number(11, system, n))
				} else {
					blocks = append(blocks, number(12, conversation, n))
				}
			}
			r := &Request{Tokens: words, Outputs: 4 + rng.IntN(20), Blocks: slices.Clone(blocks), Model: "m"}
			if before == nil {
				first = r
			} else {
				before.Next, before.Pause = r, 0.5
			}
			before = r
		}
		all = append(all, first)
	}
	return all
}

// Mix returns the requests of 15 seconds, eight a second: short questions, documents of up to
// 15,000 words about which one to three questions are asked, and longer answers.
func Mix() []*Request {
	rng := source(22, 0)
	var all []*Request
	for at, k := 0.0, 0; at < 15; at, k = at+rng.ExpFloat64()/8, k+1 {
		words, turns, outputs := 40+int(spread(rng, 150, 0.8)), 1, 8+rng.IntN(40)
		switch draw := rng.Float64(); {
		case draw < 0.15:
			words, turns = min(int(spread(rng, 6000, 0.7)), 15_000), 1+rng.IntN(3)
		case draw < 0.35:
			outputs = 60 + rng.IntN(100)
		}
		var first, before *Request
		for range turns {
			r := &Request{At: at, Tokens: words, Outputs: outputs, Model: "m"}
			for n := range r.Tokens / ServedBlock {
				r.Blocks = append(r.Blocks, number(13, k, n))
			}
			if before == nil {
				first = r
			} else {
				before.Next, before.Pause = r, rng.ExpFloat64()
			}
			before = r
			words += 100
		}
		all = append(all, first)
	}
	return all
}
