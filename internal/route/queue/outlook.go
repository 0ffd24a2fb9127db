package queue

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Outlook is the expectation of a request that waits, or would.
type Outlook struct {
	Class schema.Class
	// Position is the number of the turn that it has if nobody more urgent comes: 1 is the
	// next. It is 0 where the request did not have to wait.
	Position int
	// Wait is the expected wait by the latest pace of turns, 0 where that is not known.
	Wait time.Duration
}

// Lengths is the number of waiting requests by class; Spare does not count.
type Lengths [schema.ClassCount]int

// Lengths returns how many requests wait, including the ones that are held.
func (q *Queue) Lengths() (n Lengths) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for class := schema.Batch; class <= schema.Interactive; class++ {
		n[class] = q.lanes[class].waiting + q.lanes[class].held
	}
	return n
}

// Outlook returns the outlook for a request of a caller that came now.
func (q *Queue) Outlook(caller string, class schema.Class) Outlook {
	q.mu.Lock()
	defer q.mu.Unlock()
	class = class.Or(schema.Normal)
	own := 0
	if c := q.lanes[class].callers[caller]; c != nil {
		own = len(c.waiters)
	}
	return q.outlook(caller, class, own, time.Now())
}

// outlook returns the outlook for a request behind a number of its caller's own.
func (q *Queue) outlook(caller string, class schema.Class, own int, now time.Time) Outlook {
	inLane, urgent := q.lanes[class].turnsBefore(caller, own)+1, 0
	for c := int(class) + 1; c < len(q.lanes); c++ {
		urgent += q.lanes[c].waiting
	}
	o := Outlook{Class: class, Position: urgent + inLane}
	o.Wait = max(time.Duration(o.Position)*q.pace.interval, time.Duration(inLane)*q.lanes[class].pace.lately(now))
	return o
}

// turnsBefore returns how many turns come before a request, its caller's own included,
// given how many of its caller's are before it.
func (l *lane) turnsBefore(caller string, own int) int {
	turns, round := own, own+1
	if l.next == nil {
		return turns
	}
	for c := l.next; ; {
		if c.caller == caller {
			round = own // those behind have one turn less
		} else {
			turns += min(len(c.waiters), round)
		}
		if c = c.next; c == l.next {
			return turns
		}
	}
}

const (
	// paceWeight is the weight of the latest turn in the mean pace of turns.
	paceWeight = 0.1
	// paceMemory is how long the pace of a class counts: the other callers of that time may
	// not come now.
	paceMemory = time.Minute
)

// pace is how fast turns come while requests wait.
type pace struct {
	interval time.Duration // between two of them; 0 before that is known
	last     time.Time     // zero where nobody waited since
	known    time.Time     // when the interval was learned last
}

// turn notes that a turn was used, and whether others wait for the next one.
func (p *pace) turn(now time.Time, isWanted bool) {
	if !p.last.IsZero() {
		took := now.Sub(p.last)
		if p.known.IsZero() {
			p.interval = took
		} else {
			p.interval += time.Duration(paceWeight * float64(took-p.interval))
		}
		p.known = now
	}
	if p.last = now; !isWanted {
		p.last = time.Time{}
	}
}

// lately returns the interval if it was learned a short while ago, else 0.
func (p *pace) lately(now time.Time) time.Duration {
	if now.Sub(p.known) > paceMemory {
		return 0
	}
	return p.interval
}
