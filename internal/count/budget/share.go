package budget

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// commit tells the store the amounts that this process has committed in the spans of
// accounts, all of them with one round trip, and takes over the amounts of the others.
func (b *Book) commit(ctx context.Context, states ...*state) error {
	var sheets, lacking []tally.Sheet
	isNews, prepared := false, make([]prepared, len(states))
	for i, s := range states {
		news := false
		prepared[i], news = s.prepare()
		sheets = append(sheets, prepared[i].sheets...)
		isNews = isNews || news
	}
	all, err := b.options.Shared.Tell(ctx, sheets, isNews)
	if err != nil {
		return err
	}
	for i, s := range states {
		n := len(prepared[i].own)
		lacking = append(lacking, s.take(prepared[i], all[:n])...)
		all = all[n:]
	}
	if len(lacking) > 0 {
		_, err = b.options.Shared.Tell(ctx, lacking, true)
	}
	return err
}

// prepared holds the message of an account about its spans, before it is sent.
type prepared struct {
	spans  []*span
	own    []Committed
	sheets []tally.Sheet
	// terms is the version of the terms in them, and use the latest use of a run.
	terms, use int64
}

// prepare returns the sheets of the account, and reports whether they are news.
func (s *state) prepare() (p prepared, isNews bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookAhead()
	isNews, p.spans = s.isNews(), slices.Clone(s.spans)
	order := s.book.order.Add(1)
	for _, one := range p.spans {
		c := one.commitment(order)
		p.own = append(p.own, c)
		p.sheets = append(p.sheets, s.sheet(one, s.book.writer, c, ""))
	}
	p.terms, p.use = s.run.decided().Version, s.run.used
	return p, isNews
}

// lookAhead sets the amounts that the spans commit ahead; mu is held.
func (s *state) lookAhead() {
	for _, one := range s.spans {
		one.lookAhead(s.book, s.latest.Load(), s.demand.target(), int64(s.book.options.Shared.Members()))
	}
}

// isNews reports whether the others have to hear of this process: the store did not confirm
// its amounts, or the others would soon take this process for dead and its reservations for
// spent; mu is held.
func (s *state) isNews() bool {
	isLong := s.book.options.Now().Sub(time.Unix(0, s.answered.Load())) >= presence/2
	return s.hasNewTerms() || slices.ContainsFunc(s.spans, func(one *span) bool {
		return one.hasNews() || isLong && one.reserved != (Amounts{})
	})
}

// isReservedElsewhere reports whether other processes have reserved amounts; mu is held.
func (s *state) isReservedElsewhere() bool {
	return slices.ContainsFunc(s.spans, func(one *span) bool {
		for _, other := range one.others {
			if other.Reserved != (Amounts{}) {
				return true
			}
		}
		return false
	})
}

// take takes over the store's amounts of other processes, and returns the sheets that
// it lacks.
func (s *state) take(p prepared, all []map[string]string) (lacking []tally.Sheet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.book.options.Now()
	s.answered.Store(now.UnixNano())
	s.run.told, s.run.toldUse = max(s.run.told, p.terms), max(s.run.toldUse, p.use)
	for i, one := range p.spans {
		j := s.judge(one, all[i], now)
		one.confirm(p.own[i])
		if s.book.options.Shared.IsSettled() {
			one.isOut = false
		}
		better := one.lacking(s.book, j.believed)
		maps.Copy(better, j.better)
		if !s.judgeOwn(p.sheets[i], all[i]) {
			better[s.book.writer] = p.own[i]
			j.refused++
		}
		s.noteRefused(p.sheets[i].Name, j.refused)
		for process, last := range better {
			lacking = append(lacking, s.sheet(one, process, last, all[i][process]))
		}
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
// A reservation that is refused is given back at once: other requests that wait for the same
// answer have its room.
func (a *Account) agree(spans *accountSpans, reserved Amounts) (*Refusal, error) {
	options := &a.book.options
	if options.Shared == nil || a.isCovered(spans, reserved) {
		return nil, nil //nolint:nilnil // neither refused nor failed
	}
	err := a.ask()
	isKept := err == nil || options.Degrade || options.FailOpen
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range spans.list() {
		if err != nil && isKept {
			one.beginOutage(a.book)
		}
		one.reserved = one.reserved.minus(reserved)
	}
	if !isKept {
		return nil, ErrUnavailable
	}
	return a.take(spans, reserved), nil
}

// isCovered reports whether the amounts confirmed by the store cover a reservation of this
// process, and takes the reservation from the amounts committed ahead. It begins to commit
// more when half of them is used.
func (a *Account) isCovered(spans *accountSpans, reserved Amounts) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.demand.count(reserved)
	if !a.book.options.Shared.IsSettled() {
		for _, one := range spans.list() {
			one.beginOutage(a.book)
		}
		return false
	}
	isLow := false
	for i, one := range spans.list() {
		if one.isOut {
			return false
		}
		for unit, limit := range a.bounds(i) {
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
	for _, one := range spans.list() {
		one.ahead = one.ahead.minus(reserved)
	}
	if isLow && a.refilling.CompareAndSwap(false, true) {
		a.book.running.Go(func() {
			defer a.refilling.Store(false)
			// The requests that need it ask once more.
			logs.Contain(a.book.options.Log, "asking for more of a budget", func() { _ = a.ask() })
		})
	}
	return true
}

// exchange tells the store the commitment of this process after it gave something back,
// and reports whether others may have given something back as well: there are others, and
// the store knows of them.
func (s *state) exchange() bool {
	b := s.book
	if b.options.Shared == nil || b.options.Shared.Members() <= 1 || !b.options.Shared.IsSettled() {
		return false
	}
	return s.ask() == nil
}

// refresh asks the store if its last answer is older than a beat, and reports whether it did.
func (s *state) refresh() bool {
	b := s.book
	if b.options.Shared == nil || b.options.Now().Sub(time.Unix(0, s.answered.Load())) < beat {
		return false
	}
	return s.ask() == nil
}

// ask commits with the timeout of a request.
func (s *state) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.book.options.Timeout)
	defer cancel()
	return s.book.commit(ctx, s)
}
