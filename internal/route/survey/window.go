package survey

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// Holds reports whether an instance gets traffic and may hold a prompt, as far as its context window
// is known.
func Holds(i *backend.Instance, prompt estimate.Prompt) bool {
	window := i.Sizes().Window
	return i.Settings.Enabled && i.Share > 0 && (window == 0 || window >= prompt.Least)
}

// Fit excludes the instances of a pool that cannot hold the prompt: those with a smaller window than
// it has tokens at least, and, after a backend with a window of above tokens found it too long, those
// that are not larger. If isSame is true that backend served the same model, and instances with an
// unknown window are excluded too.
func (e *Exclusions) Fit(pool *routing.Pool, prompt estimate.Prompt, above int64, isSame bool) {
	e.Prompt = prompt
	clear(e.Narrow)
	e.Narrow = e.Narrow[:0]
	widest := int64(0)
	for _, i := range pool.Instances {
		window := i.Sizes().Window
		if !i.Settings.Enabled || i.Share == 0 {
			continue
		}
		if window > 0 && (window < prompt.Least || window <= above) || window == 0 && isSame {
			e.Narrow = append(e.Narrow, i)
			widest = max(widest, window)
		}
	}
	if len(e.Narrow) > 0 && e.Reason == nil {
		e.Reason = TooLong(prompt.Likely, widest)
		e.Reason.Details = map[string]any{"candidates": e.narrow(nil)}
	}
}

// narrow appends the instances that are too small to the details of an error.
func (e *Exclusions) narrow(to []Skipped) []Skipped {
	for _, i := range e.Narrow {
		to = append(to, Skipped{Instance: i.Handle, Reason: backend.Narrow.String()})
	}
	return to
}

// TooLong returns the error for a prompt that is longer than a context window.
func TooLong(tokens, window int64) *schema.Error {
	tokens = max(tokens, window+1)
	err := schema.CodedError(schema.CodeContextLength, "call.too_long", "tokens", tokens, "window", window)
	err.Tokens, err.Window, err.NoRetry = tokens, window, true
	return err
}

// keepWidest leaves only the ready instances with the best outlook to hold the prompt, if there are
// any: those with a window of its estimated length, then those with an unknown window.
func (s *Survey) keepWidest() {
	outlook := func(i *backend.Instance) int {
		switch window := i.Sizes().Window; {
		case window >= s.excluded.Prompt.Likely:
			return 2
		case window == 0:
			return 1
		}
		return 0
	}
	best := 0
	for _, i := range s.found {
		best = max(best, outlook(i))
	}
	s.found = slices.DeleteFunc(s.found, func(i *backend.Instance) bool {
		isWorse := outlook(i) < best
		if isWorse {
			s.reasons[i.Position] = backend.Narrow
		}
		return isWorse
	})
}
