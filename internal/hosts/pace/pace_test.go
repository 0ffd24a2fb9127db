package pace

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// machine is a model of an engine in virtual time: calls wait for one of its slots, are read,
// and are answered at a pace that depends on how many there are.
type machine struct {
	slots  int                     // 0 for any number
	pace   func(calls int) float64 // seconds per token
	read   float64                 // seconds until the first token
	answer func(*rand.Rand) int    // tokens of an answer
	plain  bool                    // answers come whole
	jobs   []*job
	random *rand.Rand
}

type job struct {
	began, read, wrote float64
	tokens             int
}

// run sends as many calls as the controller allows, of so many clients that ask again at
// once, and returns the throughput and the time per token from a moment on. A fixed number
// takes the place of the controller where there is none.
func (m *machine) run(c *Controller, fixed, clients int, from, until float64, at func(now float64, limit int)) (throughput, perToken float64) {
	const dt = 0.02
	epoch := time.Unix(0, 0)
	var written, callTime float64
	for now := 0.0; now < until; now += dt {
		clock := epoch.Add(time.Duration(now * float64(time.Second)))
		limit := fixed
		if c != nil {
			limit = c.Limit()
		}
		if at != nil {
			at(now, limit)
		}
		for len(m.jobs) < min(limit, clients) {
			m.jobs = append(m.jobs, &job{began: now, tokens: m.answer(m.random)})
			if c != nil {
				c.Begin(!m.plain, clock)
			}
		}
		served := m.jobs
		if m.slots > 0 {
			served = served[:min(m.slots, len(served))]
		}
		pace := m.pace(len(served))
		for _, j := range served {
			if j.read < m.read {
				j.read += dt
				continue
			}
			before := int(j.wrote)
			j.wrote = min(j.wrote+dt/pace, float64(j.tokens))
			for range int(j.wrote) - before {
				if now >= from {
					written++
				}
				if c != nil && !m.plain {
					c.eventAt(clock)
				}
			}
		}
		if now >= from {
			callTime += dt * float64(len(m.jobs))
		}
		kept := m.jobs[:0]
		for _, j := range m.jobs {
			if j.wrote < float64(j.tokens) {
				kept = append(kept, j)
			} else if c != nil {
				c.End(Call{IsStream: !m.plain, Took: time.Duration((now - j.began) * float64(time.Second)), Tokens: int64(j.tokens), Events: int64(j.tokens)}, clock)
			}
		}
		m.jobs = kept
	}
	return written / (until - from), callTime / max(written, 1)
}

// score is what a controller climbs: throughput, and the time per token half as much.
func score(throughput, perToken float64) float64 { return throughput / math.Sqrt(perToken) }

func lengths(r *rand.Rand) int { return 20 + r.IntN(200) }

// knee is an engine that answers so many at full pace, and shares what it can do beyond.
func knee(most int, pace float64) func(int) float64 {
	return func(calls int) float64 { return pace * max(1, float64(calls)/float64(most)) }
}

// thrashing is one that can do less and less beyond that.
func thrashing(most int, pace float64) func(int) float64 {
	return func(calls int) float64 {
		over := max(0, float64(calls-most)/float64(most))
		return pace * max(1, float64(calls)/float64(most)) * (1 + over)
	}
}

// crowded is one where each call makes all a little slower.
func crowded(each, pace float64) func(int) float64 {
	return func(calls int) float64 { return pace * (1 + each*float64(calls-1)) }
}

func steady(pace float64) func(int) float64 { return func(int) float64 { return pace } }

func machines() map[string]machine {
	short := func(r *rand.Rand) int { return 5 + r.IntN(20) }
	return map[string]machine{
		"1 slot":                 {slots: 1, pace: steady(0.02), read: 0.1, answer: lengths},
		"4 slots":                {slots: 4, pace: steady(0.02), read: 0.1, answer: lengths},
		"16 slots":               {slots: 16, pace: steady(0.03), read: 0.2, answer: lengths},
		"a batch of 8":           {pace: knee(8, 0.02), read: 0.1, answer: lengths},
		"a batch of 48":          {pace: knee(48, 0.025), read: 0.2, answer: lengths},
		"thrashes beyond 6":      {pace: thrashing(6, 0.02), read: 0.1, answer: lengths},
		"thrashes beyond 24":     {pace: thrashing(24, 0.02), read: 0.1, answer: lengths},
		"a crowd":                {pace: crowded(0.1, 0.02), read: 0.1, answer: lengths},
		"whole answers, 8 slots": {slots: 8, pace: steady(0.02), read: 0.04, answer: short, plain: true},
	}
}

func (m machine) fresh(seed uint64) *machine {
	m.jobs, m.random = nil, rand.New(rand.NewPCG(seed, 2))
	return &m
}

// best returns the fixed number of slots with the best score.
func (m machine) best(clients int) (slots int, found, throughput float64) {
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 56, 64, 80} {
		x, t := m.fresh(1).run(nil, n, clients, 10, 60, nil)
		if s := score(x, t); s > found {
			slots, found, throughput = n, s, x
		}
	}
	return slots, found, throughput
}

// On engines of different capacities, what is learned is within 15 % of the best fixed
// number, which nobody has told it.
func TestSlotsAreWithinFifteenPercentOfTheBestFixedNumber(t *testing.T) {
	t.Parallel()
	for name, m := range machines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slots, best, most := m.best(200)
			worst := math.Inf(1)
			for seed := range uint64(4) {
				c := New()
				x, per := m.fresh(seed).run(c, 0, 200, 40, 160, nil)
				worst = min(worst, score(x, per)/best)
				if got := score(x, per) / best; got < 0.85 {
					t.Errorf("seed %d: %.0f %% of the best, which is %d slots; throughput %.0f %%, %s", seed, 100*got, slots, 100*x/most, c.State().Why)
				}
			}
			t.Logf("best fixed %d slots, learned: at least %.0f %% of its score", slots, 100*worst)
		})
	}
}

// A change of what the engine can do is followed within 30 seconds: from then on it is within
// 15 % of the best number for the engine as it is now.
func TestAChangeOfCapacityIsFollowedWithinThirtySeconds(t *testing.T) {
	t.Parallel()
	for _, change := range [][2]int{{16, 4}, {4, 16}, {8, 2}, {6, 24}} {
		before := machine{slots: change[0], pace: steady(0.02), read: 0.1, answer: lengths}
		after := before
		after.slots = change[1]
		slots, best, _ := after.best(200)
		for seed := range uint64(4) {
			m, c := before.fresh(seed), New()
			x, per := m.run(c, 0, 200, 90, 150, func(now float64, _ int) {
				if now > 60 {
					m.slots = change[1]
				}
			})
			if got := score(x, per) / best; got < 0.85 {
				t.Errorf("%d to %d slots, seed %d: %.0f %% of the best, which is %d; %s", change[0], change[1], seed, 100*got, slots, c.State().Why)
			}
		}
	}
	// An engine that becomes slower as a whole keeps its slots.
	slow := machine{slots: 8, pace: steady(0.05), read: 0.1, answer: lengths}
	_, best, _ := slow.best(200)
	for seed := range uint64(4) {
		m, c := (machine{slots: 8, pace: steady(0.02), read: 0.1, answer: lengths}).fresh(seed), New()
		x, per := m.run(c, 0, 200, 90, 150, func(now float64, _ int) {
			if now > 60 {
				m.pace = steady(0.05)
			}
		})
		if got := score(x, per) / best; got < 0.85 {
			t.Errorf("seed %d: %.0f %% of the best of an engine that became slower; %s", seed, 100*got, c.State().Why)
		}
	}
}

// Whatever happens, the slots stay within their bounds, change by no more than a factor of
// three at a time, and come back.
func TestSlotsStayWithinTheirBoundsAndComeBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 3))
		m, c := (machine{slots: 8, pace: steady(0.02), read: 0.1, answer: lengths}).fresh(seed), New()
		last := c.Limit()
		x, _ := m.run(c, 0, 100, 100, 160, func(now float64, limit int) {
			if limit < Least || limit > Most || limit > 3*last+1 {
				t.Fatalf("seed %d: %d slots after %d", seed, limit, last)
			}
			last = limit
			switch {
			case now > 60:
				m.slots, m.pace, m.read = 8, steady(0.02), 0.1
			case random.IntN(200) == 0:
				m.slots, m.pace, m.read = 1+random.IntN(40), steady(0.001+random.Float64()/5), random.Float64()
			case random.IntN(500) == 0:
				c.Overloaded(time.Unix(0, int64(now*1e9)))
			}
		})
		if want := 8 / 0.02; x < 0.7*want {
			t.Errorf("seed %d: %.0f tokens a second after the storm, want %.0f; %s", seed, x, want, c.State().Why)
		}
	}
}

// Slots that nobody needs are not learned to be more or fewer.
func TestSlotsStayWhereNobodyNeedsThem(t *testing.T) {
	t.Parallel()
	m, c := (machine{slots: 16, pace: steady(0.02), read: 0.1, answer: lengths}).fresh(1), New()
	m.run(c, 0, 100, 0, 60, nil)
	learned := c.State().Slots
	m.jobs = nil
	idle := New()
	*idle = Controller{base: learned, next: 1, factor: step, perEvent: 1}
	idle.limit.Store(int64(learned))
	m.run(idle, 0, 2, 0, 120, nil)
	if got := idle.Limit(); got != learned {
		t.Errorf("%d slots after two minutes with two calls, %d before", got, learned)
	}
}

// What was learned is said in a sentence.
// An engine that serves eight calls at a time without delay gets at least two thirds of them,
// although all its calls begin and end at the same moments.
func TestSlotsGrowWithCallsThatEndTogether(t *testing.T) {
	for name, isRefused := range map[string]bool{"from the start": false, "after a refusal": true} {
		t.Run(name, func(t *testing.T) {
			const clients, tokens, fits = 24, 10, 8
			c, now := New(), time.Now()
			if isRefused {
				c.Begin(false, now)
				c.Overloaded(now)
				c.End(Call{}, now)
			}
			for until := now.Add(2 * time.Minute); now.Before(until); now = now.Add(time.Millisecond) {
				calls := min(c.Limit(), clients)
				took := 100 * time.Millisecond * time.Duration(max(calls, fits)) / fits
				for range calls {
					c.Begin(false, now)
				}
				now = now.Add(took)
				for range calls {
					c.End(Call{Took: took, Tokens: tokens}, now)
				}
			}
			if got := c.Limit(); got < fits*2/3 || got > fits*2 {
				t.Errorf("got %d slots, want about %d", got, fits)
			}
		})
	}
}

func TestWhyThereAreSoManySlots(t *testing.T) {
	t.Parallel()
	c := New()
	if got, want := c.State().Why.String(), "2 slots to begin with: no time per token has been measured yet"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.base, c.measured, c.above = 7, sample{7, 0.03}, rejected{9, sample{9, 0.041}, sample{7, 0.03}}
	if got, want := c.State().Why.String(), "7 slots, at 30 ms per token: with 9 it was 41 ms in place of 30 ms, which is too much for what more was done"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// eventAt is Event at a time of the test.
func (c *Controller) eventAt(now time.Time) {
	c.tokens.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(now)
}
