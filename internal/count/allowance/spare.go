package allowance

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
)

// kept returns how much of a limit stays free for others when a request that has time takes
// from it: a half, but never all of it.
func kept(limit int64) int64 { return min(max(limit/2, 1), limit-1) }

// A request that has time asks again after these waits: others give back a slot when they end,
// and the permits of a minute bit by bit.
const (
	placeWait  = time.Second
	minuteWait = 5 * time.Second
)

// TakeSpare is Take for a request that has time, such as a line of a batch: it takes only as
// much as leaves half of each limit to urgent requests.
func (u *Use) TakeSpare(accounts [maxAccounts]*Account, tokens int64, now time.Time) *Refusal {
	for _, a := range accounts {
		if a == nil {
			continue
		}
		// Only one such request at a time looks and takes: several could take the rest
		// together.
		a.spare.Lock()
		defer a.spare.Unlock() //nolint:gocritic // both accounts stay locked until the request has taken from them
		if refused := a.refuseSpare(tokens, now); refused != nil {
			return refused
		}
	}
	return u.Take(accounts, tokens, now)
}

// refuseSpare returns the limit that would have too little left for others.
func (a *Account) refuseSpare(tokens int64, now time.Time) *Refusal {
	limits := &a.Limits
	if most := limits.ConcurrentRequests; most > 0 && a.running.Load()+1+kept(most) > most {
		return &Refusal{a, Concurrency, ratelimit.Decision{Limit: int(most), RetryAfter: placeWait}}
	}
	if most := limits.RequestsPerMinute; most > 0 {
		if state := a.requests.Peek(now); int64(state.Remaining) < 1+kept(most) {
			return &Refusal{a, Requests, refusedSpare(state)}
		}
	}
	if most := limits.TokensPerMinute; most > 0 && tokens != NoTokens {
		// One that takes more than that is taken when nothing else counts, as in Take.
		if state := a.tokens.Peek(now); int64(state.Remaining) < min(tokens+kept(most), most) {
			return &Refusal{a, Tokens, refusedSpare(state)}
		}
	}
	return nil
}

func refusedSpare(state ratelimit.Decision) ratelimit.Decision {
	state.Allowed, state.RetryAfter = false, max(state.RetryAfter, minuteWait)
	return state
}
