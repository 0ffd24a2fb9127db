package fleettest

import "math/rand/v2"

// Scenario is a workload with the engines that get it.
type Scenario struct {
	Name     string
	Requests func() []*Request
	Engines  Engines
	Until    float64 // seconds of the workload; 0 is all of it
}

// Scenarios returns all scenarios. The conversations come from a trace, or are generated.
func Scenarios(conversations func() []*Request) []Scenario {
	small := Standard()
	small.Cache, small.Token = 307_200, 0.0001
	fixed := Standard()
	fixed.Block, fixed.Cache, fixed.Token = 400, 307_328, 0.0001
	hosts := Standard()
	hosts.Number, hosts.Room, hosts.Models, hosts.Token = 2, 1, []string{"A", "B"}, 0.0002
	company := Standard()
	company.Number, company.Room, company.Models = 3, 2, modelsOfADay()
	slow, wide, drag, outage := Standard(), Standard(), Standard(), Standard()
	slow.Slow = map[int]float64{0: 2}
	wide.Width = 4
	drag.Drag = 0.03
	outage.Outages = []Outage{{Engine: 3, From: 400, Till: 700}}
	return append([]Scenario{
		{"trace", conversations, Standard(), 0},
		{"spare", conversations, Standard().Faster(0.00006), 0},
		{"b2b", func() []*Request { return Fixed(false) }, fixed, 0},
		{"b2b_fresh", func() []*Request { return Fixed(true) }, fixed, 0},
		{"agents", Agents, small, 0},
		{"unique", Unique, Standard(), 0},
		{"same", Same, Standard(), 0},
		{"twomodels", TwoModels, hosts, 0},
		{"tenmodels", func() []*Request { return Day(1, 1) }, company, 0},
		{"tenmodels_busy", func() []*Request { return Day(1, 2) }, company, 0},
		{"trace_slow", conversations, slow, 1200},
		{"trace_wide", conversations, wide, 1200},
		{"trace_decode", conversations, drag, 1200},
		{"trace_outage", conversations, outage, 1200},
		{"same_slow", Same, slow, 0},
		{"same_wide", Same, wide, 0},
	}, mixed(conversations)...)
}

// Comparison has the figures of the policies in one scenario: round robin, least connections,
// the fleet's, and, where engines are mixed, one that knows every speed.
type Comparison struct {
	RoundRobin, LeastConnections, LeastTime, LeastAnswer, Oracle Figures
}

// OverRR returns the mean time to the first token in relation to round robin.
func (c Comparison) OverRR() float64 { return c.LeastTime.Mean / c.RoundRobin.Mean }

// OverLC returns the mean time to the first token in relation to least connections.
func (c Comparison) OverLC() float64 { return c.LeastTime.Mean / c.LeastConnections.Mean }

// Compare does runs that differ in the policy only.
func Compare(run Run) Comparison {
	compared := Baselines(run)
	run.New = NewLeastTime
	compared.LeastTime = run.Do()
	if run.Engines.Kinds != nil {
		run.New = NewLeastAnswer
		compared.LeastAnswer = run.Do()
		run.New = NewOracle
		compared.Oracle = run.Do()
	}
	return compared
}

// Baselines does the runs of round robin and least connections.
func Baselines(run Run) Comparison {
	do := func(policy func(Engines, int, *rand.Rand) Gateway) Figures {
		run.New = policy
		return run.Do()
	}
	return Comparison{RoundRobin: do(NewRoundRobin), LeastConnections: do(NewLeastConnections)}
}
