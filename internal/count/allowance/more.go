package allowance

import "time"

// further is the reservation for further calls of a request, until the request is settled.
type further struct {
	tokens int64
	at     time.Time
}

// More reserves tokens for another call of a request that was let in, of all accounts or of
// none if a limit is reached, which it returns.
func (u *Use) More(tokens int64, now time.Time) *Refusal {
	want := u.more.tokens + tokens // at one time, to give all of it back together
	u.giveBackMore(now)
	for n, a := range u.accounts {
		if a == nil || a.Limits.TokensPerMinute <= 0 {
			continue
		}
		if state := a.tokens.Take(int(want), now); !state.Allowed {
			u.settleMore(u.accounts[:n], want, now, now)
			return &Refusal{a, Tokens, state}
		}
	}
	u.more = further{want, now}
	return nil
}

// Less gives tokens back that More reserved, because that call is not made.
func (u *Use) Less(tokens int64, now time.Time) {
	u.settleMore(u.accounts[:], tokens, u.more.at, now)
	u.more.tokens -= tokens
}

// giveBackMore gives back the reservation for further calls.
func (u *Use) giveBackMore(now time.Time) {
	if u.more.tokens != 0 {
		u.settleMore(u.accounts[:], u.more.tokens, u.more.at, now)
		u.more = further{}
	}
}

// settleMore gives tokens back to accounts that were taken from them.
func (u *Use) settleMore(accounts []*Account, tokens int64, taken, now time.Time) {
	for _, a := range accounts {
		if a != nil && a.Limits.TokensPerMinute > 0 {
			a.tokens.Settle(taken, -int(tokens), now)
		}
	}
}
