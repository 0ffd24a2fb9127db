package fleettest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

const (
	// noise is the error of guessed tokens: the logarithm of the factor is normal with
	// this deviation.
	noise = 0.3
	// bytesPerToken is how long the text of a token is.
	bytesPerToken = 4
)

// LeastTime is a gateway that chooses with a fleet.Fleet. It turns the blocks of requests
// into text, which the fleet reads as it reads prompts.
type LeastTime struct {
	Fleet *fleet.Fleet
	// Lie changes the reports of engines, if it is set.
	Lie func(engine int, told fleet.Told) fleet.Told
	// ToAnswer asks for the least time to the end of the answer.
	ToAnswer bool

	engines   Engines
	rng       *rand.Rand
	prompt    *fleet.Prompt
	text      []byte
	instances map[string][]*fleet.Instance // of each model, by engine
	calls     map[*Request]*fleet.Call
}

// NewLeastTime returns a gateway that chooses with a fleet.Fleet.
func NewLeastTime(engines Engines, gateway int, rng *rand.Rand) Gateway {
	secret := fleet.Secret{1}
	g := &LeastTime{
		Fleet:     fleet.New(fleet.Options{Secret: secret, Gateway: strconv.Itoa(gateway)}, clock(0)),
		engines:   engines,
		rng:       rng,
		prompt:    fleet.NewPrompt(&secret),
		text:      make([]byte, engines.Block*bytesPerToken),
		instances: map[string][]*fleet.Instance{},
		calls:     map[*Request]*fleet.Call{},
	}
	for _, model := range engines.Models {
		g.of(model)
	}
	return g
}

// NewLeastAnswer returns a gateway that chooses by the least time to the end of the answer.
func NewLeastAnswer(engines Engines, gateway int, rng *rand.Rand) Gateway {
	g := NewLeastTime(engines, gateway, rng).(*LeastTime)
	g.ToAnswer = true
	return g
}

// clock turns virtual seconds into a time.
func clock(seconds float64) time.Time {
	return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// Choose asks the fleet, with a guess of the tokens.
func (g *LeastTime) Choose(r *Request, now float64, up []int) int {
	guess := float64(r.Tokens)
	if r.Text == 0 {
		guess *= math.Exp(noise * g.rng.NormFloat64())
	}
	g.read(r)
	all := g.of(r.Model)
	from := make([]*fleet.Instance, len(up))
	for n, engine := range up {
		from[n] = all[engine]
	}
	ask := &fleet.Ask{Prompt: g.prompt, Tokens: guess, Whole: r.Whole, ToAnswer: g.ToAnswer}
	call := g.Fleet.Choose(from, ask, clock(now))
	g.calls[r] = call
	r.expects = call.Estimate.Expected + r.sent - r.At
	for n, i := range from {
		if i == call.Instance {
			return up[n]
		}
	}
	panic("an instance was chosen that was not to choose from")
}

// read makes the prompt of a request.
func (g *LeastTime) read(r *Request) {
	g.prompt.Reset("")
	for _, block := range r.Blocks {
		g.prompt.Text(fill(g.text, block))
	}
	rest := max(r.text()*bytesPerToken-len(r.Blocks)*len(g.text), 0)
	for ; rest > 0; rest -= len(g.text) {
		g.prompt.Text(fill(g.text, math.MaxUint64-uint64(r.number))[:min(rest, len(g.text))])
	}
	if r.Session != "" {
		g.prompt.Hint(r.Session)
	}
}

// fill makes the text of a block out of its number.
func fill(text []byte, number uint64) []byte {
	source := rand.NewPCG(number, 0)
	state := source.Uint64()
	for at := 0; at+8 <= len(text); at += 8 {
		state = state*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(text[at:], state)
	}
	return text
}

// of returns the instances of a model.
func (g *LeastTime) of(model string) []*fleet.Instance {
	if g.instances[model] == nil {
		for n := range g.engines.Number {
			i := g.Fleet.Instance(strconv.Itoa(n), model)
			if g.engines.Boundless {
				i.Host().Has(fleet.Models{}, clock(0))
			} else {
				i.Host().SetRoom(g.engines.Room)
			}
			if !g.engines.Secretive {
				i.Host().Tell(fleet.Told{Waiting: -1, Running: -1, Used: -1, Capacity: float64(g.engines.Cache)},
					clock(0))
			}
			g.instances[model] = append(g.instances[model], i)
		}
	}
	return g.instances[model]
}

// First tells the fleet of a first token.
func (g *LeastTime) First(r *Request, _ int, now float64) { g.calls[r].First(clock(now)) }

// End tells the fleet the usage that the answer reports.
func (g *LeastTime) End(r *Request, _ int, now float64) {
	g.calls[r].End(fleet.Answer{PromptTokens: r.text(), CachedTokens: r.Cached, OutputTokens: r.Outputs}, clock(now))
	delete(g.calls, r)
}

// Lost tells the fleet that an engine is gone.
func (g *LeastTime) Lost(engine int) {
	for _, all := range g.instances {
		all[engine].Host().Lost()
	}
}

// Export returns this gateway's news for other gateways.
func (g *LeastTime) Export(now float64) []byte { return g.Fleet.Export(clock(now)) }

// Import takes the news of another gateway.
func (g *LeastTime) Import(from string, message []byte, now float64) {
	if err := g.Fleet.Import(from, message, clock(now)); err != nil {
		panic(err)
	}
}

// Tell takes the report of an engine about itself.
func (g *LeastTime) Tell(engine, waiting, running int, models []string, now float64) {
	told := fleet.Told{Waiting: float64(waiting), Running: float64(running), Used: -1, Capacity: -1}
	if g.Lie != nil {
		told = g.Lie(engine, told)
	}
	for _, all := range g.instances {
		host := all[engine].Host()
		host.Tell(told, clock(now))
		if g.engines.Room > 0 {
			host.Has(fleet.Models{Awake: models}, clock(now))
		}
		return
	}
}
