package budget

import (
	"context"
	"slices"
	"time"
)

// commit tells the store what this process has committed in the spans of the account, and
// takes over what the others have.
func (s *state) commit(ctx context.Context) error {
	store := s.book.store.Load()
	if store == nil {
		return ErrUnavailable
	}
	s.mu.Lock()
	s.lookAhead()
	spans := append([]*span(nil), s.spans...)
	own := make([]Commitment, len(spans))
	order := s.book.order.Add(1)
	for i, one := range spans {
		own[i] = Commitment{s.name, one.window, time.Unix(one.start, 0).UTC(), one.hasNews(), one.commitment(order)}
	}
	s.mu.Unlock()
	if len(own) == 0 {
		return nil
	}
	all, err := (*store).Commit(ctx, s.book.writer, own)
	if err != nil {
		return err
	}
	for _, missing := range s.take(spans, own, all) {
		if _, err := (*store).Commit(ctx, missing.writer, []Commitment{missing.last}); err != nil {
			return err
		}
	}
	return nil
}

// lookAhead sets what the spans commit ahead; mu is held.
func (s *state) lookAhead() {
	for _, one := range s.spans {
		one.lookAhead(s.book, s.latestLimits.Load(), s.demand.target(), s.book.members.Load())
	}
}

// hasNews reports whether this process has something that the store did not confirm.
func (s *state) hasNews() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.spans, (*span).hasNews)
}

// take takes over what the store has of other processes, and returns what it lacks.
func (s *state) take(spans []*span, own []Commitment, all []map[string]Committed) (lacking []lack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.book.options.Now()
	s.answered.Store(now.UnixNano())
	for i, one := range spans {
		for writer, committed := range all[i] {
			known, there := one.committed[writer]
			// Replies may overtake each other.
			if writer != s.book.writer && (!there || committed.Order > known.Order) {
				one.committed[writer] = peer{committed, now}
			}
		}
		one.confirm(own[i].Committed)
		if s.book.isSettled() {
			one.isOut = false
		}
		lacking = append(lacking, one.lacking(s.book, own[i], all[i])...)
	}
	return lacking
}

// lose notes that the store is away: from now on this process keeps to its share.
func (s *state) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.spans {
		one.beginOutage(s.book)
	}
}

// agree asks the store whether a reservation that was made is within the budgets of all
// gateways. While the store is away, the reservation must be within the share of this one.
// A reservation that is refused is given back at once, so that those of other requests that
// wait for the same answer have its room.
func (a *Account) agree(spans *[windowCount]*span, reserved Amounts) (*Refusal, error) {
	if a.book.options.OpenStore == nil {
		return nil, nil //nolint:nilnil // neither refused nor failed
	}
	if a.isCovered(spans, reserved) {
		return nil, nil //nolint:nilnil // as above
	}
	err := ErrUnavailable
	if !a.book.isAway() {
		err = a.ask()
		a.book.setAway(err)
	}
	if err != nil && !a.book.options.Degrade && !a.book.options.FailOpen {
		return nil, ErrUnavailable
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range spans {
		if err != nil {
			one.beginOutage(a.book)
		}
		one.reserved = one.reserved.minus(reserved)
	}
	refused := a.refuse(spans, reserved)
	for _, one := range spans {
		one.reserved = one.reserved.plus(reserved)
	}
	if refused != nil {
		settleSpans(spans, reserved, Amounts{})
	}
	return refused, nil
}

// isCovered reports whether what the store has confirmed of this process covers a reservation
// that was made, and takes it from what was committed ahead. It begins to commit more when
// half of that is used.
func (a *Account) isCovered(spans *[windowCount]*span, reserved Amounts) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.demand.count(reserved)
	if a.book.isAway() {
		return false
	}
	isLow := false
	for i, one := range spans {
		if one.isOut {
			return false
		}
		for unit, limit := range a.limits[i] {
			if limit <= 0 || reserved[unit] <= 0 {
				continue
			}
			left := one.confirmed.Amounts[unit] - one.own()[unit]
			if left < 0 {
				return false
			}
			isLow = isLow || 2*left < one.leased[unit]
		}
	}
	for _, one := range spans {
		one.ahead = one.ahead.minus(reserved).greater(Amounts{})
	}
	if isLow && a.refilling.CompareAndSwap(false, true) {
		a.book.running.Go(func() {
			defer a.refilling.Store(false)
			a.book.setAway(a.ask())
		})
	}
	return true
}

// exchange tells the store what this process has committed after it gave something back,
// and reports whether others may have given something back as well: there are others, and
// the store knows of them.
func (a *Account) exchange() bool {
	b := a.book
	if b.options.OpenStore == nil || b.members.Load() <= 1 || !b.isSettled() {
		return false
	}
	err := a.ask()
	b.setAway(err)
	return err == nil
}

// refresh asks the store if its last answer is older than a beat, and reports whether it did.
func (a *Account) refresh() bool {
	b := a.book
	if b.options.OpenStore == nil || b.isAway() || b.options.Now().Sub(time.Unix(0, a.answered.Load())) < beat {
		return false
	}
	err := a.ask()
	b.setAway(err)
	return err == nil
}

// ask commits with the timeout of a request. The client library may return later.
func (a *Account) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), a.book.options.Timeout)
	defer cancel()
	answered := make(chan error, 1)
	a.book.running.Go(func() { answered <- a.commit(ctx) })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
