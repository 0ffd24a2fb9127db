package engines

import (
	"math"
	"strconv"
	"time"
)

const (
	// startSlack is the largest difference between two start times of the same process:
	// some compute the time anew for each answer, from a clock that is corrected.
	startSlack = 5
	// restartsApart is the least time that a process lives. Shorter lives mean several
	// processes behind one address, which answer in turn.
	restartsApart = 2 * time.Minute
)

// Process remembers which process answered a question, to notice when another one does. The
// zero value has seen none.
type Process struct {
	start    string
	progress float64
	changed  time.Time // when another process seemed to answer
}

// IsNew takes the latest report of the process, and reports whether it is a new process.
// Then everything in the memory of the old one is lost.
func (p *Process) IsNew(r *Report, now time.Time) bool {
	differs := p.start != "" && r.start != "" && !isSameStart(p.start, r.start) ||
		r.progress >= 0 && r.progress < p.progress
	if r.start != "" {
		p.start = r.start
	}
	if r.progress >= 0 {
		p.progress = r.progress
	}
	if !differs {
		return false
	}
	soon := !p.changed.IsZero() && now.Sub(p.changed).Abs() < restartsApart
	p.changed = now
	return !soon
}

// isSameStart reports whether two marks belong to the same process.
func isSameStart(a, b string) bool {
	if a == b {
		return true
	}
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && math.Abs(x-y) <= startSlack
}
