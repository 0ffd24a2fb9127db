package survey

import (
	"errors"
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// Skipped is an instance of the model in the details of an error, with the reason why it does
// not take the request.
type Skipped struct {
	Instance string `json:"instance"`
	Reason   string `json:"reason"`
	// Cause is the documented word for why an unhealthy instance cannot be reached.
	Cause transport.Cause `json:"cause,omitzero"`
}

// outlook collects why the instances of a pool do not take a request, and when one of
// them may take one again. A negative wait means that there is no such instance.
type outlook struct {
	candidates []Skipped
	limited    time.Duration // until an instance is below its rate limit
	trial      time.Duration // until an open breaker of a healthy instance allows a trial
	// unhealthy counts the unhealthy instances, and unhealthyOpen the ones among them
	// with open breakers; check is the wait until one of them may be back.
	unhealthy, unhealthyOpen int
	check                    time.Duration
	// held counts the instances with breakers that an operator holds open, and hold is
	// the first of these holds.
	held int
	hold breaker.Hold
}

// Unavailable returns the error that says why none of the pool's instances takes the
// request. If the dialects of some cannot express the request and all others are
// disabled or have no weight, it is the error of the dialect: the caller can change
// the request.
func (s *Survey) Unavailable() *schema.Error {
	if s.excluded.Reason != nil && (s.Shortest == backend.Disabled || s.Shortest == backend.NoWeight) {
		return s.excluded.Reason
	}
	look := outlook{limited: -1, trial: -1, check: -1}
	for n, i := range s.pool.Instances {
		if Contains(s.excluded.Narrow, i) {
			look.candidates = append(look.candidates, Skipped{Instance: i.Handle, Reason: backend.Narrow.String()})
			continue
		}
		if Contains(s.excluded.Untranslatable, i) {
			skipped := Skipped{Instance: i.Handle, Reason: say.Text("instance.dialect")}
			look.candidates = append(look.candidates, skipped)
			continue
		}
		look.add(i, s.Obstacles[n], s.Now)
	}
	return look.refusal(s.pool)
}

// add adds an instance that does not take the request.
func (l *outlook) add(i *backend.Instance, o backend.Obstacle, now time.Time) {
	c := Skipped{Instance: i.Handle, Reason: i.WhyNot(o, now).String()}
	if o == backend.Unhealthy {
		c.Cause = i.Health.Snapshot().Cause
	}
	l.candidates = append(l.candidates, c)
	if o == backend.BreakerOpen || o == backend.Unhealthy {
		if hold, held := i.Breaker.HeldOpen(); held {
			if l.held == 0 {
				l.hold = hold
			}
			l.held++
			return
		}
	}
	switch o {
	case backend.AtLimit:
		l.limited = sooner(l.limited, i.Limiter.Peek(netip.Addr{}, now).RetryAfter)
	case backend.BreakerOpen:
		l.trial = sooner(l.trial, untilTrial(i, now))
	case backend.Unhealthy:
		l.unhealthy++
		if !i.Breaker.Ready(now) {
			l.unhealthyOpen++
		}
		wait := untilCheck(i, now)
		if !i.Breaker.AwaitsCheck() { // a successful check would not end the breaker's pause
			wait = max(wait, i.Breaker.RetryAfter(now))
		}
		l.check = sooner(l.check, wait)
	}
}

// untilTrial returns the wait until an open breaker allows a trial. A health check may
// shorten the breaker's own pause.
func untilTrial(i *backend.Instance, now time.Time) time.Duration {
	wait := i.Breaker.RetryAfter(now)
	if i.Breaker.AwaitsCheck() && !i.Health.Snapshot().NextCheck.IsZero() {
		wait = min(wait, untilCheck(i, now))
	}
	return wait
}

// checkTime is how long a health check is assumed to take. It is the whole wait where
// the time of the next check is not known.
const checkTime = 500 * time.Millisecond

// untilCheck returns the wait until the next health check of an instance has ended.
func untilCheck(i *backend.Instance, now time.Time) time.Duration {
	return max(i.Health.Snapshot().NextCheck.Sub(now), 0) + checkTime
}

// refusal returns the error for the caller.
func (l *outlook) refusal(pool *routing.Pool) *schema.Error {
	trial := l.trial
	if trial < 0 && l.unhealthyOpen == l.unhealthy {
		trial = l.check
	}
	err := schema.CodedError(schema.CodeServiceUnavailable,
		"call.no_instance", "model", pool.Model, "service", pool.Service.Type)
	err.RetryAfter, err.Spread = defaultRetryAfter, true
	err.Details = map[string]any{"model": pool.Model, "candidates": l.candidates}
	if l.check >= 0 {
		err.RetryAfter = l.check
	}
	switch {
	case l.limited >= 0:
		err.Reword("call.all_limited", "model", pool.Model)
		err.Type, err.Code = schema.TypeRateLimit, schema.CodeRateLimitExceeded
		err.RetryAfter, err.Of = max(l.limited, time.Millisecond), "instances/"+pool.Model
	case trial >= 0:
		err.Reword("call.breakers", "model", pool.Model)
		err.Type, err.Code = schema.TypeCircuitBreakerOpen, schema.CodeCircuitBreakerOpen
		err.RetryAfter = max(trial, time.Millisecond)
	case l.held > 0 && l.unhealthy == 0:
		err.Reword("call.held", "model", pool.Model, "by", l.hold.By, "since", l.hold.Since.UTC().Format(time.RFC3339))
		err.Type, err.Code = schema.TypeCircuitBreakerOpen, schema.CodeCircuitBreakerOpen
		err.RetryAfter, err.NoRetry = 0, true
	}
	return err
}

// sooner returns the shorter of two waits. A negative a means that there is none yet.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 {
		return b
	}
	return min(a, b)
}

// defaultRetryAfter is the wait that callers are told where the real one is not
// known, such as until a slot becomes free.
const defaultRetryAfter = 800 * time.Millisecond

// NoSlot says that all slots are taken, and that the request cannot wait or has
// waited too long.
func NoSlot(pool *routing.Pool) *schema.Error {
	err := schema.CodedError(schema.CodeNoSlot, "call.no_slot", "model", pool.Model)
	err.RetryAfter, err.Spread = defaultRetryAfter, true
	return err
}

// RefusalReason returns the reason of a refusal before the request was sent, if a
// fallback can help.
func RefusalReason(err error) (naming.Reason, bool) {
	if err == nil {
		return naming.Overloaded, true
	}
	var known *schema.Error
	if !errors.As(err, &known) {
		return 0, false
	}
	if known.UnknownModel != "" {
		return naming.Unavailable, true
	}
	switch known.Code {
	case schema.CodeContextLength:
		return naming.Context, true
	case schema.CodeServiceUnavailable, schema.CodeCircuitBreakerOpen:
		return naming.Unavailable, true
	case schema.CodeNoSlot, schema.CodeRateLimitExceeded:
		return naming.Overloaded, true
	}
	return 0, false
}

// TranslationError returns the error for the caller where a dialect cannot express
// the request, or where there is no memory to write the call.
func TranslationError(err error) *schema.Error {
	var known *schema.Error
	if errors.As(err, &known) {
		return known
	}
	known = schema.CodedError(schema.CodeInternal, "call.not_written")
	known.Type = schema.TypeAPI
	return known
}
