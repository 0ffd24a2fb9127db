package fleettest

import "math/rand/v2"

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
