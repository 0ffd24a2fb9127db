package quota

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// Usage is what was counted for one key in one window, over all writers.
type Usage struct {
	Key      Key
	Window   Window
	Start    time.Time
	Requests int64
	Tokens   int64
}

// Question asks for usage. Parts that are empty match anything.
type Question struct {
	Tenant, APIKey, User, Service, Model string
	// Window is nil for all of them.
	Window *Window
	// From and To ask for the windows that began in between; where both are
	// nil, for those that are open now.
	From, To *time.Time
}

// maxHistory is how many rows of the database a question about the past is
// answered with; what is only in memory comes in addition.
const maxHistory = 20_000

// ErrTruncated means that a question about the past has more of an answer than
// is given; the oldest windows are left out.
var ErrTruncated = errors.New("there are more windows than are listed; the oldest are left out")

// Usage answers a question from memory, the database and the shared counter,
// and writes nothing. Enabled is false, and the answer empty, while the ledger
// is off. An error comes along with what is known without the store that
// failed.
func (l *Ledger) Usage(ctx context.Context, q Question) (usage []Usage, enabled bool, err error) {
	on := l.on.Load()
	if on == nil {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	filter := l.filter(q, on)
	totals, err := on.session.totals(ctx, &filter)
	return sum(totals), true, err
}

func (l *Ledger) filter(q Question, on *running) Filter {
	now := l.options.Now()
	// As they are stored.
	f := Filter{
		Tenant: storable(q.Tenant, maxText), APIKey: storable(q.APIKey, maxText), User: storable(q.User, maxText),
		Service: q.Service, Model: storable(q.Model, maxModel),
	}
	history := q.From != nil || q.To != nil
	var kinds []Window
	for _, w := range Windows() {
		if (q.Window == nil || *q.Window == w) && (history || on.windows[w]) {
			kinds = append(kinds, w)
		}
	}
	if !history {
		f.Windows = openWindows(now, kinds)
		return f
	}
	f.Kinds, f.To, f.Limit = kinds, now.Add(time.Second), maxHistory+1 // one more shows that there are more
	if q.From != nil {
		f.From = *q.From
	}
	if q.To != nil {
		f.To = *q.To
	}
	return f
}

// totals merges what memory and the stores know, writer by writer.
func (s *session) totals(ctx context.Context, filter *Filter) (map[cellID]Row, error) {
	totals := map[cellID]Row{}
	add := func(rows []Row) {
		for i := range rows {
			if filter.includes(&rows[i]) {
				merge(totals, &rows[i])
			}
		}
	}
	// Counts move from memory to the shared counter and to the database, and leave
	// memory when the database has them. So memory is read first and the database
	// last: what moves meanwhile is seen twice, which does no harm, and never not
	// at all.
	s.book.each(func(c *cell) {
		if !filter.matches(&c.line.key) {
			return
		}
		if row := c.row(); row.Requests+row.Tokens > 0 && filter.includes(&row) {
			merge(totals, &row)
		}
	})
	var failed error
	if open := filter.open(s.now()); s.shared != nil && len(open) > 0 {
		rows, err := s.shared.read(ctx, open)
		if err != nil {
			failed = err
		}
		add(rows)
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
		add(rows)
	}
	if err != nil {
		failed = err
	}
	cut.apply(totals)
	return totals, failed
}

// open returns the windows that a filter asks for and that still count.
func (f *Filter) open(now time.Time) []Instance {
	if f.Windows != nil {
		return f.Windows
	}
	return slices.DeleteFunc(openWindows(now, f.Kinds), func(w Instance) bool {
		return w.Start.Before(f.From) || !w.Start.Before(f.To)
	})
}

// cutOff is where an answer ends that has more to it: of the oldest start that
// is listed, only some keys are.
type cutOff struct {
	start time.Time
	whole map[cellID]bool // the keys of that start of which all writers are known
}

// cutAfter leaves the last key out of rows of which there are more, which come
// in order: some of its writers may be missing.
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

// apply leaves out what is beyond the cut, whoever knows it.
func (c *cutOff) apply(totals map[cellID]Row) {
	if c == nil {
		return
	}
	maps.DeleteFunc(totals, func(id cellID, row Row) bool {
		id.writer = ""
		return row.Start.Before(c.start) || row.Start.Equal(c.start) && !c.whole[id]
	})
}

// sum adds up the writers, and sorts by window, time and key.
func sum(totals map[cellID]Row) []Usage {
	sums := map[cellID]*Usage{}
	for id, row := range totals {
		id.writer = ""
		u := sums[id]
		if u == nil {
			u = &Usage{Key: row.Key, Window: row.Window, Start: row.Start}
			sums[id] = u
		}
		u.Requests += row.Requests
		u.Tokens += row.Tokens
	}
	usage := make([]Usage, 0, len(sums))
	for _, u := range sums {
		usage = append(usage, *u)
	}
	slices.SortFunc(usage, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Window, b.Window), a.Start.Compare(b.Start), a.Key.compare(b.Key))
	})
	return usage
}
