package fleettest

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// Request is one call of a workload.
type Request struct {
	At      float64
	Tokens  int
	Outputs int
	Blocks  []uint64 // its full blocks; equal numbers are equal text with equal text before it
	Model   string
	Session string
	// Next is sent when this one was answered, after a pause.
	Next  *Request
	Pause float64
	// Whole says that the answer comes in one piece.
	Whole bool
	// Text is how many tokens the text has, if Tokens is only a guess of that.
	Text int
	// Cached is how many tokens came from the cache of the engine.
	Cached int

	number  int
	gateway Gateway
	sent    float64
	first   float64 // seconds to the first token from the time it came; NaN without one
	whole   float64 // seconds to the end of the answer
	expects float64 // the gateway's estimate from the time it was sent; NaN without one
}

// text returns how many tokens the text of the request has.
func (r *Request) text() int { return cmp.Or(r.Text, r.Tokens) }

// job returns the request as engines take it.
func (r *Request) job() *engine.Job {
	return &engine.Job{Model: r.Model, Tokens: r.Tokens, Blocks: r.Blocks, Outputs: r.Outputs}
}

// Gateway is a policy at work in a run: it sees its own requests only.
type Gateway interface {
	Choose(r *Request, now float64, up []int) int
	First(r *Request, engine int, now float64)
	End(r *Request, engine int, now float64)
	Lost(engine int)
}

// Sharer is a gateway that exports its knowledge to others, or nil where it has nothing
// new.
type Sharer interface {
	Export(now float64) []byte
	Import(from string, message []byte, now float64)
}

// Listener is a gateway that takes reports of engines.
type Listener interface {
	Tell(engine, waiting, running int, models []string, now float64)
}

// Oracle is a gateway that sees into the engines.
type Oracle interface {
	See(engines []*engine.Engine)
}

// Run is one policy on one workload.
type Run struct {
	Engines  Engines
	Requests []*Request
	// New makes a gateway.
	New      func(engines Engines, gateway int, rng *rand.Rand) Gateway
	Gateways int
	Share    float64 // seconds between two exchanges; 0 is never
	Told     float64 // seconds between two tellings of the engines; 0 is never
	Until    float64 // only requests that come before; 0 is all
	Restart  float64 // when the first gateway is started anew and knows nothing; 0 is never
	Seed     uint64
}

// simulation is the state of a run.
type simulation struct {
	*Run
	rng       *rand.Rand
	engines   []*instance
	gateways  []Gateway
	events    events
	number    int
	exchanged []float64 // when each gateway told the others last
	told      float64
	finished  []*Request
	failed    int
}

// Do replays the workload and returns its figures.
func (run *Run) Do() Figures {
	s := &simulation{Run: run, rng: source(run.Seed, 0)}
	for n := range run.Engines.Number {
		s.engines = append(s.engines, newInstance(&run.Engines, n))
	}
	for n := range max(run.Gateways, 1) {
		g := run.New(run.Engines, n, source(run.Seed+uint64(n), 1))
		if oracle, sees := g.(Oracle); sees {
			oracle.See(s.insides())
		}
		s.gateways = append(s.gateways, g)
		// Gateways export at different times within each interval.
		s.exchanged = append(s.exchanged, run.Share*float64(n)/float64(max(run.Gateways, 1)))
	}
	for _, r := range run.Requests {
		if run.Until == 0 || r.At < run.Until {
			s.at(r.At, func(now float64) { s.arrive(r, now, false) })
		}
	}
	for _, o := range run.Engines.Outages {
		s.at(o.From, func(now float64) { s.die(o.Engine, now) })
		s.at(o.Till, func(float64) { s.engines[o.Engine].up = true })
	}
	for _, turn := range run.Engines.Turns {
		s.at(turn.At, func(float64) { s.engines[turn.Engine].Slow(turn.Slow) })
	}
	if run.Restart > 0 {
		s.at(run.Restart, func(float64) { s.gateways[0] = run.New(run.Engines, 0, source(run.Seed, 2)) })
	}
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		e.do(e.at)
	}
	return s.figures()
}

// insides returns the engines as an oracle sees them.
func (s *simulation) insides() (all []*engine.Engine) {
	for _, i := range s.engines {
		all = append(all, i.Engine)
	}
	return all
}

// at makes something happen at a time.
func (s *simulation) at(t float64, do func(now float64)) int {
	s.number++
	heap.Push(&s.events, event{t, s.number, do})
	return s.number
}

func (s *simulation) arrive(r *Request, now float64, again bool) {
	s.exchange(now)
	var up []int
	for n, e := range s.engines {
		if e.up {
			up = append(up, n)
		}
	}
	if len(up) == 0 {
		s.failed++
		return
	}
	g := s.gateways[0]
	if len(s.gateways) > 1 {
		g = s.gateways[s.rng.IntN(len(s.gateways))]
	}
	if !again {
		r.At, r.number = now, s.number
	}
	r.gateway, r.sent, r.first, r.whole, r.expects = g, now, math.NaN(), math.NaN(), math.NaN()
	chosen := g.Choose(r, now, up)
	job := r.job()
	s.engines[chosen].calls[job] = r
	s.engines[chosen].Add(job, now)
	s.follow(chosen)
}

// follow waits for the next first token of an engine.
func (s *simulation) follow(n int) {
	i := s.engines[n]
	job, at := i.Next()
	if job == nil {
		return
	}
	alarm := s.number + 1
	i.alarm = s.at(at, func(now float64) {
		if i.alarm == alarm {
			s.first(n, now)
		}
	})
}

func (s *simulation) first(n int, now float64) {
	i := s.engines[n]
	job := i.First()
	if job == nil { // a model was loaded
		s.follow(n)
		return
	}
	r := i.calls[job]
	r.first, r.Cached = now-r.At, job.Cached
	if !r.Whole {
		r.gateway.First(r, n, now)
	}
	s.at(now+float64(r.Outputs)*i.Pace(), func(now float64) {
		if i.calls[job] == nil {
			return // the engine died
		}
		delete(i.calls, job)
		i.End(job, r.Outputs, now)
		if s.Engines.Room > 0 || s.Engines.Kinds != nil {
			s.follow(n) // there may be room for another model, or a slot for the next request
		}
		r.whole = now - r.At
		r.gateway.End(r, n, now)
		s.finish(r, now)
	})
	s.follow(n)
}

func (s *simulation) finish(r *Request, now float64) {
	s.finished = append(s.finished, r)
	if r.Next != nil {
		s.at(now+r.Pause, func(now float64) { s.arrive(r.Next, now, false) })
	}
}

// die takes an engine away. Requests without a first token are sent again; answers that
// were being written are cut off.
func (s *simulation) die(n int, now float64) {
	i := s.engines[n]
	waiting, cut := i.Empty()
	calls := i.calls
	i.up, i.alarm, i.cut, i.calls = false, 0, i.cut+len(cut), map[*engine.Job]*Request{}
	for _, g := range s.gateways {
		g.Lost(n)
	}
	for _, job := range cut {
		s.finish(calls[job], now)
	}
	for _, job := range waiting {
		s.arrive(calls[job], now, true)
	}
}

// exchange lets gateways and engines share their knowledge when it is time.
func (s *simulation) exchange(now float64) {
	for n, g := range s.gateways {
		from, shares := g.(Sharer)
		if s.Share == 0 || !shares {
			break
		}
		if now-s.exchanged[n] < s.Share {
			continue
		}
		s.exchanged[n] = now
		message := from.Export(now)
		if message == nil {
			continue
		}
		for m, other := range s.gateways {
			if m != n {
				other.(Sharer).Import(strconv.Itoa(n), message, now)
			}
		}
	}
	if s.Told > 0 && now-s.told >= s.Told {
		s.told = now
		for _, g := range s.gateways {
			listener, listens := g.(Listener)
			for n, e := range s.engines {
				if listens && e.up {
					listener.Tell(n, e.Waiting(), e.Decoding(), e.Models(), now)
				}
			}
		}
	}
}

// event is something that happens at a time; of two at the same time, the one that was
// planned first.
type event struct {
	at     float64
	number int
	do     func(now float64)
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(a, b int) bool {
	return q[a].at < q[b].at || q[a].at == q[b].at && q[a].number < q[b].number
}
func (q events) Swap(a, b int) { q[a], q[b] = q[b], q[a] }

// Push adds an event for container/heap.
func (q *events) Push(e any) { *q = append(*q, e.(event)) }

// Pop removes an event for container/heap.
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// source returns random numbers that are the same in every run.
func source(seed, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream)) //nolint:gosec // a simulation is repeatable, and keeps no secrets
}
