package calls

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Outcome is how a call ended for its caller. Every count, filter and page that tells calls
// apart by their end uses Record.Outcome.
type Outcome string

// The outcomes.
const (
	// Answered calls have their answer from the first instance that was tried.
	Answered Outcome = "answered"
	// Rescued calls have their answer too, but only because another instance or model answered
	// after an attempt failed or every circuit breaker of the model was open.
	Rescued Outcome = "rescued"
	// Lost calls were let in and have no answer, or only a part of it.
	Lost Outcome = "lost"
	// Refused calls broke a rule: a limit, a budget, a key, a permission, the form of the request,
	// or the name of a model that does not exist. The gateway turned them away, or the backend did
	// with a status that blames the request.
	Refused Outcome = "refused"
	// Gone calls ended because the caller went away.
	Gone Outcome = "gone"
	// Stopped calls were ended by an operator, alone or with their run.
	Stopped Outcome = "stopped"
)

// Outcomes returns every outcome.
func Outcomes() []Outcome { return []Outcome{Answered, Rescued, Lost, Refused, Gone, Stopped} }

// Keywords describes outcomes in the OpenAPI document.
func (Outcome) Keywords() map[string]any { return map[string]any{"enum": Outcomes()} }

// Outcome returns how the call ended for its caller.
func (c *Record) Outcome() Outcome {
	switch {
	case c.Code == schema.CodeStopped || c.Stopped || schema.Stops(c.Code) && c.Attempts > 0:
		return Stopped
	case c.Gone:
		return Gone
	case c.Code == "" && (c.Blamed() != nil || c.Left != ""):
		return Rescued
	case c.Code == "":
		return Answered
	case c.isRefused():
		return Refused
	}
	return Lost
}

func (c *Record) isRefused() bool {
	switch {
	case c.Told != nil && c.Told.Of != "", c.Result.Rejected(), c.IsUnknown():
		return true
	}
	isToldSo := c.Code == schema.CodeUpstreamError || c.Code == schema.CodeContextLength
	return isToldSo && c.Status >= http.StatusBadRequest && c.Status < http.StatusInternalServerError
}

// IsUnknown reports whether the call asked for a model that does not exist.
func (c *Record) IsUnknown() bool {
	return c.Model == "" && c.Attempts == 0 &&
		(c.Code == schema.CodeServiceUnavailable || c.Code == schema.CodeModelNotFound)
}

// Blamed returns the attempt that a lost or rescued call counts for: the last one that failed. It
// is nil where none did.
func (c *Record) Blamed() *Try {
	tries := c.Described()
	for i := len(tries) - 1; i >= 0; i-- {
		if tries[i].Failed() {
			return &tries[i]
		}
	}
	return nil
}

// Failed reports whether the instance failed. An attempt that the caller, an operator or the
// gateway itself ended did not.
func (t *Try) Failed() bool {
	return t.Code != "" && t.Code != schema.CodeCancelled && t.Code != GivenUp && !schema.Stops(t.Code)
}
