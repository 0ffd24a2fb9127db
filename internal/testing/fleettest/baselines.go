package fleettest

import (
	"math/rand/v2"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// roundRobin takes engines in turn.
type roundRobin struct{ turn int }

// NewRoundRobin returns a gateway that takes engines in turn.
func NewRoundRobin(Engines, int, *rand.Rand) Gateway { return &roundRobin{} }

// Choose takes the next engine.
func (g *roundRobin) Choose(_ *Request, _ float64, up []int) int {
	g.turn++
	return up[g.turn%len(up)]
}

// First does nothing.
func (g *roundRobin) First(*Request, int, float64) {}

// End does nothing.
func (g *roundRobin) End(*Request, int, float64) {}

// Lost does nothing.
func (g *roundRobin) Lost(int) {}

// leastConnections takes the engine with the fewest calls.
type leastConnections struct {
	roundRobin
	open []int
}

// NewLeastConnections returns a gateway that takes the engine with the fewest calls.
func NewLeastConnections(engines Engines, _ int, _ *rand.Rand) Gateway {
	return &leastConnections{open: make([]int, engines.Number)}
}

// Choose takes the engine with the fewest calls; equal ones have their turns.
func (g *leastConnections) Choose(r *Request, now float64, up []int) int {
	var best []int
	for _, n := range up {
		if len(best) > 0 && g.open[n] < g.open[best[0]] {
			best = best[:0]
		}
		if len(best) == 0 || g.open[n] == g.open[best[0]] {
			best = append(best, n)
		}
	}
	chosen := g.roundRobin.Choose(r, now, best)
	g.open[chosen]++
	return chosen
}

// End frees a connection.
func (g *leastConnections) End(_ *Request, engine int, _ float64) { g.open[engine]-- }

// Lost frees all connections of an engine.
func (g *leastConnections) Lost(engine int) { g.open[engine] = 0 }

// oracle takes the engine with the least cost by the fleet's rule, and knows for it what no
// gateway knows: the speeds of each engine at every length and batch, its queue, its cache and
// the length of every answer. It does not know which requests will come.
type oracle struct {
	roundRobin
	engines []*engine.Engine
}

// NewOracle returns a gateway that sees into the engines.
func NewOracle(Engines, int, *rand.Rand) Gateway { return &oracle{} }

// See takes the engines.
func (g *oracle) See(engines []*engine.Engine) { g.engines = engines }

// Choose takes the engine with the least time to the first token, plus twice the seconds that
// the best cache would save there.
func (g *oracle) Choose(r *Request, now float64, up []int) int {
	const price = 2
	job, most := r.job(), 0
	all := make([]engine.Foreseen, len(up))
	for n, number := range up {
		all[n] = g.engines[number].Foresee(job, now)
		most = max(most, all[n].Cached)
	}
	best, least := 0, 0.0
	for n, number := range up {
		f := all[n]
		avoidable := f.First - f.Starts - g.engines[number].Reads(job, f, most)
		if cost := f.First + price*avoidable; n == 0 || cost < least {
			best, least = number, cost
		}
	}
	return best
}
