package fleettest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
)

// scenario returns the scenario with a name, its conversations generated.
func scenario(t *testing.T, name string) fleettest.Run {
	t.Helper()
	for _, s := range fleettest.Scenarios(fleettest.Conversations) {
		if s.Name == name {
			return fleettest.Run{Engines: s.Engines, Requests: s.Requests(), Until: s.Until, Seed: 1}
		}
	}
	t.Fatalf("there is no scenario %q", name)
	return fleettest.Run{}
}

// TestConversationsAreLikeTheTrace holds the generated conversations to what round robin
// and least connections make of the public trace: a policy that is good with the one must
// be good with the other.
func TestConversationsAreLikeTheTrace(t *testing.T) {
	t.Parallel()
	run := scenario(t, "trace")
	compared := fleettest.Compare(run)
	rr, lc := compared.RoundRobin, compared.LeastConnections
	for _, c := range []struct {
		what      string
		is, trace float64
	}{
		{"mean of round robin", rr.Mean, 6.937},
		{"mean of least connections", lc.Mean, 4.758},
		{"mean of round robin beside least connections", rr.Mean / lc.Mean, 1.458},
		{"hits of round robin", rr.Hit, 0.087},
		{"hits of least connections", lc.Hit, 0.081},
		{"hits of one endless cache", fleettest.Bound(run.Requests, run.Engines.Block, 0), 0.373},
	} {
		if off := c.is/c.trace - 1; math.Abs(off) > 0.15 {
			t.Errorf("%s: %.3f, that of the trace is %.3f", c.what, c.is, c.trace)
		}
	}
}

// goal is what the policy has to reach in a scenario. Figures that are 0 are not asked for.
type goal struct {
	scenario        string
	gateways        int
	share, told     float64
	answersAreWhole bool
	isSecretive     bool    // engines do not tell how large their caches are
	isBoundless     bool    // gateways are not told for how many models there is room
	seeds           int     // over how many seeds the figures are averaged; 0 is one
	overLC, overRR  float64 // at most
	mean, err       float64 // at most
	hit, soon       float64 // at least
	loads           int     // at most
}

// goals are the figures to reach: 1.1 times those of a reference in Python with the same
// rule, and some for what it did not have.
var goals = []goal{
	{scenario: "trace", overLC: 0.40, overRR: 0.28, hit: 0.247, soon: 0.65, err: 0.21},
	{scenario: "trace", gateways: 3, share: 1, overLC: 0.44, hit: 0.234},
	{scenario: "trace", gateways: 3, seeds: 3, overLC: 0.68}, // what gateways know of each other is luck then
	{scenario: "trace", answersAreWhole: true, overLC: 0.44, overRR: 0.31, hit: 0.234},
	{scenario: "trace", isSecretive: true, overLC: 0.44},
	{scenario: "trace_outage", overLC: 0.44},
	{scenario: "spare", overLC: 0.71, overRR: 0.78},
	{scenario: "b2b", mean: 0.09, hit: 0.86},
	{scenario: "agents", mean: 0.37, hit: 0.77},
	{scenario: "unique", overLC: 0.55},
	{scenario: "same", overLC: 0.97},
	{scenario: "same", answersAreWhole: true, overLC: 1},
	{scenario: "same_slow", answersAreWhole: true, overLC: 1.3}, // the slow one is noticed late
	{scenario: "same", gateways: 3, share: 1, overLC: 1.05},
	{scenario: "same", gateways: 3, overLC: 1.05},
	{scenario: "same", gateways: 3, told: 5, overLC: 1.05},
	{scenario: "same_slow", overLC: 1},
	{scenario: "twomodels", loads: 2},
	{scenario: "twomodels", gateways: 3, share: 1, told: 1, loads: 2},
	{scenario: "twomodels", isBoundless: true, told: 2, loads: 2},
	{scenario: "twomodels", gateways: 3, share: 1, isBoundless: true, told: 2, loads: 2},
}

// TestLeastTimeAnswersSooner holds the policy to its goals, beside round robin and least
// connections on the same requests. The fleet knows what a gateway does: its own requests,
// tokens that are guessed wrong, speeds that it learns.
func TestLeastTimeAnswersSooner(t *testing.T) {
	t.Parallel()
	type baseline struct {
		scenario string
		gateways int
		seed     uint64
	}
	baselines := map[baseline]fleettest.Comparison{}
	for _, g := range goals {
		run := scenario(t, g.scenario)
		run.Gateways, run.Engines.Secretive, run.Engines.Boundless = g.gateways, g.isSecretive, g.isBoundless
		var sum result
		seeds := max(g.seeds, 1)
		for seed := range seeds {
			run.Seed, run.Share, run.Told, run.New = uint64(seed)+1, g.share, g.told, fleettest.NewLeastTime
			key := baseline{g.scenario, g.gateways, run.Seed}
			if _, done := baselines[key]; !done {
				baselines[key] = fleettest.Baselines(run)
			}
			for _, r := range run.Requests {
				for ; r != nil; r = r.Next {
					r.Whole = g.answersAreWhole
				}
			}
			compared := baselines[key]
			compared.LeastTime = run.Do()
			sum.add(compared, 1/float64(seeds))
			if got := compared.LeastTime; got.Failed > 0 || got.Requests != compared.LeastConnections.Requests {
				t.Errorf("%+v: %d requests answered and %d failed, least connections answered %d", g, got.Requests, got.Failed, compared.LeastConnections.Requests)
			}
		}
		t.Logf("%-12s gateways %d, exchange %g, told %g, whole %t, secretive %t: %s", g.scenario, max(g.gateways, 1), g.share, g.told, g.answersAreWhole, g.isSecretive, sum)
		if !sum.reaches(g) {
			t.Errorf("not reached: %+v", g)
		}
	}
}

// result is what is compared with a goal.
type result struct{ overLC, overRR, mean, err, hit, soon, loads float64 }

func (r *result) add(c fleettest.Comparison, share float64) {
	r.overLC += share * c.OverLC()
	r.overRR += share * c.OverRR()
	r.mean += share * c.LeastTime.Mean
	r.err += share * c.LeastTime.EstimateError
	r.hit += share * c.LeastTime.Hit
	r.soon += share * c.LeastTime.Soon
	r.loads += share * float64(c.LeastTime.Loads)
}

func (r result) reaches(g goal) bool {
	atMost := func(is, most float64) bool { return most == 0 || is <= most }
	return atMost(r.overLC, g.overLC) && atMost(r.overRR, g.overRR) && atMost(r.mean, g.mean) && atMost(r.err, g.err) &&
		r.hit >= g.hit && r.soon >= g.soon && atMost(r.loads, float64(g.loads))
}

func (r result) String() string {
	return fmt.Sprintf("mean %.3f, %.2f of LC, %.2f of RR, hits %.1f %%, within 2 s %.1f %%, error %.0f %%, loads %g",
		r.mean, r.overLC, r.overRR, 100*r.hit, 100*r.soon, 100*r.err, r.loads)
}

// TestModelsOfADayAreSeldomLoaded lets ten models be used for some days on three hosts with
// room for two each, and compares how often they are loaded with the best plan that knows
// what will come.
func TestModelsOfADayAreSeldomLoaded(t *testing.T) {
	t.Parallel()
	const days = 3
	for _, c := range []struct {
		name     string
		told     float64
		gateways int
		share    float64
		isFree   bool    // nobody says for how many models there is room
		most     float64 // loads beside those of the best plan
	}{
		{"one gateway", 5, 1, 0, false, 1.3},
		{"one to which engines tell nothing", 0, 1, 0, false, 1.3},
		{"one that is not told for how many models there is room", 2, 1, 0, true, 1.7},
		{"three that tell each other", 5, 3, 1, false, 1.3},
		{"three that do not know what the others use", 5, 3, 0, false, 1.7},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run := scenario(t, "tenmodels")
			run.Told, run.Gateways, run.Share, run.Engines.Boundless = c.told, c.gateways, c.share, c.isFree
			least, loads := 0, 0
			for day := range uint64(days) {
				run.Requests, run.New = fleettest.Day(day, 1), fleettest.NewLeastTime
				least += fleettest.LeastLoads(run.Requests, run.Engines.Room*run.Engines.Number)
				figures := run.Do()
				if loads += figures.Loads; figures.Requests != len(run.Requests) {
					t.Errorf("%d requests of %d were answered", figures.Requests, len(run.Requests))
				}
			}
			t.Logf("%d loads, %.2f of the %d of the best plan", loads, float64(loads)/float64(least), least)
			if float64(loads) > c.most*float64(least) {
				t.Errorf("models were loaded %d times, by the best plan %d", loads, least)
			}
		})
	}
}

// TestBestPlanLoadsNoMoreThanItMust checks the plan with which others are compared.
func TestBestPlanLoadsNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	for models, want := range map[string]int{"": 0, "a": 1, "aaaa": 1, "ababab": 2, "abcabc": 4, "abcdab": 5, "abcbcbca": 4} {
		var requests []*fleettest.Request
		for _, m := range models {
			requests = append(requests, &fleettest.Request{Model: string(m)})
		}
		if loads := fleettest.LeastLoads(requests, 2); loads != want {
			t.Errorf("%s: %d loads, want %d", models, loads, want)
		}
	}
}

// TestLiesOfEnginesChangeLittle lets engines tell queues that cannot be or are not there.
func TestLiesOfEnginesChangeLittle(t *testing.T) {
	t.Parallel()
	with := func(lie func(engine int, told fleet.Told) fleet.Told) float64 {
		run := scenario(t, "trace")
		run.Until, run.Told = 1200, 2
		run.New = func(engines fleettest.Engines, gateway int, rng *rand.Rand) fleettest.Gateway {
			g := fleettest.NewLeastTime(engines, gateway, rng).(*fleettest.LeastTime)
			g.Lie = lie
			return g
		}
		return run.Do().Mean
	}
	truth := with(nil)
	all := func(told fleet.Told) func(int, fleet.Told) fleet.Told {
		return func(int, fleet.Told) fleet.Told { return told }
	}
	for name, lie := range map[string]func(int, fleet.Told) fleet.Told{
		"NaN":             all(fleet.Told{Waiting: math.NaN(), Running: math.NaN(), Used: math.NaN(), Capacity: math.NaN()}),
		"negative":        all(fleet.Told{Waiting: -5, Running: -5, Used: -5, Capacity: -5}),
		"10^18":           all(fleet.Told{Waiting: 1e18, Running: 1e18, Used: 1e18, Capacity: 1e18}),
		"infinite":        all(fleet.Told{Waiting: math.Inf(1), Running: math.Inf(-1), Used: math.Inf(1), Capacity: math.Inf(1)}),
		"always idle":     all(fleet.Told{}),
		"all always full": all(fleet.Told{Waiting: 1000}),
		"one always full": func(engine int, told fleet.Told) fleet.Told {
			told.Waiting += float64(1000 * (1 - min(engine, 1)))
			return told
		},
		"another's queues": func(engine int, told fleet.Told) fleet.Told { told.Waiting = float64(engine % 3 * 10); return told },
	} {
		mean := with(lie)
		t.Logf("%s: %.3f, with the truth %.3f", name, mean, truth)
		if mean > 1.1*truth {
			t.Errorf("%s: the mean is %.3f, with the truth %.3f", name, mean, truth)
		}
	}
}

// TestSlowEngineIsSpared lets one engine be ten times slower than the others.
func TestSlowEngineIsSpared(t *testing.T) {
	t.Parallel()
	run := scenario(t, "same")
	run.Engines.Slow = map[int]float64{0: 10}
	run.Until = 300
	compared := fleettest.Compare(run)
	if compared.OverLC() > 1 {
		t.Errorf("the mean is %.2f of that of least connections", compared.OverLC())
	}
}

// TestMixedEnginesAreNearTheOracle: engines that differ fourfold and tenfold, at every length and
// batch, are used nearly as well as by a policy that knows every speed, after five minutes of
// learning; and much better than by counting connections from the first request on.
func TestMixedEnginesAreNearTheOracle(t *testing.T) {
	t.Parallel()
	for _, s := range fleettest.Scenarios(fleettest.Conversations) {
		if s.Engines.Kinds == nil {
			continue
		}
		run := fleettest.Run{Engines: s.Engines, Requests: s.Requests(), Until: s.Until, Seed: 1}
		compared := fleettest.Baselines(run)
		run.New = fleettest.NewLeastTime
		compared.LeastTime = run.Do()
		run.New = fleettest.NewOracle
		oracle := run.Do()
		near := compared.LeastTime.Learned / oracle.Learned
		t.Logf("%-20s %.3f of LC; %.3f of the oracle, %.3f after five minutes", s.Name, compared.OverLC(),
			compared.LeastTime.Mean/oracle.Mean, near)
		if near > 1.15 || compared.OverLC() > 0.4 {
			t.Errorf("%s: the mean is %.2f of the oracle's and %.2f of that of least connections", s.Name, near, compared.OverLC())
		}
	}
}

// TestRestartedGatewayIsWarmAfterAMinute: a minute after one of three gateways began with
// nothing, as much of prompts is found in caches as if it had not been started anew, because
// the others tell it what they send. One that is alone goes by its own requests.
func TestRestartedGatewayIsWarmAfterAMinute(t *testing.T) {
	t.Parallel()
	const restart, long = 1200.0, 600.0
	hits := func(gateways int, share, at float64) (first, later float64) {
		run := scenario(t, "trace")
		run.Gateways, run.Share, run.Restart, run.New = gateways, share, at, fleettest.NewLeastTime
		run.Until = restart + long
		run.Do()
		var cached, tokens [2]float64
		for _, r := range run.Requests {
			for ; r != nil; r = r.Next {
				after := r.At - restart
				if after < 0 || after >= long {
					continue
				}
				minute := min(int(after/60), 1)
				cached[minute] += float64(r.Cached)
				tokens[minute] += float64(r.Tokens)
			}
		}
		return cached[0] / tokens[0], cached[1] / tokens[1]
	}
	for gateways, least := range map[int]float64{1: 0.85, 3: 0.95} {
		share := float64(min(gateways-1, 1))
		wholeFirst, whole := hits(gateways, share, 0)
		first, later := hits(gateways, share, restart)
		t.Logf("%d gateways: hits in the first minute %.3f of %.3f, in the next nine %.3f of %.3f", gateways, first, wholeFirst, later, whole)
		if later < least*whole {
			t.Errorf("%d gateways: a minute after a restart %.3f of prompts are found in caches, without it %.3f", gateways, later, whole)
		}
	}
}

// TestWholeAnswersEndSooner asks for the least time to the answer on mixed engines, where the time
// to the first token sends answers to engines that write slowly.
func TestWholeAnswersEndSooner(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]float64{"mixed_office": 0.85, "mixed_calm": 0.9, "mixed_aside_office": 0.85} {
		run := scenario(t, name)
		run.New = fleettest.NewLeastTime
		first := run.Do()
		run.New = fleettest.NewLeastAnswer
		whole := run.Do()
		t.Logf("%s: answers end after %.2f s, by the first token after %.2f s", name, whole.Answer, first.Answer)
		if whole.Answer > most*first.Answer {
			t.Errorf("%s: answers end after %.2f s, by the first token after %.2f s", name, whole.Answer, first.Answer)
		}
	}
}
