package fleettest

import (
	"math"
	"math/rand/v2"
	"strconv"
)

// number encodes a block's kind and two numbers: blocks of different kinds never have the
// same number.
func number(kind, a, b int) uint64 { return uint64(kind)<<56 | uint64(a)<<24 | uint64(b) }

// Fixed returns 750 prompts that come again and again, in a fixed order, faster and faster
// (3 to 60 a second): 150 customers with 6,000 tokens in common, 5 users of each with a
// question of 1,200. If fresh, no question comes twice.
func Fixed(fresh bool) []*Request {
	const stage = 30.0
	rng := source(7, 0)
	order := rng.Perm(750)
	var all []*Request
	t := 0.0
	for _, rate := range []float64{3, 10, 20, 30, 40, 50, 60} {
		for end := t + stage; t < end; {
			t += rng.ExpFloat64() / rate
			customer, user := order[len(all)%750]/5, order[len(all)%750]%5
			question := customer*5 + user
			if fresh {
				question = 1000 + len(all)
			}
			r := &Request{At: t, Tokens: 7200, Outputs: 250, Model: "m", Session: strconv.Itoa(customer*5 + user)}
			for n := range 15 {
				r.Blocks = append(r.Blocks, number(1, customer, n))
			}
			for n := range 3 {
				r.Blocks = append(r.Blocks, number(2, question, n))
			}
			all = append(all, r)
		}
	}
	return all
}

// Agents returns 500 conversations of 12 turns, which begin within ten minutes.
func Agents() []*Request { return Talks(500, 12, 512, 600) }

// Talks returns conversations that begin within so many seconds, with blocks of so many
// tokens. A turn waits for the answer to the one before, and adds 3 blocks to the 8 that
// all conversations of one of five kinds have in common.
func Talks(conversations, turns, block int, within float64) []*Request {
	rng := source(5, 0)
	var all []*Request
	for a := range conversations {
		var blocks []uint64
		for n := range 8 {
			blocks = append(blocks, number(3, a%5, n))
		}
		at := rng.Float64() * within
		var before *Request
		for turn := range turns {
			for n := range 3 {
				blocks = append(blocks[:len(blocks):len(blocks)], number(4, a, turn*3+n))
			}
			r := &Request{At: at, Tokens: len(blocks)*block + 100, Outputs: 200, Blocks: blocks, Model: "m",
				Session: strconv.Itoa(a)}
			if before == nil {
				all = append(all, r)
			} else {
				before.Next, before.Pause = r, rng.ExpFloat64()*10
			}
			before = r
		}
	}
	return all
}

// Unique returns 6,000 requests that share nothing, of very different lengths.
func Unique() []*Request {
	rng := source(2, 0)
	return unshared(6000, 5, rng, func() int {
		return min(int(math.Exp(8.6+0.9*rng.NormFloat64()))+16, 100_000)
	})
}

// Same returns 6,000 requests that share nothing, all of the same length.
func Same() []*Request {
	return unshared(6000, 7.9, source(2, 0), func() int { return 5000 })
}

func unshared(count int, rate float64, rng *rand.Rand, length func() int) []*Request {
	var all []*Request
	t := 0.0
	for k := range count {
		t += rng.ExpFloat64() / rate
		r := &Request{At: t, Tokens: length(), Outputs: 300, Model: "m"}
		for n := range r.Tokens / 512 {
			r.Blocks = append(r.Blocks, number(5, k, n))
		}
		all = append(all, r)
	}
	return all
}

// TwoModels returns 200 requests for two models in random order.
func TwoModels() []*Request {
	rng := source(3, 0)
	var all []*Request
	t := 0.0
	for k := range 200 {
		t += rng.ExpFloat64() * 3
		all = append(all, &Request{At: t, Tokens: 1000, Outputs: 50, Blocks: []uint64{number(6, k, 0)},
			Model: string('A' + rune(rng.IntN(2)))})
	}
	return all
}
