package quota

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/prices"
)

// Usage is the count for one key in one window: the row of all writers together, which names
// none.
type Usage = Row

// UsageQuery selects usage. Empty fields match everything.
type UsageQuery struct {
	Tenant, APIKey, User, Service, Model string
	// Window is nil for all of them.
	Window *Window
	// From and To select the windows that began in [From, To). Where both are nil,
	// the windows that are open now are selected.
	From, To *time.Time
}

const (
	// maxHistory is how many rows of the database a query with From or To reads,
	// and maxOpen how many a query reads of each open window. Rows that are only in
	// memory come in addition.
	maxHistory = 20_000
	maxOpen    = 250_000
)

// ErrTruncated means that the result is incomplete: the oldest windows are left
// out, or the last keys of one window.
var ErrTruncated = errors.New("there is more than is listed; ask for less, by tenant, key, user, model or time")

// EachUsage calls visit with the usage that a query selects, from memory, the database and the
// shared counter, ordered by window, time and key, until visit returns false. No more than one
// window is held in memory. While the ledger is off, enabled is false and there is no usage. With
// an error visit got the usage that is known without the failed store.
func (l *Ledger) EachUsage(ctx context.Context, q UsageQuery, visit func(Usage) bool) (enabled bool, err error) {
	on := l.active.Load()
	if on == nil {
		return false, nil
	}
	return true, on.session.eachUsage(ctx, l.filters(q, on), visit)
}

// EachUsageIn is EachUsage for windows that the caller lists, open ones and past ones; From,
// To and Window of the query do not count. Each window is read by itself, with the bound of
// an open one: many keys in a long time are whole.
func (l *Ledger) EachUsageIn(
	ctx context.Context, q UsageQuery, windows []CalendarWindow, visit func(Usage),
) (enabled bool, err error) {
	on := l.active.Load()
	if on == nil {
		return false, nil
	}
	filters := make([]Filter, len(windows))
	for i, w := range windows {
		filters[i] = q.names()
		filters[i].Ranges, filters[i].Limit = RangesOf(w), on.session.maxOpen+1 // one more shows that there are more
	}
	return true, on.session.eachUsage(ctx, filters, func(u Usage) bool {
		visit(u)
		return true
	})
}

// eachUsage calls visit with the usage of each filter, until that returns false. It returns the
// first error, and that there is more than visit got before all others.
func (s *session) eachUsage(ctx context.Context, filters []Filter, visit func(Usage) bool) (err error) {
	left := readTime // for reading; the time that visit takes does not count
	for i := range filters {
		began := time.Now()
		usage, failed := s.usage(ctx, &filters[i], left)
		left -= time.Since(began)
		if err == nil || errors.Is(failed, ErrTruncated) { // a store that is away fails for every filter
			err = failed
		}
		for _, u := range usage {
			if !visit(u) {
				return err
			}
		}
	}
	return err
}

// names returns a filter by the names in a query.
func (q *UsageQuery) names() Filter {
	return Filter{
		Tenant: storable(q.Tenant, maxText), APIKey: storable(q.APIKey, maxText), User: storable(q.User, maxText),
		Service: q.Service, Model: storable(q.Model, maxModel),
	}
}

// filters returns the filters of a query in the order of the result: one for each
// open window, or one for the past.
func (l *Ledger) filters(q UsageQuery, on *activeSession) []Filter {
	now := l.options.Now()
	f := q.names()
	history := q.From != nil || q.To != nil
	var kinds []Window
	for _, w := range Windows() {
		if (q.Window == nil || *q.Window == w) && (history || on.windows[w]) {
			kinds = append(kinds, w)
		}
	}
	if !history {
		var filters []Filter
		for _, open := range OpenWindows(now, kinds) {
			f.Ranges, f.Limit = RangesOf(open), on.session.maxOpen+1 // one more shows that there are more
			filters = append(filters, f)
		}
		return filters
	}
	var from time.Time
	to := now.Add(time.Second)
	if q.From != nil {
		from = *q.From
	}
	if q.To != nil {
		to = *q.To
	}
	for _, w := range kinds {
		f.Ranges = append(f.Ranges, Range{w, from, to})
	}
	f.Limit = on.session.maxHistory + 1
	return []Filter{f}
}

// usage merges the rows of memory and of the stores; a store that does not answer
// in time is left out. Only one result is built at a time, because long ones take
// much memory.
func (s *session) usage(ctx context.Context, filter *Filter, longest time.Duration) ([]Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	s.usageMu.Lock()
	defer s.usageMu.Unlock()
	rows, err := s.rows(ctx, filter)
	return sum(rows), err
}

// rows returns the rows of memory and of the stores, by writer; some occur more
// than once.
func (s *session) rows(ctx context.Context, filter *Filter) ([]Row, error) {
	var all []Row
	// Totals are copied from memory to the shared counter and to the database, and
	// removed from memory when the database has them. So memory is read first and
	// the database last: a total that is copied meanwhile may be read twice, which
	// does no harm, but is never missed.
	s.cells.each(func(c *cell) {
		if !filter.matches(&c.owner.key) {
			return
		}
		if row := c.row(); row.Requests+row.Tokens > 0 && filter.Includes(&row) {
			all = append(all, row)
		}
	})
	var failed error
	if open := filter.open(s.now()); s.shared != nil && len(open) > 0 {
		rows, err := s.shared.read(ctx, open)
		if err != nil {
			failed = err
		}
		for i := range rows {
			if filter.Includes(&rows[i]) {
				all = append(all, rows[i])
			}
		}
	}
	var cut *cutOff
	store, err := s.snapshots(ctx)
	if err == nil {
		var rows []Row
		rows, err = store.Read(ctx, *filter)
		if filter.Limit > 0 && len(rows) == filter.Limit {
			rows, cut = cutAfter(rows)
			err = ErrTruncated
		}
		all = append(all, rows...)
	}
	if err != nil {
		failed = err
	}
	return cut.apply(all), failed
}

// open returns the windows that a filter selects and that are open now.
func (f *Filter) open(now time.Time) []CalendarWindow {
	var kinds []Window
	for _, r := range f.Ranges {
		kinds = append(kinds, r.Window)
	}
	return slices.DeleteFunc(OpenWindows(now, kinds), func(w CalendarWindow) bool {
		return !f.covers(w.Window, w.Start)
	})
}

// cutOff is where a truncated result ends: of the oldest start in the result, only
// some keys are complete.
type cutOff struct {
	start time.Time
	whole map[cellID]bool // the keys of that start with all their writers in the result
}

// cutAfter removes the last key from truncated rows, which are in order, because
// some of its writers may be missing.
func cutAfter(rows []Row) ([]Row, *cutOff) {
	last := idOf(&rows[len(rows)-1])
	last.writer = ""
	cut := &cutOff{start: rows[len(rows)-1].Start, whole: map[cellID]bool{}}
	rows = slices.DeleteFunc(rows, func(r Row) bool {
		id := idOf(&r)
		id.writer = ""
		if r.Start.Equal(cut.start) && id != last {
			cut.whole[id] = true
		}
		return id == last
	})
	return rows, cut
}

// apply removes rows beyond the cut, also rows of memory and the shared counter.
func (c *cutOff) apply(rows []Row) []Row {
	if c == nil {
		return rows
	}
	return slices.DeleteFunc(rows, func(row Row) bool {
		id := idOf(&row)
		id.writer = ""
		return row.Start.Before(c.start) || row.Start.Equal(c.start) && !c.whole[id]
	})
}

// sum takes the greatest totals of each writer and adds up the writers, ordered by
// window, time and key. It changes the order of the rows.
func sum(rows []Row) []Usage {
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Window, b.Window), a.Start.Compare(b.Start),
			a.Key.compare(b.Key), cmp.Compare(a.Writer, b.Writer))
	})
	var usage []Usage
	for i := 0; i < len(rows); {
		row := rows[i]
		for i++; i < len(rows) && idOf(&rows[i]) == idOf(&row); i++ {
			row.raise(rows[i].Totals)
		}
		row.Writer = ""
		if last := len(usage) - 1; last >= 0 && idOf(&usage[last]) == idOf(&row) {
			usage[last].Add(row.Totals)
		} else {
			usage = append(usage, row)
		}
	}
	return usage
}

// addCost adds costs; a sum beyond the greatest number stays at the greatest.
func addCost(a, b int64) int64 { return int64(prices.Amount(a).Plus(prices.Amount(b))) }

// Totals returns the rows that memory and the database have, one for each key and writer, and the name of
// the writer that counts now. With an error it returns the rows that are known without the database.
func (l *Ledger) Totals(ctx context.Context, filter Filter) (rows []Row, writer string, err error) {
	on := l.active.Load()
	if on == nil {
		return nil, "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	all, err := on.session.rows(ctx, &filter)
	merged := map[cellID]Row{}
	for i := range all {
		merge(merged, &all[i])
	}
	for _, row := range merged {
		rows = append(rows, row)
	}
	return rows, on.session.cells.writer, err
}

// RecoveredWriters returns the names of the earlier processes with totals in the journal
// when the ledger was turned on, as long as memory has them.
func (l *Ledger) RecoveredWriters() []string {
	s := l.currentSession()
	if s == nil {
		return nil
	}
	s.cells.mu.Lock()
	defer s.cells.mu.Unlock()
	found := map[string]bool{}
	for _, c := range s.cells.recovered {
		found[c.writer] = true
	}
	return slices.Sorted(maps.Keys(found))
}
