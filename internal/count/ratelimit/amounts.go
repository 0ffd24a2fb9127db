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
	bucket bucket
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
	w.rules.burst, w.rules.capacity = capacity, int(min(capacity, math.MaxInt))
}

// Take takes an amount if the capacity leaves room for it. An amount above the whole
// capacity is taken when nothing else counts.
func (w *Window) Take(amount int, now time.Time) Decision { return w.decide(amount, true, now) }

// Peek returns the answer that Take of 1 would get.
func (w *Window) Peek(now time.Time) Decision { return w.decide(1, false, now) }

func (w *Window) decide(amount int, spend bool, now time.Time) (d Decision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bucket.decide(&w.rules, w.sinceStart(now), amount, spend, &d)
	if d.RetryAfter = max(time.Millisecond, d.RetryAfter); d.Allowed {
		d.RetryAfter = 0
	}
	return d
}

// Settle corrects the amount taken at a time. More is added now, and is never refused:
// the use has already happened. Less frees a part of the amount taken then.
func (w *Window) Settle(taken time.Time, more int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.bucket.clock(&w.rules, w.sinceStart(now))
	if more < 0 {
		w.bucket.window.giveBack(&w.rules, int64(taken.Sub(w.start)), at, -more)
	} else if more > 0 {
		w.bucket.window.add(&w.rules, at, more)
	}
}

func (w *Window) sinceStart(now time.Time) int64 { return max(0, int64(now.Sub(w.start))) }
