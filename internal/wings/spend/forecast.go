package spend

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
)

// leastData is how long a ledger has to count before there is a forecast: an hour of load
// says nothing about a month.
const leastData = day

// maxRecent is how many windows the recent spending of a group has at most.
const maxRecent = 26

// pace is the time that a forecast rests on.
type pace struct {
	// elapsed is how long recent spending was counted, 0 while that is too short to tell
	// anything. left is the rest of the period.
	elapsed, left time.Duration
	// window is the length of the recent windows, and whole those of them that were counted
	// from their beginning to their end: from first to before last.
	window      time.Duration
	first, last int
}

// foretell notes the recent spending of groups and the pace that their forecasts have: the
// rest of the period as lately, as far as their budgets let them.
func (r *Reader) foretell(
	ctx context.Context, q *Question, sum *sums, report *Report, now time.Time, settings *quota.Settings,
) error {
	windows := recent(report.Step, now, settings)
	if len(windows) == 0 {
		return nil
	}
	begun, failed := r.begun(ctx, windows, now, settings)
	if begun.IsZero() || now.Sub(begun) < leastData {
		return failed
	}
	begun = latest(begun, windows[0].Start)
	bounds, err := r.capped(ctx, windows, begun, now, report.To)
	failed = cmp.Or(failed, err)
	places := make(map[time.Time]int, len(windows))
	for i, w := range windows {
		places[w.Start] = i
	}
	_, err = r.each(ctx, q, windows, func(u quota.Usage) {
		g := sum.group(&u)
		g.spentLately(places[u.Start.UTC()], len(windows), u.Cost)
		if share := bounds.of(&u.Key); share < 1 {
			g.bound(share, u.Cost)
		}
	})
	report.pace = pace{elapsed: now.Sub(begun), left: report.To.Sub(now), last: len(windows) - 1,
		window: windows[0].Window.End(windows[0].Start).Sub(windows[0].Start)}
	for report.pace.first < report.pace.last && windows[report.pace.first].Start.Before(begun) {
		report.pace.first++
	}
	return cmp.Or(failed, err)
}

// begun returns when the ledger began to count, as far as the windows of a week tell, zero
// where it counted nothing. What is asked about does not matter, so that a part of the
// spending has the same forecast alone and among others.
func (r *Reader) begun(
	ctx context.Context, windows []quota.CalendarWindow, now time.Time, settings *quota.Settings,
) (first time.Time, err error) {
	if from := now.Add(-7 * day); usable(quota.Day, from, now, now, settings) {
		windows = windowsIn(quota.Day, from, now)
	}
	note := func(u quota.Usage) {
		if first.IsZero() || u.Start.Before(first) {
			first = u.Start.UTC()
		}
	}
	_, err = r.ledger.EachUsageIn(ctx, quota.UsageQuery{}, windows, note)
	if w := windows[0].Window; w == quota.Day && !first.IsZero() && now.Sub(first) < 2*leastData {
		// It began in the course of that day.
		from, end := first, w.End(first)
		first = end
		if usable(quota.Hour, from, end, now, settings) {
			_, failed := r.ledger.EachUsageIn(ctx, quota.UsageQuery{}, windowsIn(quota.Hour, from, end), note)
			err = cmp.Or(err, failed)
		}
	}
	return first, err
}

// spentLately counts spending in one of the recent windows.
func (g *Group) spentLately(window, windows int, cost int64) {
	if g.recent == nil {
		g.recent = make([]int64, windows)
	}
	g.recent[window] = plus(g.recent[window], cost)
}

// bound notes that budgets allow a share of recent spending only.
func (g *Group) bound(share float64, cost int64) {
	if g.bounded == nil {
		g.bounded = map[float64]int64{}
	}
	g.bounded[share] = plus(g.bounded[share], cost)
}

// allowed returns the part of its recent spending that budgets allow from now on. It adds
// up in the order of the shares, because sums of fractions depend on their order.
func (g *Group) allowed(recent float64) float64 {
	for _, share := range slices.Sorted(maps.Keys(g.bounded)) {
		recent -= float64(g.bounded[share]) * (1 - share)
	}
	return max(0, recent)
}

// likely is how many standard deviations the bounds of a forecast are away from it: four of
// five periods end between them.
const likely = 1.28

// foretell gives a group its forecast. The bounds follow from how much its recent windows
// differ from each other, and how few they are.
func (p pace) foretell(g *Group) {
	g.Forecast, g.Low, g.High = g.Cost, g.Cost, g.Cost
	recent := 0.0
	for _, cost := range g.recent {
		recent += float64(cost)
	}
	if p.elapsed <= 0 || recent <= 0 {
		return
	}
	g.Pace = amount(recent / p.elapsed.Seconds() * day.Seconds())
	allowed := g.allowed(recent)
	more := allowed / p.elapsed.Seconds() * p.left.Seconds()
	spread := more / 2
	if count := p.last - p.first; count > 1 {
		whole := g.recent[p.first:p.last]
		mean, squares := 0.0, 0.0
		for _, cost := range whole {
			mean += float64(cost) / float64(count)
		}
		for _, cost := range whole {
			squares += (float64(cost) - mean) * (float64(cost) - mean)
		}
		steps := p.left.Seconds() / p.window.Seconds()
		spread = likely * math.Sqrt(squares/float64(count-1)*steps*(1+steps/float64(count))) *
			allowed / recent
	}
	g.Forecast = plus(g.Cost, amount(more))
	g.Low, g.High = plus(g.Cost, amount(max(0, more-spread))), plus(g.Cost, amount(more+spread))
}

// amount returns a sum in the unit of costs.
func amount(sum float64) int64 { return int64(math.Round(min(sum, math.MaxInt64/2))) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
