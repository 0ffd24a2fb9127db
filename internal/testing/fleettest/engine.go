package fleettest

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// Engines are the instances of a simulated fleet, all alike except for the fields here.
// Times are seconds of virtual time.
type Engines struct {
	engine.Spec
	Number int
	// Slow makes engines slower by a factor.
	Slow map[int]float64
	// Kinds are the engines that differ from the others in more than that, by their number.
	Kinds map[int]engine.Spec
	// Turns are when engines become slower or faster.
	Turns []Turn
	// Models are configured in the gateways; other models are added when they are asked
	// for.
	Models []string
	// Secretive says that engines do not report the size of their caches. Boundless says
	// that they do not report for how many models they have room, only which ones they
	// have.
	Secretive, Boundless bool
	// Outages are when engines are gone. They come back with nothing in memory.
	Outages []Outage
}

// Outage is the time that an engine is away.
type Outage struct {
	Engine     int
	From, Till float64
}

// Turn is when an engine takes so many times its first seconds for everything.
type Turn struct {
	Engine int
	At     float64
	Slow   float64
}

// Kind returns the description of an engine.
func (e *Engines) Kind(number int) engine.Spec {
	if kind, differs := e.Kinds[number]; differs {
		return kind
	}
	return e.Spec
}

// Vary makes one engine for each speed, so many times as fast as it is without; no speeds change
// nothing.
func (e *Engines) Vary(speeds []float64) {
	if len(speeds) == 0 {
		return
	}
	slow, kinds := map[int]float64{}, map[int]engine.Spec{}
	for n, speed := range speeds {
		slow[n], kinds[n] = max(e.Slow[n], 1)/speed, e.Kind(n)
	}
	e.Number, e.Slow, e.Kinds = len(speeds), slow, kinds
	e.Turns = slices.DeleteFunc(slices.Clone(e.Turns), func(t Turn) bool { return t.Engine >= e.Number })
	e.Outages = slices.DeleteFunc(slices.Clone(e.Outages), func(o Outage) bool { return o.Engine >= e.Number })
}

// Standard returns eight engines with the speeds of the yardstick.
func Standard() Engines {
	return Engines{Number: 8, Spec: engine.Spec{
		Block: 512, Cache: 1_228_800, Token: 0.00016, Request: 0.04, Decode: 0.02, Width: 1, Load: 20,
	}}
}

// Faster returns the engines with another prefill of a token.
func (e Engines) Faster(token float64) Engines {
	e.Token = token
	return e
}

// instance is one engine of a run.
type instance struct {
	*engine.Engine
	up    bool
	alarm int // the number of the event that is to be the next first token
	cut   int
	calls map[*engine.Job]*Request
}

func newInstance(of *Engines, number int) *instance {
	i := &instance{Engine: engine.New(of.Kind(number)), up: true, calls: map[*engine.Job]*Request{}}
	if factor, differs := of.Slow[number]; differs {
		i.Slow(factor)
	}
	return i
}
