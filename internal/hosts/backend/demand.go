package backend

import (
	"sync"
	"sync/atomic"
	"time"
)

// demand foresees how many slots of an instance requests need while a line of a batch runs,
// which may come at any moment and should find one. It remembers how many of them ran at the
// same time in windows that are as long as a line takes. What it expects is the most of them
// or, where fewer run now, so many more than now as came on top within one window.
//
// It watches only instances for which lines of batches ask.
type demand struct {
	isWatched atomic.Bool

	mu      sync.Mutex
	asked   time.Time     // when a line asked last
	line    time.Duration // how long a line takes, on average; 0 before the first has ended
	windows [demandWindows]demandWindow
	low     int       // the least in the newest window so far
	until   time.Time // the end of the newest window
}

// demandWindow is how many requests ran at the same time at most, and how many more they
// became at most, in a time.
type demandWindow struct{ most, rise int }

const (
	// demandWindows is how many windows count. What came once in so many lines' time is
	// expected to come in the next one.
	demandWindows = 16
	// A window is never shorter than leastWindow. It is never longer than mostWindow, so that
	// after two minutes a request that nobody followed is forgotten: where the slots are few,
	// no line begins before.
	leastWindow = 100 * time.Millisecond
	mostWindow  = 2 * time.Minute / demandWindows
	// assumedLine is how long a line is assumed to take before one has ended.
	assumedLine = 5 * time.Second
)

// expect returns how many requests are to be expected at the same time while a line runs that
// begins now, beside so many that run now.
func (d *demand) expect(running int, now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = now
	d.isWatched.Store(true)
	d.see(running, running, now)
	most, rise := 0, 0
	for _, w := range d.windows {
		most, rise = max(most, w.most), max(rise, w.rise)
	}
	return min(most, running+rise)
}

// began notes that so many requests run, the last of which has begun now.
func (d *demand) began(running int, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.asked) > demandWindows*d.span() {
		d.isWatched.Store(false) // there are no batches any more
		return
	}
	d.see(running, running-1, now)
}

// lasted notes how long a line took.
func (d *demand) lasted(took time.Duration) {
	const memory = 8
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.line == 0 {
		d.line = took
		return
	}
	d.line += (took - d.line) / memory
}

func (d *demand) span() time.Duration {
	if d.line == 0 {
		return assumedLine
	}
	return min(max(d.line, leastWindow), mostWindow)
}

// see counts so many requests that run now, of which so many ran before.
func (d *demand) see(running, before int, now time.Time) {
	span := d.span()
	if now.Sub(d.until) >= demandWindows*span {
		d.windows, d.until = [demandWindows]demandWindow{}, now
	}
	for !now.Before(d.until) {
		copy(d.windows[1:], d.windows[:])
		d.windows[0], d.low, d.until = demandWindow{}, before, d.until.Add(span)
	}
	d.low = min(d.low, before)
	w := &d.windows[0]
	w.most, w.rise = max(w.most, running), max(w.rise, running-d.low)
}
