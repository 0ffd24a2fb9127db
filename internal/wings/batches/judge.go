package batches

import (
	"net/http"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// verdict is the meaning of an answer for its line.
type verdict uint8

const (
	// final is an answer, or an error that the same request would have again.
	final verdict = iota
	// refused means that the gateway refuses the line for now.
	refused
	// missed means that others took the slot that was free when the line began.
	missed
	// unpaid means that a budget is used up.
	unpaid
	// limited means that a backend gets too many requests.
	limited
	// away means that a backend did not get the line, or does not take it now.
	away
	// broken means that a backend got the line and did not answer, for whichever reason.
	broken
	// failed means that a backend could not do it.
	failed
)

// statusOverloaded is the status of some backends that have too much to do.
const statusOverloaded = 529

// verdictOf returns the verdict of an answer, whatever happened to the line before.
func verdictOf(a Answer) verdict {
	switch a.Code {
	case "":
		if a.Status != 0 {
			return final // an answer
		}
		return broken
	case schema.CodeOverloaded:
		if a.NoRetry {
			return failed // the answer is too large
		}
		return refused
	case schema.CodeServiceUnavailable:
		if a.IsUnknown {
			return final
		}
		return refused
	case schema.CodeRateLimitExceeded, schema.CodeKeyRateLimited, schema.CodeBudgetReserved,
		schema.CodeCircuitBreakerOpen,
		schema.CodeLedgerUnavailable, schema.CodeUploadsFull, schema.CodeCancelled:
		return refused
	case schema.CodeNoSlot:
		return missed
	case schema.CodeBudgetExceeded:
		return unpaid
	case schema.CodeUpstreamRateLimit:
		return limited
	case schema.CodeUpstreamAuth: // an operator mends it
		return away
	case schema.CodeUpstreamTimeout, schema.CodeUpstreamTruncated, schema.CodeUpstreamError:
		return verdictOfBackend(a)
	}
	if a.Status >= http.StatusInternalServerError {
		return failed
	}
	return final
}

// verdictOfBackend returns the verdict of a backend's failure.
func verdictOfBackend(a Answer) verdict {
	switch {
	case a.IsUnreached:
		return away
	case a.NoRetry:
		return failed // two backends ended while they had it
	case a.Code != schema.CodeUpstreamError:
		return broken
	case a.IsUnread:
		return failed
	case a.Status == http.StatusTooManyRequests:
		return limited
	case a.Status == http.StatusServiceUnavailable, a.Status == statusOverloaded:
		return away
	case a.Status == http.StatusBadGateway, a.Status == http.StatusGatewayTimeout, a.Status == 0:
		return broken
	case a.Status >= http.StatusInternalServerError, a.Status == http.StatusRequestTimeout,
		a.Status == http.StatusTooEarly:
		return failed
	}
	return final
}

// The waits before a line runs again: where the gateway refused it, where the budget is used
// up, and, for the first time, if it missed its slot and after a failure of its own, which
// double with each.
const (
	missedWait  = 100 * time.Millisecond
	refusedWait = time.Second
	budgetWait  = time.Minute
	failedWait  = 2 * time.Second
	longestWait = 5 * time.Minute
	// longestAsked bounds the wait that a backend asks for: a backend with a wrong clock
	// may ask for years, and nobody would try whether it has been mended.
	longestAsked = 6 * time.Hour
)

// outcome is the next step of a line after an answer.
type outcome struct {
	// again says that it runs again, after a wait. Where isLast, others of the batch run
	// before it.
	again  bool
	wait   time.Duration
	isLast bool
	// pauses says that other lines of the model would be refused as well meanwhile.
	pauses bool
	// resumes is how long it may take until lines run, which is longer than the wait if the
	// line tries more often.
	resumes time.Duration
}

// judge decides the next step of a line, and learns from the answer how fast its target
// takes lines. It waits for the end of passing troubles until the batch expires, and
// repeats a few times after a failure that the line itself may have caused.
func (e *Engine) judge(j *job, p *pending, t target, a Answer) outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, settings := time.Now(), e.o.Settings()
	to, why := e.paces[t], problemOf(a)
	if to == nil {
		to = new(pace) // nobody serves the model
	}
	means := verdictOf(a)
	if means != unpaid {
		a.RetryAfter = min(a.RetryAfter, longestAsked)
	}
	switch means {
	case refused:
		wait := max(a.RetryAfter, refusedWait)
		return outcome{again: true, wait: wait, pauses: true, resumes: wait}
	case missed:
		wait := missedWait << min(p.missed, 5)
		p.missed++
		return outcome{again: true, wait: wait}
	case unpaid:
		resumes := a.RetryAfter
		if resumes == 0 {
			resumes = mostWindow // nothing but a change of the budget helps
		}
		return outcome{again: settings.WaitForBudget, wait: budgetWait, pauses: true, resumes: resumes}
	case limited:
		to.limit(p.began, now, a.RetryAfter, why)
		return outcome{again: true}
	case away:
		return p.waits(to.fail(p.began, now, a.RetryAfter, longestPause, why), a)
	case broken:
		if !p.failedAt.IsZero() && to.answered.After(p.failedAt) {
			p.attempts++ // the backend answers others
		}
		p.failedAt = now
		isPaused := to.fail(p.began, now, a.RetryAfter, longestWait, why)
		if p.attempts < settings.Attempts {
			return p.waits(isPaused, a)
		}
	case failed:
		to.isDown = false
		if p.attempts++; p.attempts < settings.Attempts {
			return p.waits(false, a)
		}
	case final:
		if a.IsUnknown && j.hasServed(p.model) {
			return outcome{again: true, wait: refusedWait, pauses: true}
		}
		if !a.IsUnknown {
			to.answer(now)
		}
	}
	return outcome{}
}

// waits returns that a line runs again, after a time of its own unless its target pauses.
func (p *pending) waits(isPaused bool, a Answer) outcome {
	next := outcome{again: true, isLast: true}
	if !isPaused {
		next.wait = max(min(failedWait<<min(p.tries, 10), longestWait), a.RetryAfter)
		p.tries++
	}
	return next
}

// putBack puts a line back into the window of lines that run next.
func (j *job) putBack(p *pending, a Answer, next outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if next.wait > 0 {
		p.after = now.Add(next.wait)
	}
	if next.pauses {
		j.paused[p.model] = p.after
	}
	if a.Code != schema.CodeNoSlot { // it only waits
		j.problem, j.resumes = problemOf(a), now.Add(next.resumes)
	}
	if j.stopping || p.chunk.ctx.Err() != nil {
		return
	}
	at := 0
	if next.isLast {
		at = len(j.window)
	}
	j.setWindow(slices.Insert(j.window, at, p), j.windowed+len(p.body))
}
