package spend_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/spend"
)

// fakeLedger has one entry for each window and key that it is given.
type fakeLedger struct {
	settings quota.Settings
	entries  []quota.Usage
	off      bool
	err      error
	read     []quota.CalendarWindow
	budgets  []budget.Use
}

func (f *fakeLedger) uses() []budget.Use { return f.budgets }

func (f *fakeLedger) Settings() quota.Settings { return f.settings }

func (f *fakeLedger) EachUsageIn(_ context.Context, q quota.UsageQuery, windows []quota.CalendarWindow, visit func(quota.Usage)) (bool, error) {
	f.read = append(f.read, windows...)
	for _, w := range windows {
		for _, u := range f.entries {
			if u.Window == w.Window && u.Start.Equal(w.Start) && (q.Tenant == "" || q.Tenant == u.Key.Tenant) && (q.Model == "" || q.Model == u.Key.Model) {
				visit(u)
			}
		}
	}
	return !f.off, f.err
}

// use counts a request in every window that contains a moment.
func (f *fakeLedger) use(at time.Time, tenant, model string, cost int64) {
	for _, w := range quota.Windows() {
		f.entries = append(f.entries, quota.Usage{
			Key: quota.Key{Tenant: tenant, Model: model, Service: schema.Chat}, Window: w, Start: w.Start(at),
			Totals: quota.Totals{Requests: 1, Tokens: 3, Prompt: 1, Completion: 2, Cost: cost},
		})
	}
}

func newLedger() *fakeLedger { return &fakeLedger{settings: quota.DefaultSettings()} }

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return t
}

func read(t *testing.T, f *fakeLedger, from, to, now string, by spend.Dimension) spend.Report {
	t.Helper()
	q := spend.Question{By: by, From: at(from), To: at(to), Limit: 100}
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	report, err := spend.New(f, f.uses).Read(t.Context(), q, at(now))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestSpendingIsAddedUpByGroupAndStep(t *testing.T) {
	f := newLedger()
	f.use(at("2026-11-02 10:00"), "acme", "small", 5)
	f.use(at("2026-11-02 23:59"), "acme", "large", 70)
	f.use(at("2026-11-03 00:00"), "", "small", 200)
	f.use(at("2026-10-31 12:00"), "acme", "small", 50)
	f.use(at("2026-11-30 12:00"), "acme", "small", 1000) // after the period
	report := read(t, f, "2026-11-02 00:00", "2026-11-09 00:00", "2026-11-17 12:00", spend.ByTenant)
	if report.Step != quota.Day || len(report.Starts) != 7 || !report.From.Equal(at("2026-11-02 00:00")) || !report.To.Equal(at("2026-11-09 00:00")) {
		t.Errorf("%v from %v to %v in %d", report.Step, report.From, report.To, len(report.Starts))
	}
	if !report.HasBefore || !report.BeforeFrom.Equal(at("2026-10-26 00:00")) || report.HasForecast {
		t.Errorf("before %t %v, forecast %t", report.HasBefore, report.BeforeFrom, report.HasForecast)
	}
	got := ""
	for _, g := range append(report.Groups, report.Total) {
		got += fmt.Sprintf("%q %d before %d in %d steps %v; ", g.Name, g.Cost, g.Before, g.Requests, g.Costs[:2])
	}
	want := `"" 200 before 0 in 1 steps [0 200]; "acme" 75 before 50 in 2 steps [75 0]; "" 275 before 50 in 3 steps [75 200]; `
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	byModel := read(t, f, "2026-11-02 00:00", "2026-11-09 00:00", "2026-11-17 12:00", spend.ByModel)
	if len(byModel.Groups) != 2 || byModel.Groups[0].Name != "small" || byModel.Groups[0].Cost != 205 {
		t.Errorf("%+v", byModel.Groups)
	}
}

func TestStepsSuitTheLengthOfThePeriodAndWhatIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		windows  []quota.Window
		step     quota.Window
		steps    int
		before   string // where the period before begins, empty if it is not kept
	}{
		"today":                      {from: "2026-11-17 00:00", to: "2026-11-18 00:00", step: quota.Hour, steps: 24, before: "2026-11-16 00:00"},
		"a day whose hours are gone": {from: "2026-11-10 00:00", to: "2026-11-11 00:00", step: quota.Day, steps: 1, before: "2026-11-09 00:00"},
		"a week":                     {from: "2026-11-16 00:00", to: "2026-11-23 00:00", step: quota.Day, steps: 7, before: "2026-11-09 00:00"},
		"this month":                 {from: "2026-11-01 00:00", to: "2026-12-01 00:00", step: quota.Day, steps: 30, before: "2026-10-01 00:00"},
		"the month before":           {from: "2026-10-01 00:00", to: "2026-11-01 00:00", step: quota.Month, steps: 1, before: "2026-09-01 00:00"},
		"half a year":                {from: "2026-06-01 00:00", to: "2026-12-01 00:00", step: quota.Month, steps: 6, before: "2025-12-01 00:00"},
		"before what is kept":        {from: "2026-01-01 00:00", to: "2026-12-01 00:00", step: quota.Month, steps: 11},
		"a range":                    {from: "2026-11-03 13:30", to: "2026-11-09 01:00", step: quota.Day, steps: 7, before: "2026-10-27 00:00"},
		"only months are counted":    {from: "2026-11-16 00:00", to: "2026-11-23 00:00", windows: []quota.Window{quota.Month}, step: quota.Month, steps: 1, before: "2026-10-01 00:00"},
		"only minutes are counted":   {from: "2026-11-16 00:00", to: "2026-11-23 00:00", windows: []quota.Window{quota.Minute}, step: quota.Day, steps: 7},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLedger()
			if test.windows != nil {
				f.settings.Windows = test.windows
			}
			report := read(t, f, test.from, test.to, "2026-11-17 12:34", spend.ByTenant)
			if report.Step != test.step || len(report.Starts) != test.steps {
				t.Errorf("%d of %v", len(report.Starts), report.Step)
			}
			if before := report.BeforeFrom.Format("2006-01-02 15:04"); report.HasBefore != (test.before != "") || report.HasBefore && before != test.before {
				t.Errorf("before: %t %s", report.HasBefore, before)
			}
			for _, w := range f.read {
				if w.Start.After(at("2026-11-17 12:34")) {
					t.Errorf("reads %v", w)
				}
			}
		})
	}
}

// The forecast is what was spent and the rest of the period at the pace of the last week,
// or of the time since the ledger began to count.
func TestForecastFollowsThePaceOfTheLastDays(t *testing.T) {
	f := newLedger()
	for d := 8; d <= 14; d++ {
		f.use(at(fmt.Sprintf("2026-11-%02d 12:00", d)), "steady", "m", 100)
	}
	f.use(at("2026-11-01 12:00"), "once", "m", 900)
	report := read(t, f, "2026-11-01 00:00", "2026-12-01 00:00", "2026-11-15 00:00", spend.ByTenant)
	forecasts := map[string]int64{}
	for _, g := range report.Groups {
		forecasts[g.Name] = g.Forecast
	}
	// 700 in seven days; sixteen days are left.
	if !report.HasForecast || forecasts["steady"] != 700+1600 || forecasts["once"] != 900 || report.Total.Forecast != 3200 {
		t.Errorf("%v, all %d", forecasts, report.Total.Forecast)
	}
	young := newLedger()
	young.use(at("2026-11-14 01:00"), "new", "m", 100)
	if got := read(t, young, "2026-11-01 00:00", "2026-12-01 00:00", "2026-11-15 12:00", spend.ByTenant).Total.Forecast; got != 100+1063 { // 372 hours are left
		t.Errorf("a ledger that counts for 35 hours: %d", got)
	}
	hours := newLedger()
	hours.use(at("2026-11-12 20:00"), "a", "m", 1) // the ledger has counted for days
	hours.use(at("2026-11-14 20:00"), "a", "m", 240)
	if got := read(t, hours, "2026-11-15 00:00", "2026-11-16 00:00", "2026-11-15 08:00", spend.ByTenant).Total.Forecast; got != 240*16/24 {
		t.Errorf("of a day: %d", got)
	}
}

// What a budget refuses is not spent, by whatever the forecast is grouped and narrowed.
func TestForecastEndsWhereABudgetRefuses(t *testing.T) {
	f := newLedger()
	for d := 8; d <= 14; d++ {
		f.use(at(fmt.Sprintf("2026-11-%02d 12:00", d)), "bound", "m", 75)
		f.use(at(fmt.Sprintf("2026-11-%02d 12:00", d)), "bound", "other", 25)
		f.use(at(fmt.Sprintf("2026-11-%02d 12:00", d)), "free", "m", 10)
	}
	month := budget.Use{Account: "tenant/bound", Window: quota.BudgetMonth, Unit: budget.Cost, Limit: 1100, Used: 700, Reset: at("2026-12-01 00:00")}
	day := budget.Use{Account: "tenant/bound", Window: quota.BudgetDay, Unit: budget.Cost, Limit: 50, Used: 50, Reset: at("2026-11-16 00:00")}
	requests := budget.Use{Account: "tenant/free", Window: quota.BudgetMonth, Unit: budget.Requests, Limit: 1, Used: 1, Reset: at("2026-12-01 00:00")}
	ask := func(q spend.Question) string {
		q.From, q.To, q.Limit = at("2026-11-01 00:00"), at("2026-12-01 00:00"), 100
		report, err := spend.New(f, f.uses).Read(t.Context(), q, at("2026-11-15 00:00"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, g := range report.Groups {
			got += fmt.Sprintf("%s %d at %d a day, ", g.Name, g.Forecast, g.Pace)
		}
		return got + fmt.Sprint(report.Total.Forecast)
	}
	for name, test := range map[string]struct {
		budgets []budget.Use
		q       spend.Question
		want    string
	}{
		"none":               {nil, spend.Question{By: spend.ByTenant}, "bound 2300 at 100 a day, free 230 at 10 a day, 2530"},
		"of a month":         {[]budget.Use{month, requests}, spend.Question{By: spend.ByTenant}, "bound 1100 at 100 a day, free 230 at 10 a day, 1330"},
		"by model":           {[]budget.Use{month}, spend.Question{By: spend.ByModel}, "m 1055 at 85 a day, other 275 at 25 a day, 1330"},
		"of one model":       {[]budget.Use{month}, spend.Question{By: spend.ByTenant, Only: quota.UsageQuery{Model: "other"}}, "bound 275 at 25 a day, 275"},
		"given anew":         {[]budget.Use{day}, spend.Question{By: spend.ByTenant}, "bound 1450 at 100 a day, free 230 at 10 a day, 1680"},
		"the tighter of two": {[]budget.Use{day, month}, spend.Question{By: spend.ByTenant}, "bound 1100 at 100 a day, free 230 at 10 a day, 1330"},
	} {
		t.Run(name, func(t *testing.T) {
			f.budgets = test.budgets
			if got := ask(test.q); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestGroupsBeyondTheLimitAreAddedUp(t *testing.T) {
	f := newLedger()
	const users = 20_050
	for i := range users {
		f.entries = append(f.entries, quota.Usage{
			Key: quota.Key{User: fmt.Sprint(i)}, Window: quota.Day, Start: at("2026-11-16 00:00"), Totals: quota.Totals{Requests: 1, Cost: 2},
		})
	}
	q := spend.Question{By: spend.ByUser, From: at("2026-11-16 00:00"), To: at("2026-11-23 00:00"), Limit: 10}
	report, err := spend.New(f, f.uses).Read(t.Context(), q, at("2026-11-17 12:00"))
	if err != nil || len(report.Groups) != 10 || report.Total.Cost != 2*users || report.Rest.Cost != 2*(users-10) || report.Others < 19_990 {
		t.Errorf("%d groups, %d others, %d in all, %d of the others, %v", len(report.Groups), report.Others, report.Total.Cost, report.Rest.Cost, err)
	}
}

func TestAmountsDoNotOverflow(t *testing.T) {
	f := newLedger()
	f.use(at("2026-11-16 01:00"), "a", "m", math.MaxInt64-1)
	f.use(at("2026-11-17 01:00"), "b", "m", math.MaxInt64-1)
	report := read(t, f, "2026-11-16 00:00", "2026-11-23 00:00", "2026-11-17 12:00", spend.ByTenant)
	if report.Total.Cost != math.MaxInt64 || report.Total.Forecast != math.MaxInt64 || report.Groups[0].Forecast < report.Groups[0].Cost {
		t.Errorf("%+v", report.Total)
	}
}

func TestLedgerThatIsOffOrFailsIsTold(t *testing.T) {
	f := newLedger()
	f.off = true
	if report := read(t, f, "2026-11-16 00:00", "2026-11-23 00:00", "2026-11-17 12:00", spend.ByTenant); report.Enabled || report.Total.Cost != 0 || len(report.Total.Costs) != 7 {
		t.Errorf("%+v", report)
	}
	f.off, f.err = false, errors.New("away")
	f.use(at("2026-11-17 01:00"), "a", "m", 7)
	q := spend.Question{From: at("2026-11-16 00:00"), To: at("2026-11-23 00:00"), Limit: 5}
	if report, err := spend.New(f, f.uses).Read(t.Context(), q, at("2026-11-17 12:00")); !errors.Is(err, f.err) || report.Total.Cost != 7 {
		t.Errorf("%v, %+v", err, report.Total)
	}
}

func TestPeriodsThatAreNoneAreRefused(t *testing.T) {
	for _, q := range []spend.Question{
		{From: at("2026-11-16 00:00"), To: at("2026-11-16 00:00")},
		{From: at("2026-11-16 00:00"), To: at("2026-11-15 00:00")},
		{From: at("2006-11-16 00:00"), To: at("2026-11-15 00:00")},
	} {
		if q.Check() == nil {
			t.Errorf("%v to %v is taken", q.From, q.To)
		}
	}
}

// Whoever invents users gets no more memory than this: they are added up from some number on,
// and nothing is lost of the total.
func TestGroupsThatAreToldApartAreBounded(t *testing.T) {
	const users, steps = 90_000, 30
	f := newLedger()
	for i := range users {
		f.entries = append(f.entries, quota.Usage{
			Key: quota.Key{User: fmt.Sprint(i)}, Window: quota.Day, Start: at("2026-11-01 00:00"), Totals: quota.Totals{Requests: 1, Cost: 1},
		})
	}
	q := spend.Question{By: spend.ByUser, From: at("2026-10-25 00:00"), To: at("2026-10-25 00:00").AddDate(0, 0, steps), Limit: users}
	report, err := spend.New(f, f.uses).Read(t.Context(), q, at("2026-11-17 00:00"))
	if err != nil {
		t.Fatal(err)
	}
	if kept := len(report.Groups) * steps; kept > 3<<20 || len(report.Groups) < 1000 {
		t.Errorf("%d groups of %d steps are told apart", len(report.Groups), steps)
	}
	if report.Total.Cost != users || report.Rest.Cost != int64(users-len(report.Groups)) {
		t.Errorf("total %d, rest %d", report.Total.Cost, report.Rest.Cost)
	}
}

// slowLedger answers nobody until it is told to.
type slowLedger struct {
	*fakeLedger
	asked, answer chan struct{}
}

func (s *slowLedger) EachUsageIn(ctx context.Context, q quota.UsageQuery, windows []quota.CalendarWindow, visit func(quota.Usage)) (bool, error) {
	s.asked <- struct{}{}
	<-s.answer
	return s.fakeLedger.EachUsageIn(ctx, q, windows, visit)
}

// A client that leaves while another question is answered does not wait for that, and a question
// whose client has left is not asked.
func TestQuestionsOfClientsThatLeftDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowLedger{newLedger(), make(chan struct{}), make(chan struct{})}
		slow.off = true // one look is enough
		reader := spend.New(slow, slow.uses)
		q := spend.Question{From: at("2026-11-01 00:00"), To: at("2026-11-02 00:00"), Limit: 1}
		first := make(chan error, 1)
		go func() {
			_, err := reader.Read(t.Context(), q, at("2026-11-03 00:00"))
			first <- err
		}()
		<-slow.asked
		ctx, leave := context.WithCancel(t.Context())
		second := make(chan error, 1)
		go func() {
			_, err := reader.Read(ctx, q, at("2026-11-03 00:00"))
			second <- err
		}()
		synctest.Wait()
		leave()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("the question of a client that left: %v", err)
		}
		slow.answer <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}
		if _, err := reader.Read(ctx, q, at("2026-11-03 00:00")); !errors.Is(err, context.Canceled) {
			t.Errorf("a question of a client that left before: %v", err)
		}
	})
}

// Until the ledger has counted for a day there is no forecast, and no budget bounds one: not of a
// load that began just before midnight, and not where only days are counted.
func TestForecastWaitsForADayOfData(t *testing.T) {
	for name, test := range map[string]struct {
		begins, now string
		windows     []quota.Window
		isForetold  bool
	}{
		"half a minute":          {begins: "2026-11-02 10:00", now: "2026-11-02 10:00"},
		"an hour":                {begins: "2026-11-02 10:00", now: "2026-11-02 11:10"},
		"over midnight":          {begins: "2026-11-02 23:58", now: "2026-11-03 00:10"},
		"23 hours":               {begins: "2026-11-02 10:30", now: "2026-11-03 09:30"},
		"a day":                  {begins: "2026-11-02 10:30", now: "2026-11-03 10:31", isForetold: true},
		"a day, by days":         {begins: "2026-11-02 10:30", now: "2026-11-03 10:31", windows: []quota.Window{quota.Day}},
		"the day after, by days": {begins: "2026-11-02 10:30", now: "2026-11-04 00:00", windows: []quota.Window{quota.Day}, isForetold: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLedger()
			if test.windows != nil {
				f.settings.Windows = test.windows
			}
			f.use(at(test.begins), "acme", "m", 5)
			f.budgets = []budget.Use{{Account: "tenant/acme", Window: quota.BudgetTotal, Unit: budget.Cost, Limit: 10, Used: 5}}
			for _, period := range [][2]string{{"2026-11-01 00:00", "2026-12-01 00:00"}, {test.now[:10] + " 00:00", "2026-11-05 00:00"}} {
				report := read(t, f, period[0], period[1], test.now, spend.ByTenant)
				if report.HasForecast != test.isForetold || !test.isForetold && (report.Total.Pace != 0 || report.Total.Forecast != report.Total.Cost) {
					t.Errorf("%v: forecast %v of %d at a pace of %d", period, report.HasForecast, report.Total.Forecast, report.Total.Pace)
				}
			}
		})
	}
}

// However the spending is cut, its total is foretold alike, to the last digit, and the bounds are
// as far apart as its days differ.
func TestATotalHasOneForecastAndItsRange(t *testing.T) {
	f := newLedger()
	for d := 8; d <= 14; d++ {
		for i, tenant := range []string{"a", "b", "c"} {
			f.use(at(fmt.Sprintf("2026-11-%02d 1%d:00", d, i)), tenant, fmt.Sprint("m", d%3), int64(17*d+31*i+d*d%7))
		}
	}
	var first spend.Group
	for _, by := range []spend.Dimension{spend.ByTenant, spend.ByModel, spend.ByUser, spend.ByKey, spend.ByService} {
		total := read(t, f, "2026-11-01 00:00", "2026-12-01 00:00", "2026-11-15 00:00", by).Total
		if by == spend.ByTenant {
			first = total
		}
		if total.Forecast != first.Forecast || total.Low != first.Low || total.High != first.High || total.Pace != first.Pace {
			t.Errorf("by %v: %d between %d and %d, by tenant %d between %d and %d", by, total.Forecast, total.Low, total.High, first.Forecast, first.Low, first.High)
		}
		if !(total.Cost < total.Low && total.Low < total.Forecast && total.Forecast < total.High) {
			t.Errorf("%d: %d between %d and %d", total.Cost, total.Forecast, total.Low, total.High)
		}
	}
	steady := newLedger()
	for d := 8; d <= 14; d++ {
		steady.use(at(fmt.Sprintf("2026-11-%02d 12:00", d)), "a", "m", 100)
	}
	if got := read(t, steady, "2026-11-01 00:00", "2026-12-01 00:00", "2026-11-15 00:00", spend.ByTenant).Total; got.Low != got.Forecast || got.High != got.Forecast {
		t.Errorf("days that cost the same: %d between %d and %d", got.Forecast, got.Low, got.High)
	}
}
