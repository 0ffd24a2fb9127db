// Package spend reports spending: it adds up the ledger's counts of a period, by tenant,
// key, user, model or service, beside the period before, and foretells the rest.
package spend

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
)

// Dimension is a property that spending is grouped by.
type Dimension uint8

// The dimensions.
const (
	ByTenant Dimension = iota
	ByKey
	ByUser
	ByModel
	ByService

	dimensionCount = int(ByService) + 1
)

var dimensionNames = [dimensionCount]string{"tenant", "key", "user", "model", "service"}

// Names returns the names of all dimensions.
func (Dimension) Names() []string { return slices.Clone(dimensionNames[:]) }

// String returns the name.
func (d Dimension) String() string { return dimensionNames[d] }

// MarshalText writes the name.
func (d Dimension) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// of returns the part of a key that this dimension groups by.
func (d Dimension) of(k *quota.Key) string {
	return [dimensionCount]string{k.Tenant, k.APIKey, k.User, k.Model, k.Service.String()}[d]
}

// Question asks for the spending of a period.
type Question struct {
	By Dimension
	// From and To bound the period; the windows that they lie in are counted whole.
	From, To time.Time
	// Only narrows it by names.
	Only quota.UsageQuery
	// Belongs reports whether usage is counted; nil counts all.
	Belongs func(*quota.Key) bool
	// Limit is how many groups are listed; the others are added up.
	Limit int
	// IsPriced reports whether a model has a price; nil where all have one.
	IsPriced func(model string) bool
}

// maxUnpriced bounds the models without a price that are named.
const maxUnpriced = 100

// Check returns an error for an impossible period of a question.
func (q *Question) Check() error {
	if !q.From.Before(q.To) || q.To.Sub(q.From) > maxRange {
		return errRange
	}
	return nil
}

// maxCells bounds the costs that are told apart, one for each group and step (16 MiB); groups
// beyond that are in Rest. Clients choose the names of users.
const maxCells = 1 << 21

// Report is the answer. Costs are in 10^-12 of the currency's unit.
type Report struct {
	// Enabled is false while the ledger is off.
	Enabled bool
	Step    quota.Window
	// From and To are the counted period, in whole steps. The period before begins at
	// BeforeFrom and ends at From.
	From, To, BeforeFrom time.Time
	// Starts are the beginnings of the steps.
	Starts []time.Time
	// HasBefore is false if the period before was not counted, or is not kept any more.
	HasBefore bool
	// HasForecast is true while the period has not ended and its pace is known.
	HasForecast bool
	Total       Group
	// Groups have the most expensive first; Rest adds up the Others that are not listed.
	Groups []Group
	Rest   Group
	Others int
	// Unpriced are models that were used in the period and have no price, in order.
	Unpriced []string

	pace pace
}

// Group is the spending under one name.
type Group struct {
	Name string
	quota.Totals
	// Unpriced are the requests that cost nothing because their model has no price.
	Unpriced int64
	// Before is the cost in the period before, and Forecast that at the end of this one, which
	// is expected between Low and High.
	Before, Forecast, Low, High int64
	// Pace is its spending per day lately. The forecast rests on it as far as budgets
	// allow.
	Pace int64
	// Costs has the cost of each step.
	Costs []int64

	// recent is its spending lately in each window. bounded is the part of it that budgets
	// bound, by the share that they allow from now on.
	recent  []int64
	bounded map[float64]int64
}

func (g *Group) count(u *quota.Usage, step int) {
	g.Totals.Add(u.Totals)
	g.Costs[step] = plus(g.Costs[step], u.Cost)
}

func (g *Group) add(other *Group) {
	g.Totals.Add(other.Totals)
	g.Unpriced += other.Unpriced
	g.Before = plus(g.Before, other.Before)
	for i := range g.Costs {
		g.Costs[i] = plus(g.Costs[i], other.Costs[i])
	}
	for i, cost := range other.recent {
		g.spentLately(i, len(other.recent), cost)
	}
	for share, cost := range other.bounded {
		g.bound(share, cost)
	}
}

// plus adds costs.
func plus(a, b int64) int64 { return int64(prices.Amount(a).Plus(prices.Amount(b))) }

// Ledger reads the counts.
type Ledger interface {
	Settings() quota.Settings
	EachUsageIn(
		ctx context.Context, q quota.UsageQuery, windows []quota.CalendarWindow, visit func(quota.Usage),
	) (enabled bool, err error)
}

// Reader answers questions, one at a time, because each may hold many groups in memory.
type Reader struct {
	turn    chan struct{} // holds a value while a question is answered
	ledger  Ledger
	budgets func() []budget.Use
}

// New returns a reader of a ledger. The budgets bound its forecasts.
func New(ledger Ledger, budgets func() []budget.Use) *Reader {
	return &Reader{turn: make(chan struct{}, 1), ledger: ledger, budgets: budgets}
}

// Read answers a question that was checked. With an error the report has the figures that
// are known without the failed store, or nothing if ctx ended before the question had its
// turn.
func (r *Reader) Read(ctx context.Context, q Question, now time.Time) (Report, error) {
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
	settings := r.ledger.Settings()
	step := stepOf(q.From, q.To, now, &settings)
	windows := windowsIn(step, q.From, q.To)
	last := windows[len(windows)-1]
	report := Report{Step: step, From: windows[0].Start, To: last.Window.End(last.Start)}
	sum := &sums{by: q.By, groups: map[string]*Group{}, steps: len(windows), unpriced: map[string]bool{}}
	steps := make(map[time.Time]int, len(windows))
	for i, w := range windows {
		report.Starts, steps[w.Start] = append(report.Starts, w.Start), i
	}
	past := slices.DeleteFunc(slices.Clone(windows), func(w quota.CalendarWindow) bool { return w.Start.After(now) })
	enabled, err := r.each(ctx, &q, past, func(u quota.Usage) {
		g := sum.group(&u)
		g.count(&u, steps[u.Start.UTC()])
		if sum.isUnpriced(&u, q.IsPriced) {
			g.Unpriced += u.Requests
		}
	})
	report.Enabled = enabled
	if !enabled {
		report.Total = sum.total()
		return report, nil
	}
	start, earlier := before(step, report.From, report.To, now, &settings)
	report.BeforeFrom, report.HasBefore = start, len(earlier) > 0
	if _, failed := r.each(ctx, &q, earlier, func(u quota.Usage) {
		g := sum.group(&u)
		g.Before = plus(g.Before, u.Cost)
	}); failed != nil {
		err = failed
	}
	if !now.Before(report.From) && now.Before(report.To) {
		failed := r.foretell(ctx, &q, sum, &report, now, &settings)
		err = cmp.Or(err, failed)
	}
	report.Total = sum.total()
	report.Groups, report.Rest, report.Others = sum.listed(q.Limit)
	// The rest and the total are foretold from their sums, so that a total has one forecast
	// however it is cut.
	report.pace.foretell(&report.Total)
	report.pace.foretell(&report.Rest)
	for i := range report.Groups {
		report.pace.foretell(&report.Groups[i])
	}
	report.HasForecast = report.pace.elapsed > 0
	report.Unpriced = slices.Sorted(maps.Keys(sum.unpriced))
	return report, err
}

// each calls visit with the usage in some windows that a question is about.
func (r *Reader) each(ctx context.Context, q *Question, windows []quota.CalendarWindow,
	visit func(quota.Usage)) (enabled bool, err error) {
	return r.ledger.EachUsageIn(ctx, q.Only, windows, func(u quota.Usage) {
		if q.Belongs == nil || q.Belongs(&u.Key) {
			visit(u)
		}
	})
}

// sums are the groups of a report while it is read.
type sums struct {
	by     Dimension
	groups map[string]*Group
	rest   *Group // the groups beyond maxCells
	steps  int
	// unpriced are models that have no price.
	unpriced map[string]bool
}

// isUnpriced reports whether usage cost nothing because its model has no price, and notes
// the model. The ledger does not know whether there was one then; the present prices
// decide.
func (s *sums) isUnpriced(u *quota.Usage, isPriced func(model string) bool) bool {
	if isPriced == nil || u.Cost != 0 || u.Key.Model == "" || isPriced(u.Key.Model) {
		return false
	}
	if len(s.unpriced) < maxUnpriced {
		s.unpriced[u.Key.Model] = true
	}
	return true
}

func (s *sums) group(u *quota.Usage) *Group {
	name := s.by.of(&u.Key)
	if g := s.groups[name]; g != nil {
		return g
	}
	if len(s.groups)*(s.steps+maxRecent) >= maxCells {
		if s.rest == nil {
			s.rest = &Group{Costs: make([]int64, s.steps)}
		}
		return s.rest
	}
	g := &Group{Name: name, Costs: make([]int64, s.steps)}
	s.groups[name] = g
	return g
}

func (s *sums) all() []*Group {
	all := make([]*Group, 0, len(s.groups)+1)
	for _, g := range s.groups {
		all = append(all, g)
	}
	if s.rest != nil {
		all = append(all, s.rest)
	}
	return all
}

func (s *sums) total() Group {
	total := Group{Costs: make([]int64, s.steps)}
	for _, g := range s.all() {
		total.add(g)
	}
	return total
}

// listed returns the most expensive groups, and the sum and number of the others. It leaves
// out groups without use in the period and the one before.
func (s *sums) listed(limit int) (groups []Group, rest Group, others int) {
	for _, g := range s.groups {
		if g.Requests > 0 || g.Before > 0 {
			groups = append(groups, *g)
		}
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Requests, a.Requests),
			cmp.Compare(b.Before, a.Before), cmp.Compare(a.Name, b.Name))
	})
	rest = Group{Costs: make([]int64, s.steps)}
	if s.rest != nil {
		rest.add(s.rest)
		others++
	}
	if len(groups) > limit {
		for i := range groups[limit:] {
			rest.add(&groups[limit+i])
		}
		others += len(groups) - limit
		groups = groups[:limit]
	}
	return groups, rest, others
}
