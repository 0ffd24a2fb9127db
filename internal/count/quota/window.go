package quota

import (
	"sync/atomic"
	"time"
)

// Start returns the beginning of the window that contains t. Windows are aligned
// to the calendar in UTC.
func (w Window) Start(t time.Time) time.Time { return time.Unix(w.startOf(t.Unix()), 0).UTC() }

// End returns the end of the window that begins at start; it belongs to the
// next one.
func (w Window) End(start time.Time) time.Time {
	switch w {
	case Month, BudgetMonth:
		return start.UTC().AddDate(0, 1, 0)
	case BudgetTotal:
		return time.Unix(endOfTime, 0).UTC()
	}
	return start.UTC().Add(time.Duration(windowSeconds[w]) * time.Second)
}

// windowSeconds are the lengths of the windows that have one.
var windowSeconds = [WindowCount]int64{Minute: 60, Hour: 60 * 60, Day: 24 * 60 * 60, BudgetDay: 24 * 60 * 60,
	BudgetRun: 24 * 60 * 60}

// endOfTime is in the year 9999.
const endOfTime = 253_370_764_800

func (w Window) startOf(second int64) int64 {
	switch w {
	case BudgetTotal:
		return 0
	case BudgetRun:
		return second
	}
	if w == Month || w == BudgetMonth {
		year, month, _ := time.Unix(second, 0).UTC().Date()
		return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	rest := second % windowSeconds[w]
	if rest < 0 {
		rest += windowSeconds[w] // before 1970
	}
	return second - rest
}

// endOf returns the end of the window that begins at a second.
func (w Window) endOf(start int64) int64 { return w.End(time.Unix(start, 0)).Unix() }

// calendar computes the starts of windows. It caches the month, which takes more
// than a division.
type calendar struct{ month atomic.Pointer[span] }

type span struct{ start, end int64 }

func (c *calendar) start(w Window, second int64) int64 {
	if w != Month && w != BudgetMonth {
		return w.startOf(second)
	}
	known := c.month.Load()
	if known == nil || second < known.start || second >= known.end {
		start := Month.startOf(second)
		known = &span{start, Month.endOf(start)}
		c.month.Store(known)
	}
	return known.start
}
