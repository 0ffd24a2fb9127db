package balance

import (
	"slices"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/prompts"
)

// Soonest picks the instance that is expected to send its first token soonest, by the
// picture that the fleet has of each. Unlike the others it has to learn how the calls to
// its picks go: Begin returns the call that has begun in that picture.
type Soonest struct {
	// unknown picks where an instance has no place in a fleet, such as in a table that is
	// not in force.
	unknown leastConnections
	size    int       // of the pool
	lists   sync.Pool // of *places
}

// places holds the question to the fleet: the place of each instance to pick from, and its
// weight in this pool.
type places struct {
	engines []*fleet.Instance
	weights []float64
}

// Begin picks an instance for a request and returns the call to it, which counts from now
// on. Nothing of the request is kept. The call is nil where nothing is known of an instance.
func (b *Soonest) Begin(from []*backend.Instance, asked Asked) (*backend.Instance, *fleet.Call) {
	p := b.borrowPlaces()
	defer b.lists.Put(p)
	if !p.find(from) {
		return b.unknown.Pick(from, asked), nil
	}
	f := p.engines[0].Fleet()
	ask := b.read(f, asked)
	ask.Weights = p.weigh(from)
	call := f.Choose(p.engines, &ask, asked.Now)
	f.Return(ask.Prompt)
	at := slices.Index(p.engines, call.Instance)
	picked := from[at]
	if sharing := sharingAt(at, from, p.engines); sharing != nil {
		picked = b.unknown.Pick(sharing, asked)
	}
	call.CountIn(picked.Uses())
	return picked, call
}

// Pick is for requests that do not count in the picture, such as counting the tokens of
// a text: they go to the instance with the fewest calls.
func (b *Soonest) Pick(from []*backend.Instance, asked Asked) *backend.Instance {
	return b.unknown.Pick(from, asked)
}

// Peek returns nil where the request is not known: the choice depends on it.
func (b *Soonest) Peek(from []*backend.Instance, asked Asked) *backend.Instance {
	switch expected := b.Explain(from, asked); {
	case len(from) == 1:
		return from[0]
	case len(expected) > 0:
		return expected[0].Instance
	case from[0].Engine() == nil:
		return b.unknown.Peek(from, asked)
	}
	return nil
}

// Expected is the estimate of an instance.
type Expected struct {
	Instance *backend.Instance
	fleet.Estimate
}

// Explain returns the estimate of each instance for a request, beginning with the one that
// Begin would pick, and changes nothing. It returns nil where the request or an instance is
// not known.
func (b *Soonest) Explain(from []*backend.Instance, asked Asked) []Expected {
	if asked.Request == nil {
		return nil
	}
	var p places
	if !p.find(from) {
		return nil
	}
	engines := p.engines
	f := engines[0].Fleet()
	ask := b.read(f, asked)
	ask.Weights = p.weigh(from)
	estimates := f.Explain(engines, &ask, asked.Now)
	f.Return(ask.Prompt)
	first := slices.Index(engines, estimates[0].Instance)
	if sharing := sharingAt(first, from, engines); sharing != nil {
		first = slices.Index(from, b.unknown.Peek(sharing, asked))
	}
	expected := make([]Expected, len(estimates))
	for n, e := range estimates {
		at := first
		if n > 0 {
			at = slices.Index(engines, e.Instance)
		}
		expected[n], engines[at] = Expected{from[at], e}, nil // each is shown once
	}
	return expected
}

// sharingAt returns the instances with the same place in the fleet as the one at a
// position, such as two keys for one model at one address. They share its calls by least
// connections. It returns nil if there is no other.
func sharingAt(at int, from []*backend.Instance, engines []*fleet.Instance) []*backend.Instance {
	if !slices.Contains(engines[at+1:], engines[at]) {
		return nil
	}
	var sharing []*backend.Instance
	for n, engine := range engines {
		if engine == engines[at] {
			sharing = append(sharing, from[n])
		}
	}
	return sharing
}

// read reads how much work a request is for an engine. In a pool of one nothing
// depends on the prompt, and it is not read.
func (b *Soonest) read(f *fleet.Fleet, asked Asked) fleet.Ask {
	request := asked.Request
	ask := fleet.Ask{Prompt: f.Borrow(asked.Scope), Whole: request.Service == schema.Chat && !request.Stream,
		ToAnswer: asked.Goal == ToAnswer, Caller: asked.Caller}
	if b.size == 1 {
		ask.Tokens = float64(len(request.Body.Data())) / bytesPerToken
		return ask
	}
	ask.Tokens = prompts.Read(request, ask.Prompt, asked.Recalled...)
	if len(asked.Begun) > 0 {
		ask.Tokens += prompts.ReadBegun(request.Door, asked.Begun, ask.Prompt)
	}
	if hint := prompts.Hint(request, asked.Header); hint != "" {
		ask.Prompt.Hint(hint)
	}
	return ask
}

// bytesPerToken is a guess for requests that are not read.
const bytesPerToken = 4

// find finds the place of each instance in the fleet, and reports whether all have one.
func (p *places) find(from []*backend.Instance) bool {
	p.engines = p.engines[:0]
	for _, i := range from {
		engine := i.Engine()
		if engine == nil {
			return false
		}
		p.engines = append(p.engines, engine)
	}
	return len(p.engines) > 0
}

// weigh returns the weights of the instances, nil where they are equal.
func (p *places) weigh(from []*backend.Instance) []float64 {
	first := from[0].Settings.Weight
	if !slices.ContainsFunc(from, func(i *backend.Instance) bool { return i.Settings.Weight != first }) {
		return nil
	}
	p.weights = p.weights[:0]
	for _, i := range from {
		p.weights = append(p.weights, i.Settings.Weight)
	}
	return p.weights
}

func (b *Soonest) borrowPlaces() *places {
	if p, found := b.lists.Get().(*places); found {
		return p
	}
	return new(places)
}
