// Package pace learns how many calls an engine should get at a time, from the time that it
// takes for a token.
//
// A Controller climbs: it tries a few slots more or less than the best number it knows, and
// keeps the number that is better by a measure of both throughput and time per token. The
// throughput is the calls that run divided by the time per token (Little's law): nothing else
// has to be measured, and how long answers are does not matter. There is no memory of how
// fast the idle engine was, as limits by gradient (Vegas and its kin) have: an engine that
// becomes slower as a whole would be starved by that.
package pace

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

const (
	// Least is how many slots there are at least.
	Least = 1
	// Most is how many there are at most.
	Most = 1000
	// first is how many there are at the beginning.
	first = 2
	// patience is how many per cent longer the time per token may become for one per cent
	// more throughput.
	patience = 2.0
	// window is the least time of a measurement. It needs leastTokens tokens and, where
	// answers are not streamed, leastPlain answers.
	window      = 2 * time.Second
	leastTokens = 30
	leastPlain  = 4
	// settling is the wait between a change of the slots and the measurement of its effect,
	// and longest its limit, where calls take longer.
	settling = time.Second
	longest  = 10 * time.Second
	// holds is how many windows pass between two tries.
	holds = 5
	// step is the factor of a change of the slots in a try; a try that went well is followed
	// by a larger one, up to widest.
	step, widest = 1.2, 2.0
	// deepest is the largest factor of a reduction in a try, where the time per token has
	// grown by as much.
	deepest = 3.0
	// margin is the least gain that a try needs to be kept.
	margin = 0.02
	// busy is the part of the slots that has to be in use for a measurement to say anything.
	busy = 0.8
	// slower and faster are changes of the time per token that no try explains: the engine
	// itself has changed.
	slower, faster = 1.3, 0.75
)

// Controller learns the slots of one instance. A nil Controller learns nothing.
type Controller struct {
	limit  atomic.Int64
	tokens atomic.Int64 // of streams, in the window, counted as events
	events atomic.Int64 // of streams, ever

	mu      sync.Mutex
	clock   time.Time // until when the sums below are made
	running int       // calls
	streams int       // of these
	full    bool      // all slots were taken at some time in the window

	// The window: its begin, the seconds of calls and streams in it, and the seconds, the
	// tokens and the number of plain answers that ended in it.
	began                  time.Time
	callTime, streamTime   float64
	plainTime, plainTokens float64
	plainCalls             int
	meanPlain              float64 // seconds of a plain answer
	perEvent               float64 // tokens of an event, learned
	settled                time.Time
	known                  sample // of base; its calls are 0 where it is not known
	base                   int    // the best number of slots so far
	trying                 int    // the direction of a try: 1, -1, or 0 for none
	next                   int    // the direction of the next try
	factor                 float64
	held                   int
	isStarting             bool
	above, below           rejected // the last tries that did not help
	measured               sample
	lastOverload           time.Time
}

// sample is the result of a window: how many calls ran, and the seconds that each needed
// for a token.
type sample struct{ calls, perToken float64 }

// rejected is a number of slots that was tried and did not help.
type rejected struct {
	slots int
	sample
	known sample
}

// New returns a controller that has learned nothing.
func New() *Controller {
	c := &Controller{base: first, next: 1, factor: widest, isStarting: true, perEvent: 1}
	c.limit.Store(first)
	return c
}

// Limit returns how many calls the engine should get at a time.
func (c *Controller) Limit() int { return int(c.limit.Load()) }

// Begin says that a call begins, with an answer that is streamed or comes whole.
func (c *Controller) Begin(isStream bool, now time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(now)
	c.running++
	if isStream {
		c.streams++
	}
	c.full = c.full || c.running >= c.Limit()
}

// every is the number of events of streams between two looks at the end of the
// window.
const every = 16

// Event says that an event with content of a stream came.
func (c *Controller) Event() {
	if c == nil {
		return
	}
	c.tokens.Add(1)
	if c.events.Add(1)%every == 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.advance(time.Now())
	}
}

// Call describes a call that has ended.
type Call struct {
	IsStream bool
	// Took is how long it ran, and Tokens how many it used; 0 where that is not known or does
	// not count, because the call failed.
	Took   time.Duration
	Tokens int64
	Events int64 // of a stream
}

// End says that a call has ended.
func (c *Controller) End(call Call, now time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(now)
	c.running--
	if call.IsStream {
		c.streams--
		if call.Tokens > 0 && call.Events > 0 {
			c.perEvent += 0.1 * (float64(call.Tokens)/float64(call.Events) - c.perEvent)
		} else if call.Tokens > 0 { // it came whole
			c.tokens.Add(call.Tokens)
		}
		return
	}
	if call.Tokens > 0 {
		took := call.Took.Seconds()
		c.plainTime += took
		c.plainTokens += float64(call.Tokens)
		c.plainCalls++
		if c.meanPlain == 0 {
			c.meanPlain = took
		}
		c.meanPlain += 0.1 * (took - c.meanPlain)
	}
}

// Overloaded says that the engine refused a call because it has too much to do.
func (c *Controller) Overloaded(now time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.lastOverload) < window {
		return // one burst of refusals is one sign
	}
	c.lastOverload = now
	c.base = min(c.base, max(Least, c.running*3/4))
	c.known, c.isStarting = sample{}, false
	c.hold(now)
}

// advance adds up the time until now, and decides when the window is over. The mutex is
// locked.
func (c *Controller) advance(now time.Time) {
	if c.running == 0 {
		// Short calls of equal length end together, so an idle moment does not end the window;
		// its time does not count.
		if idle := now.Sub(c.clock); idle < window {
			c.began = c.began.Add(idle)
		} else {
			c.restart(now)
		}
		c.clock = now
		return
	}
	if passed := now.Sub(c.clock).Seconds(); passed > 0 {
		c.callTime += passed * float64(c.running)
		c.streamTime += passed * float64(c.streams)
		c.clock = now
	}
	if now.Before(c.settled) || c.running > c.Limit() && now.Before(c.settled.Add(longest)) {
		c.restart(now) // the slots have changed, and calls that are too many have to end
		return
	}
	if now.Sub(c.began) < window {
		return
	}
	fromStreams := float64(c.tokens.Load()) * c.perEvent
	tokens := fromStreams + c.plainTokens
	if tokens < leastTokens || fromStreams < leastTokens && c.plainCalls < max(leastPlain, c.Limit()) {
		return
	}
	seen := sample{c.callTime / now.Sub(c.began).Seconds(), (c.streamTime + c.plainTime) / tokens}
	if c.plainTime > c.streamTime { // half of them ran before the window
		seen.calls = max(seen.calls, float64(min(c.running, c.Limit())))
	}
	isBusy := c.full && seen.calls >= busy*float64(c.Limit())
	c.measured = seen
	c.restart(now)
	c.decide(seen, isBusy, now)
}

// restart begins a window.
func (c *Controller) restart(now time.Time) {
	c.began, c.callTime, c.streamTime, c.plainTime, c.plainTokens, c.plainCalls = now, 0, 0, 0, 0, 0
	c.full = c.running >= c.Limit()
	c.tokens.Store(0)
}

// decide draws the conclusion from a window.
func (c *Controller) decide(seen sample, isBusy bool, now time.Time) {
	switch {
	case !isBusy:
		if c.trying > 0 { // there are too few calls to tell
			c.hold(now)
		}
		return
	case c.known.calls == 0:
		c.known = seen
		if c.isStarting {
			c.try(1, now)
		}
		return
	case c.trying == 0:
		c.keep(seen, now)
		return
	}
	more, longer := math.Log(seen.calls/c.known.calls), math.Log(seen.perToken/c.known.perToken)
	if math.Abs(longer) > 2*math.Abs(more)+0.15 {
		// The try does not explain that: the engine has changed.
		c.base, c.known, c.isStarting = c.Limit(), seen, false
		c.factor = min(max(math.Exp(math.Abs(longer)), step), deepest)
		c.try(direction(longer < 0), now)
		return
	}
	if more-(1+1/patience)*longer > margin {
		c.base, c.known = c.Limit(), seen
		c.factor = min(max(c.factor, step)*step, widest)
		c.try(c.trying, now)
		return
	}
	found := rejected{c.Limit(), seen, c.known}
	if c.trying > 0 {
		c.above = found
	} else {
		c.below = found
	}
	c.next = -c.trying
	c.isStarting = false
	c.hold(now)
}

// keep draws the conclusion from a window at the best number of slots.
func (c *Controller) keep(seen sample, now time.Time) {
	ratio := seen.perToken / c.known.perToken
	isSame := math.Abs(math.Log(seen.calls/c.known.calls)) < 0.2
	switch {
	case isSame && ratio > slower:
		c.known, c.factor = seen, min(ratio, deepest)
		c.try(-1, now)
		return
	case isSame && ratio < faster:
		c.known, c.factor = seen, step*step
		c.try(1, now)
		return
	}
	c.known.calls += 0.3 * (seen.calls - c.known.calls)
	c.known.perToken += 0.3 * (seen.perToken - c.known.perToken)
	if c.held++; c.held >= holds {
		c.factor = step
		c.try(c.next, now)
	}
}

func direction(isUp bool) int {
	if isUp {
		return 1
	}
	return -1
}

// hold goes back to the best number of slots.
func (c *Controller) hold(now time.Time) {
	c.trying, c.held = 0, 0
	c.set(c.base, now)
}

// try changes the slots, to see whether that is better.
func (c *Controller) try(where int, now time.Time) {
	from := c.base
	to := int(math.Round(float64(from) * min(c.factor, widest)))
	if where < 0 {
		to = int(math.Round(float64(from) / c.factor))
	}
	if to == from {
		to += where
	}
	to = min(max(to, Least), Most)
	if to == from { // there is nothing in this direction
		c.next = -where
		c.hold(now)
		return
	}
	c.trying = where
	c.set(to, now)
}

func (c *Controller) set(slots int, now time.Time) {
	if slots == c.Limit() {
		return
	}
	c.limit.Store(int64(slots))
	wait := settling
	if c.streams*2 < c.running { // an answer that comes whole tells of its whole life
		wait = max(wait, min(time.Duration(c.meanPlain*float64(time.Second)), longest))
	}
	c.settled = now.Add(wait)
	c.restart(now)
}

// State is the result of learning so far.
type State struct {
	Slots int
	// PerToken is the time per token in the last window, 0 before the first.
	PerToken time.Duration
	// Why says why the slots have this number.
	Why say.Sentence
}

// State returns the result of learning so far.
func (c *Controller) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return State{Slots: c.Limit(), PerToken: seconds(c.measured.perToken), Why: c.why()}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// why says why the slots have this number.
func (c *Controller) why() say.Sentence {
	slots, measured := c.base, inMs(c.measured.perToken)
	switch {
	case c.measured.calls == 0:
		return say.New("slots.first", "slots", c.Limit())
	case c.trying != 0:
		return say.New("slots.tried", "slots", c.Limit(), "before", c.base, "time", inMs(c.known.perToken))
	case c.above.slots > c.base:
		return say.New("slots.fewer", "slots", slots, "time", measured, "more", c.above.slots, "slow",
			inMs(c.above.perToken), "fast", inMs(c.above.known.perToken))
	case c.below.slots > 0 && c.below.slots < c.base:
		return say.New("slots.more", "slots", slots, "time", measured, "less", c.below.slots, "slow",
			inMs(c.below.perToken), "fast", inMs(c.below.known.perToken))
	}
	return say.New("slots.enough", "slots", slots, "time", measured)
}

func inMs(s float64) string { return fmt.Sprintf("%.3g ms", s*1000) }
