package budget

// More reserves more for a request that has reserved before, because another call is made
// for it: in all its accounts or in none. The request itself is counted once. It returns the
// budget that has no room for it, or ErrUnavailable; it does not wait until others have
// given something back.
func (c *Charge) More(want Amounts) (*Refusal, error) {
	want[Requests] = 0
	var added [maxAccounts][windowCount]*span
	for i := range c.parts {
		account := c.parts[i].account
		if account == nil {
			continue
		}
		spans, refused := account.reserve(want, c.at)
		var err error
		if refused == nil {
			if refused, err = account.agree(&spans, want); refused == nil && err != nil {
				account.release(&spans, want)
			}
		}
		if refused != nil || err != nil {
			for before := range i {
				if c.parts[before].account != nil {
					c.parts[before].account.release(&added[before], want)
				}
			}
			return refused, err
		}
		added[i] = spans
	}
	for i := range c.parts {
		if account := c.parts[i].account; account != nil {
			account.merge(&added[i])
		}
	}
	c.reserved = c.reserved.plus(want)
	return nil, nil //nolint:nilnil // neither refused nor failed
}

// Less gives back what More reserved, because that call spends nothing.
func (c *Charge) Less(reserved Amounts) {
	reserved[Requests] = 0
	for i := range c.parts {
		if p := &c.parts[i]; p.account != nil {
			p.account.reduce(&p.spans, reserved)
		}
	}
	c.reserved = c.reserved.minus(reserved)
}

// reduce makes a reservation smaller.
func (a *Account) reduce(spans *[windowCount]*span, by Amounts) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range spans {
		one.reserved = one.reserved.minus(by)
	}
}

// merge makes a reservation part of another one of the same request, with which it is
// settled.
func (a *Account) merge(spans *[windowCount]*span) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range spans {
		one.inFlight--
	}
}
