package watch

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/serve/problems"
)

const (
	// signInWindow is the time in which refused sign-ins are counted, and mostRefused how many of
	// them are usual: people mistype.
	signInWindow = 15 * time.Minute
	mostRefused  = 20
)

// signIns notices that many sign-ins are refused. Each look keeps the total, and those of the
// window are compared, so memory is bounded by the number of looks in it.
type signIns struct {
	refused *access.SignIns
	seen    []total
	since   time.Time // when there were too many, zero if there are not
}

// total is how many sign-ins were refused until a time.
type total struct {
	at      time.Time
	refused int64
}

func (s *signIns) find(now time.Time, found func(problems.Finding)) {
	latest := total{now, s.refused.Denied.Load() + s.refused.Failed.Load() + s.refused.Wrong.Load()}
	if len(s.seen) > 0 && now.Sub(s.seen[len(s.seen)-1].at) > signInWindow {
		s.seen = nil // nobody wanted to know meanwhile
	}
	s.seen = append(s.seen, latest)
	for now.Sub(s.seen[0].at) > signInWindow {
		s.seen = s.seen[1:]
	}
	lately := latest.refused - s.seen[0].refused
	if lately <= mostRefused {
		s.since = time.Time{}
		return
	}
	if s.since.IsZero() {
		s.since = now
	}
	found(problems.Finding{Subject: "sign-ins", IsWarning: true, Since: s.since,
		Values: []any{"refused", lately, "minutes", int(signInWindow.Minutes())}})
}
