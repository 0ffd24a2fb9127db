package allowance

import "time"

// reservation is tokens that a request took at a moment.
type reservation struct {
	tokens int64
	at     time.Time
}

// More reserves tokens for another call of a request that was let in, of all accounts or of
// none if a limit is reached, which it returns.
func (u *Use) More(tokens int64, now time.Time) *Refusal {
	want := reservation{u.more.tokens + tokens, now} // at one time, to give all of it back together
	u.replace(&u.more, 0, now)
	for n, a := range u.accounts {
		if a == nil || a.Limits.TokensPerMinute <= 0 {
			continue
		}
		if state := a.tokens.Take(int(want.tokens), now); !state.Allowed {
			settle(u.accounts[:n], now, -want.tokens, now)
			return &Refusal{a, Tokens, state}
		}
	}
	u.more = want
	return nil
}

// Less gives tokens back that More reserved, because that call is not made.
func (u *Use) Less(tokens int64, now time.Time) { u.replace(&u.more, u.more.tokens-tokens, now) }

// replace changes a reservation to other tokens.
func (u *Use) replace(r *reservation, tokens int64, now time.Time) {
	settle(u.accounts[:], r.at, tokens-r.tokens, now)
	r.tokens = tokens
}

// settle changes the tokens that were taken of accounts at a moment by a difference.
func settle(accounts []*Account, taken time.Time, difference int64, now time.Time) {
	for _, a := range accounts {
		if a != nil && a.Limits.TokensPerMinute > 0 && difference != 0 {
			a.tokens.Settle(taken, int(difference), now)
		}
	}
}
