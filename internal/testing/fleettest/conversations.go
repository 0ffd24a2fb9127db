package fleettest

import (
	"math"
	"slices"
)

// Conversations returns requests as in a public trace of conversations: 3.4 a second. Six
// in ten begin a conversation, the others continue one after some minutes. They have
// prompts of a few hundred to a hundred thousand tokens. All begin with the same block.
// On the standard engines round robin and least connections fare with them as with the
// trace.
func Conversations() []*Request {
	const (
		horizon   = 2400.0
		starts    = 2.06 // conversations that begin in a second
		goesOn    = 0.44 // how likely a conversation has one more turn
		block     = 512
		mostToken = 120_000
	)
	rng := source(4, 0)
	spread := func(median, deviation float64) float64 { return median * math.Exp(deviation*rng.NormFloat64()) }
	var all []*Request
	for conversation, start := 0, 0.0; start < horizon; conversation++ {
		start += rng.ExpFloat64() / starts
		at, tokens := start, spread(5000, 1.22)
		for turn := 0; ; turn++ {
			tokens = min(tokens, mostToken)
			r := &Request{At: at, Tokens: int(tokens) + 1, Outputs: int(min(spread(300, 0.8), 2000)), Model: "m"}
			for n := range r.Tokens / block {
				if n == 0 {
					r.Blocks = append(r.Blocks, number(7, 0, 0))
				} else {
					r.Blocks = append(r.Blocks, number(8, conversation, n))
				}
			}
			all = append(all, r)
			if rng.Float64() > goesOn {
				break
			}
			at += spread(200, 1)
			if tokens += block; rng.Float64() < 0.4 {
				tokens += spread(8*block, 1)
			}
		}
	}
	all = slices.DeleteFunc(all, func(r *Request) bool { return r.At > horizon })
	slices.SortFunc(all, func(a, b *Request) int {
		if a.At < b.At {
			return -1
		}
		return 1
	})
	return all
}
