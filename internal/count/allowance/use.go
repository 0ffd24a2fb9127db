package allowance

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
)

// maxAccounts is how many accounts one request counts for: its key and its tenant.
const maxAccounts = 2

// Use is the part of accounts that one request took. The zero Use took nothing. It must
// not be used concurrently.
type Use struct {
	accounts [maxAccounts]*Account
	first    reservation // settled later
	more     reservation // for further calls, until the request is settled
	// Requests and Tokens are the states of the limits that have the least left, for the
	// headers of the reply; of a limit that is not there Limit is 0.
	Requests, Tokens ratelimit.Decision
}

// Unit names the thing that a limit counts.
type Unit uint8

// The units of limits.
const (
	Requests Unit = iota
	Tokens
	Concurrency
)

// Refusal says which limit is reached.
type Refusal struct {
	Account *Account
	Unit    Unit
	State   ratelimit.Decision
}

// NoTokens are the tokens of a request that uses none, which no limit of tokens refuses.
const NoTokens = -1

// Take takes a request and its tokens, as far as they are known before, from accounts;
// or from none of them if a limit is reached, which it returns. Nil accounts set no
// limit. A concurrent request and one a minute are taken first, because they are certain.
func (u *Use) Take(accounts [maxAccounts]*Account, tokens int64, now time.Time) *Refusal {
	u.first = reservation{max(tokens, 0), now}
	for n, account := range accounts {
		if account == nil {
			continue
		}
		if refused := u.take(account, tokens != NoTokens); refused != nil {
			u.GiveBack(now)
			u.note(refused)
			return refused
		}
		u.accounts[n] = account
	}
	return nil
}

func (u *Use) take(a *Account, usesTokens bool) *Refusal {
	limits := &a.Limits
	if most := limits.ConcurrentRequests; a.running.Add(1) > most && most > 0 {
		a.running.Add(-1)
		return &Refusal{a, Concurrency, ratelimit.Decision{Limit: int(most), RetryAfter: time.Second}}
	}
	if limits.RequestsPerMinute > 0 {
		state := a.requests.Take(1, u.first.at)
		if !state.Allowed {
			a.running.Add(-1)
			return &Refusal{a, Requests, state}
		}
		least(&u.Requests, state)
	}
	if limits.TokensPerMinute > 0 && usesTokens {
		state := a.tokens.Take(int(u.first.tokens), u.first.at)
		if !state.Allowed {
			a.running.Add(-1)
			if limits.RequestsPerMinute > 0 {
				a.requests.Settle(u.first.at, -1, u.first.at)
			}
			return &Refusal{a, Tokens, state}
		}
		least(&u.Tokens, state)
	}
	return nil
}

// note takes the states of the limit that refused the request.
func (u *Use) note(r *Refusal) {
	switch r.Unit {
	case Requests:
		u.Requests = r.State
	case Tokens:
		u.Tokens = r.State
	}
}

func least(known *ratelimit.Decision, state ratelimit.Decision) {
	if known.Limit == 0 || state.Remaining < known.Remaining {
		*known = state
	}
}

// GiveBack gives everything back, because the request reaches no backend. Further calls
// have no effect.
func (u *Use) GiveBack(now time.Time) {
	u.replace(&u.more, 0, now)
	first := true
	u.end(func(a *Account) {
		if first {
			first, u.Requests, u.Tokens = false, ratelimit.Decision{}, ratelimit.Decision{}
		}
		if a.Limits.RequestsPerMinute > 0 {
			a.requests.Settle(u.first.at, -1, now)
			least(&u.Requests, a.requests.Peek(now))
		}
		if a.Limits.TokensPerMinute > 0 {
			a.tokens.Settle(u.first.at, -int(u.first.tokens), now)
			least(&u.Tokens, a.tokens.Peek(now))
		}
	})
}

// Settle replaces the tokens reserved or settled before by the tokens that were used.
func (u *Use) Settle(tokens int64, now time.Time) {
	u.replace(&u.more, 0, now)
	u.replace(&u.first, tokens, now)
}

// End ends the request. It must be settled or given back before.
func (u *Use) End() { u.end(func(*Account) {}) }

func (u *Use) end(each func(*Account)) {
	for n, a := range u.accounts {
		if a != nil {
			each(a)
			a.running.Add(-1)
			u.accounts[n] = nil
		}
	}
}
