package replay

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// Engines are simulated engines that serve the model m.
type Engines []*simulator.Backend

// StartEngines starts engines of one kind at a time scale: a second of the spec takes so
// many real ones.
func StartEngines(of fleettest.Engines, kind simulator.Kind, scale float64) (Engines, error) {
	var all Engines
	for n := range of.Number {
		spec := of.Kind(n)
		for _, seconds := range []*float64{&spec.Token, &spec.Attend, &spec.Request, &spec.Decode, &spec.Load} {
			*seconds *= scale
		}
		b, err := simulator.Start(simulator.Options{Engine: &spec, Kind: kind, Models: []string{"m"}, JournalSize: 1})
		if err != nil {
			all.Close()
			return nil, err
		}
		if factor, differs := of.Slow[n]; differs {
			b.Engine().Slow(factor)
		}
		all = append(all, b)
	}
	return all, nil
}

// Close ends the engines.
func (e Engines) Close() {
	for _, b := range e {
		b.Close()
	}
}

// URLs returns where the engines are.
func (e Engines) URLs() (all []string) {
	for _, b := range e {
		all = append(all, b.URL())
	}
	return all
}

// Totals returns the work of all engines, by their own count.
func (e Engines) Totals() (sum engine.Totals) {
	for _, b := range e {
		t := b.Engine().State().Totals
		sum.Requests += t.Requests
		sum.Tokens += t.Tokens
		sum.Cached += t.Cached
		sum.Outputs += t.Outputs
		sum.Prefill += t.Prefill
		sum.Loads += t.Loads
	}
	return sum
}

// Service returns the configuration of a chat service: engines serve its model m, and a
// strategy chooses among them.
func Service(strategy, adapter string, urls []string) string {
	out := fmt.Sprintf("services:\n  chat:\n    load-balancer: %s\n    adapter: %s\n    instances:\n", strategy,
		adapter)
	for _, url := range urls {
		out += fmt.Sprintf("      - { name: m, base-url: %q }\n", url)
	}
	return out
}
