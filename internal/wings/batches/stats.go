package batches

import (
	"time"
)

// Stats describe this gateway's work for batches.
type Stats struct {
	// Open counts the batches that have not ended, and Running the lines that run.
	Open, Running int
	// Ended counts the lines that this gateway has run, by their outcome.
	Ended Counts
	// Stalled is the longest time that a batch with lines to run has ended none, or that a
	// batch cannot go on.
	Stalled time.Duration
}

// Stats returns the gateway's present work for batches.
func (e *Engine) Stats(now time.Time) Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Stats{Open: len(e.jobs), Running: e.total, Ended: e.ended}
	for _, j := range e.jobs {
		s.Stalled = max(s.Stalled, j.still(now))
	}
	return s
}

// still returns for how long no line of the job has ended, although it has some to run, or for
// how long it cannot go on.
func (j *job) still(now time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	var stuck time.Duration
	if !j.stuck.IsZero() {
		stuck = now.Sub(j.stuck)
	}
	if len(j.window) == 0 && j.inFlight == 0 {
		return stuck
	}
	return max(stuck, now.Sub(j.moved))
}
