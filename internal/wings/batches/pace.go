package batches

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// pace is the rate of lines to one target, as its backends allow it. The lock of the engine
// guards it.
type pace struct {
	// until is when lines may begin again, why is the reason for the pause, and wait is how
	// long the latest pause was.
	until time.Time
	why   say.Sentence
	wait  time.Duration
	// isDown says that no line was answered since the latest pause began: one at a time
	// tries whether the target is back.
	isDown bool
	// gap is the time between the beginnings of two lines, 0 where no backend has set a
	// limit, and next is when a line may begin because of it.
	gap  time.Duration
	next time.Time
	// paused is when the latest pause began, answered when a line was answered last, and
	// used when one began.
	paused, answered, used time.Time
	// taken counts the answers since a time, which is at most countFor ago.
	taken int
	since time.Time
}

const (
	// Pauses double while no line is answered. Pauses after possibly wasted work of a
	// backend become longer than others, see longestWait.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	// A backend that refuses lines because there are too many gets half as many in a second
	// as before. Each second without a refusal adds a tenth, until the gap between them is
	// too short to matter.
	slower      = 2
	faster      = 0.1
	shortestGap = 2 * time.Millisecond
	firstGap    = time.Second
	longestGap  = time.Minute
	countFor    = 10 * time.Second
	// idleAfter is the time without lines until the pace of a target is forgotten.
	idleAfter = time.Hour
)

// mayBegin reports whether a line may begin now beside the running ones, and otherwise from
// when on, which is zero if it depends on them.
func (p *pace) mayBegin(now time.Time, running int) (ok bool, from time.Time) {
	switch {
	case now.Before(p.until):
		return false, p.until
	case p.isDown:
		return running == 0, time.Time{}
	}
	return !now.Before(p.next), p.next
}

// begin notes that a line begins.
func (p *pace) begin(now time.Time) {
	p.used = now
	if p.gap > 0 {
		p.next = now.Add(p.gap)
	}
}

// answer notes that a backend has answered a line.
func (p *pace) answer(now time.Time) {
	if now.Sub(p.since) > countFor {
		p.since, p.taken = now, 0
	}
	p.taken++
	grown := min(now.Sub(p.answered), time.Second)
	p.answered, p.isDown, p.wait = now, false, 0
	if p.gap = time.Duration(float64(p.gap) / (1 + faster*grown.Seconds())); p.gap < shortestGap {
		p.gap, p.next = 0, time.Time{}
	}
}

// limit notes that a backend refused a line because there are too many of them, and for how
// long it wants none.
func (p *pace) limit(began, now time.Time, asked time.Duration, why say.Sentence) {
	if began.Before(p.paused) { // it was on its way when the pause began
		p.extend(now.Add(asked))
		return
	}
	switch {
	case p.since.IsZero(): // it has answered none yet
		p.gap = max(p.gap, firstGap)
	case p.gap == 0:
		p.gap = slower * max(now.Sub(p.since), time.Second) / time.Duration(p.taken)
	case p.answered.After(p.paused):
		p.gap = slower * p.gap
	}
	p.gap = min(p.gap, longestGap)
	p.pause(now, asked, longestPause, why)
}

// fail notes that a backend is not there, or cannot work now. It reports whether the target
// pauses for that: where another line was answered meanwhile, it does not.
func (p *pace) fail(began, now time.Time, asked, longest time.Duration, why say.Sentence) bool {
	switch {
	case p.answered.After(began):
		return false
	case began.Before(p.paused):
		p.extend(now.Add(asked))
		return true
	}
	p.isDown = true
	p.pause(now, asked, longest, why)
	return true
}

func (p *pace) pause(now time.Time, asked, longest time.Duration, why say.Sentence) {
	p.wait = min(max(2*p.wait, firstPause), longest)
	p.paused, p.until, p.why = now, now.Add(max(p.wait, asked)), why
}

func (p *pace) extend(until time.Time) {
	if until.After(p.until) {
		p.until = until
	}
}

// paceOf returns the pace of a target. The caller has the lock of the engine.
func (e *Engine) paceOf(t target) *pace {
	p := e.paces[t]
	if p == nil {
		p = &pace{used: time.Now()}
		e.paces[t] = p
	}
	return p
}

// forgetPaces forgets the paces of targets that no line goes to any more. The caller has
// the lock of the engine.
func (e *Engine) forgetPaces(now time.Time) {
	for t, p := range e.paces {
		if e.running[t] == 0 && now.Sub(p.used) > idleAfter && !now.Before(p.until) {
			delete(e.paces, t)
		}
	}
}
