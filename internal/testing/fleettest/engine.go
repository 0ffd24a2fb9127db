package fleettest

import "github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"

// Engines are the instances of a simulated fleet, all alike but for what is said here.
// Times are seconds of virtual time.
type Engines struct {
	engine.Spec
	Number int
	// Slow makes engines slower by a factor.
	Slow map[int]float64
	// Models are those that gateways are configured with; others are added when they are
	// asked for.
	Models []string
	// Secretive says that engines do not tell how large their caches are, and Boundless that
	// gateways are not told for how many models they have room, only which ones they have.
	Secretive, Boundless bool
	// Outages are when engines are gone. They come back with nothing in memory.
	Outages []Outage
}

// Outage is a time in which an engine is gone.
type Outage struct {
	Engine     int
	From, Till float64
}

// Standard returns eight engines whose seconds are those of the yardstick.
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
	i := &instance{Engine: engine.New(of.Spec), up: true, calls: map[*engine.Job]*Request{}}
	if factor, differs := of.Slow[number]; differs {
		i.Slow(factor)
	}
	return i
}
