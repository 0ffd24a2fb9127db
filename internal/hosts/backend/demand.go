package backend

import (
	"sync"
	"sync/atomic"
	"time"
)

// demand foresees how many slots of an instance other requests need while a line of a batch
// runs. Such requests may come at any moment and should find a free slot. It remembers how
// many of them ran at the same time, in windows as long as a line takes. It expects the
// largest of these numbers or, where fewer run now, the running ones plus the largest
// increase within one window.
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

// demandWindow holds the largest number of requests that ran at the same time in a span
// of time, and its largest increase.
type demandWindow struct{ most, rise int }

const (
	// demandWindows is the number of windows that count. Demand that came once in that
	// time is expected again in the next window.
	demandWindows = 16
	// A window is never shorter than leastWindow. It is never longer than mostWindow: after
	// two minutes a single request is forgotten, and where slots are few, no line begins
	// before that.
	leastWindow = 100 * time.Millisecond
	mostWindow  = 2 * time.Minute / demandWindows
	// assumedLine is how long a line is assumed to take before one has ended.
	assumedLine = 5 * time.Second
)

// expect returns how many requests to expect at the same time while a line runs that begins
// now, given the number that run now.
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

// began notes that a request has begun now, and how many run with it.
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

// see counts the requests that run now, and those among them that ran before.
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
