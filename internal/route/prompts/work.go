package prompts

import (
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	// tokensPerImage is the work of making an image: many times the work of reading the
	// few words that describe it.
	tokensPerImage = 1000
	// soundPerToken is how many bytes of a sound count as a token. Engines read a sound in
	// about 50 steps a second, and a second of a sound has about 16 KB (MP3) or 32 KB
	// (16 kHz, uncompressed).
	soundPerToken = 400
)

// work returns the work of a request that has no prompt: the tokens of its texts, for each
// document the tokens of the query again, and beside them its images and sounds. Only the
// ratio between requests of one model matters.
func work(req *schema.Request) (tokens float64) {
	use := estimate.Most(req, nil, 0)
	tokens = float64(use.Prompt + tokensPerImage*use.Images)
	if req.Service == schema.STT {
		for i := range req.Form.Parts {
			if file := req.Form.Parts[i].File; file != nil {
				tokens += float64(file.Size / soundPerToken)
			}
		}
	}
	return tokens
}
