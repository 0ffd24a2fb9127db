package replay

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
)

// text returns the prompt of a request: for each of its blocks the words that belong to the
// number of the block, then words that no other request has, as many as it has tokens. A
// word with the space before it is a token of simulated engines and has four bytes on
// average.
func text(r *fleettest.Request, block, number int, salt uint64) []byte {
	out := make([]byte, 0, r.Tokens*4+64)
	for _, b := range r.Blocks {
		out = appendWords(out, b, salt, block)
	}
	return appendWords(out, math.MaxUint64-uint64(number), salt, max(r.Tokens-len(r.Blocks)*block, 0))
}

// appendWords adds so many words, which are the same for the same seed and salt.
func appendWords(out []byte, seed, salt uint64, count int) []byte {
	source := rand.NewPCG(seed, 26+salt)
	for range count {
		bits := source.Uint64()
		out = append(out, ' ')
		for range 2 + bits%3 {
			bits >>= 5
			out = append(out, byte('a'+bits%26))
		}
	}
	return out
}

// body returns a chat request. The prompt needs no escapes. Engines that know ignore_eos
// write exactly as many tokens as are asked for.
func body(r *fleettest.Request, block, number int, salt uint64) []byte {
	out := append([]byte(
		`{"model":"`+r.Model+`","stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"max_tokens":`),
		strconv.Itoa(max(r.Outputs, 1))...)
	out = append(out, `,"messages":[{"role":"user","content":"`...)
	out = append(out, text(r, block, number, salt)...)
	return append(out, `"}]}`...)
}
