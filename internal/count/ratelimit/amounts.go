package ratelimit

import (
	"math"
	"sync"
	"time"
)

// Window limits an amount in every stretch of time of one length, in this process alone.
// All methods may be called at the same time.
type Window struct {
	start time.Time

	mu     sync.Mutex
	rules  rules
	window window
}

// amountMarks makes a Window forget with an accuracy of a second in a minute.
const amountMarks = 62

// NewWindow returns a window of a length that allows nothing before Resize.
func NewWindow(length time.Duration, now time.Time) *Window {
	return &Window{start: now, rules: windowRules(int64(length), amountMarks)}
}

// Resize sets the capacity; permits taken before stay taken.
func (w *Window) Resize(capacity int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules.capacity = int(min(capacity, math.MaxInt))
}

// Take takes an amount if the capacity leaves room for it. An amount above the whole
// capacity is taken when nothing else counts.
func (w *Window) Take(amount int, now time.Time) Decision {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.at(now)
	needed := min(amount, w.rules.capacity)
	isAllowed := needed <= w.rules.capacity-w.window.total
	if isAllowed {
		w.window.addMany(&w.rules, at, amount)
	}
	return w.decision(isAllowed, needed, at)
}

// Peek returns the answer that Take of 1 would get.
func (w *Window) Peek(now time.Time) Decision {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.at(now)
	return w.decision(w.window.total < w.rules.capacity, 1, at)
}

// Settle corrects the amount taken at a time. More is added now, and is never refused:
// the use has already happened. Less frees a part of the amount taken then.
func (w *Window) Settle(taken time.Time, more int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.at(now)
	if more < 0 {
		w.window.giveBack(&w.rules, int64(taken.Sub(w.start)), at, -more)
	} else if more > 0 {
		w.window.addMany(&w.rules, at, more)
	}
}

// at returns a time as the window sees it, and forgets the permits that are too old
// then.
func (w *Window) at(now time.Time) int64 {
	return w.window.forget(&w.rules, max(0, int64(now.Sub(w.start))))
}

func (w *Window) decision(isAllowed bool, needed int, at int64) Decision {
	d := Decision{
		Limited: true, Allowed: isAllowed,
		Limit: w.rules.capacity, Remaining: max(0, w.rules.capacity-w.window.total),
	}
	if w.window.used > 0 {
		d.ResetAfter = time.Duration(w.rules.window - (at - w.window.newest().latest))
	}
	if !isAllowed {
		d.RetryAfter = max(time.Millisecond, w.window.untilBelow(&w.rules, at, w.rules.capacity-needed+1))
	}
	return d
}
