package engine

import (
	"sync"
	"time"
)

// Live is an engine in real time. It keeps its times exactly, however late it is woken:
// on a busy machine first tokens are noticed late, but that makes no engine slower.
type Live struct {
	mu     sync.Mutex
	engine *Engine
	epoch  time.Time // from where the engine counts
	began  time.Time // when it was started, or started anew
	alarm  *time.Timer
}

// NewLive returns an engine in real time. Close ends it.
func NewLive(spec Spec) *Live {
	now := time.Now()
	l := &Live{engine: New(spec), epoch: now, began: now}
	l.alarm = time.AfterFunc(time.Hour, l.wake)
	return l
}

// Close stops the engine. First tokens that have not come will not.
func (l *Live) Close() { l.alarm.Stop() }

func (l *Live) now() float64 { return time.Since(l.epoch).Seconds() }

func (l *Live) time(at float64) time.Time {
	return l.epoch.Add(time.Duration(at * float64(time.Second)))
}

// wake lets all due events happen, each at its time.
func (l *Live) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.catchUp()
	l.rest()
}

func (l *Live) catchUp() {
	now := l.now()
	for j, at := l.engine.Next(); j != nil && at <= now; j, at = l.engine.Next() {
		j = l.engine.First()
		if j == nil {
			continue // its prefill is still to come
		}
		close(j.ready)
		if j.fault == Dies {
			l.restart()
		}
	}
	l.engine.expire(now)
}

// rest sleeps until the next first token. It always sleeps a little: an event that is due
// in less than the clock can show would keep a loop busy for ever on a clock that does
// not move.
func (l *Live) rest() {
	if j, at := l.engine.Next(); j != nil {
		l.alarm.Reset(max(time.Until(l.time(at)), 1))
	}
}

// do does something with the engine as it is now.
func (l *Live) do(what func(e *Engine, now float64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.catchUp()
	what(l.engine, l.now())
	l.rest()
}

// Add gives the engine a request, and returns a channel that is closed at its first token,
// or when the engine loses it. End must follow.
func (l *Live) Add(j *Job) <-chan struct{} {
	j.ready = make(chan struct{})
	l.do(func(e *Engine, now float64) { e.Add(j, now) })
	return j.ready
}

// End says that an answer with so many tokens is complete, or that the client of the
// request has left.
func (l *Live) End(j *Job, outputs int) {
	l.do(func(e *Engine, now float64) { e.End(j, outputs, now) })
}

// Due returns when the token of this number comes, of an answer that has begun; the first
// is 0. It returns false if the engine has lost the request.
func (l *Live) Due(j *Job, token int) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.time(j.first + float64(token)*l.engine.Pace()), j.stage == isAnswered
}

// Slow makes the engine slower by a factor, from the next prefill on.
func (l *Live) Slow(factor float64) { l.do(func(e *Engine, _ float64) { e.Slow(factor) }) }

// Restart takes everything out of the engine. Requests that wait for a first token are
// woken.
func (l *Live) Restart() { l.do(func(*Engine, float64) { l.restart() }) }

func (l *Live) restart() {
	waiting, _ := l.engine.Empty()
	for _, j := range waiting {
		close(j.ready)
	}
	l.began = time.Now()
}

// SetFault chooses the fault of model loads from now on.
func (l *Live) SetFault(f Fault) { l.do(func(e *Engine, _ float64) { e.SetFault(f) }) }

// Retire takes a model out of memory when no request uses it any more.
func (l *Live) Retire(model string) {
	l.do(func(e *Engine, now float64) {
		e.Retire(model)
		e.expire(now + soon)
	})
}

// Unload takes a model out of memory at once, and reports whether it was there.
func (l *Live) Unload(model string) (was bool) {
	l.do(func(e *Engine, now float64) {
		var lost []*Job
		lost, was = e.Unload(model, now)
		for _, j := range lost {
			close(j.ready)
		}
	})
	return was
}

// Sleep puts the engine to sleep: see Engine.Sleep.
func (l *Live) Sleep(level int) { l.do(func(e *Engine, _ float64) { e.Sleep(level) }) }

// State is an engine's report about itself.
type State struct {
	Totals
	Spec     Spec
	Waiting  int // in the queue
	Reading  int // with a running prefill
	Decoding int
	Used     float64 // share of the cache
	Models   []string
	Loading  []string // models of Models that are not there yet
	IsAsleep bool
	Fault    Fault
	Began    time.Time
}

// State returns the engine's report about itself.
func (l *Live) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.catchUp()
	e := l.engine
	return State{
		Totals: e.Totals, Spec: e.spec, Waiting: len(e.queue) + len(e.loading), Reading: len(e.running),
		Decoding: len(e.decoding),
		Used:     e.Used(), Models: e.Models(), Loading: e.Loading(), IsAsleep: e.isAsleep(), Fault: e.fault,
		Began: l.began,
	}
}

// Pace returns the time between two tokens of an answer.
func (l *Live) Pace() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.engine.Pace() * float64(time.Second))
}
