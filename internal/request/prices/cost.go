package prices

import "cmp"

// Quantity is the use of a request.
type Quantity struct {
	// Prompt counts the tokens of the prompt, Cached the cached ones among them, Written those that
	// were written to a cache, and Completion the tokens of the answer.
	Prompt, Cached, Written, Completion int64
	Images                              int64
	Seconds                             int64 // of sound
	Characters                          int64 // that were spoken
}

const (
	perMillion  = 1_000_000
	perThousand = 1_000
	perMinute   = 60
)

// Cost returns the cost of a quantity. A nil Price belongs to a model without a price.
func (p *Price) Cost(q Quantity) Amount {
	if p == nil {
		return 0
	}
	cached := min(max(q.Cached, 0), q.Prompt)
	written := min(max(q.Written, 0), q.Prompt-cached)
	return p.Input.times(q.Prompt-cached-written, perMillion).
		Plus(cmp.Or(p.CachedInput, p.Input).times(cached, perMillion)).
		Plus(cmp.Or(p.CacheWrite, p.Input).times(written, perMillion)).
		Plus(p.Output.times(q.Completion, perMillion)).
		Plus(p.Image.times(q.Images, 1)).
		Plus(p.Minute.times(q.Seconds, perMinute)).
		Plus(p.Characters.times(q.Characters, perThousand))
}
