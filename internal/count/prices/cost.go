package prices

// Quantity is what a request used.
type Quantity struct {
	// Prompt are the tokens of the prompt, of which Cached were cached, and Completion
	// those of the answer.
	Prompt, Cached, Completion int64
	Images                     int64
	Seconds                    int64 // of sound
	Characters                 int64 // that were spoken
}

const (
	perMillion  = 1_000_000
	perThousand = 1_000
	perMinute   = 60
)

// Cost returns what a quantity costs. A nil Price is that of a model without one.
func (p *Price) Cost(q Quantity) Amount {
	if p == nil {
		return 0
	}
	cached := min(max(q.Cached, 0), q.Prompt)
	cachedPrice := p.CachedInput
	if cachedPrice == 0 {
		cachedPrice = p.Input
	}
	return p.Input.times(q.Prompt-cached, perMillion).
		Plus(cachedPrice.times(cached, perMillion)).
		Plus(p.Output.times(q.Completion, perMillion)).
		Plus(p.Image.times(q.Images, 1)).
		Plus(p.Minute.times(q.Seconds, perMinute)).
		Plus(p.Characters.times(q.Characters, perThousand))
}
