package quota

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// pausingSnapshots is a database that answers a read as of the moment at which
// it was asked, and runs a function before the answer arrives.
type pausingSnapshots struct {
	*MemorySnapshots

	meanwhile func()
	asked     Filter // last
}

func (p *pausingSnapshots) Read(ctx context.Context, filter Filter) ([]Row, error) {
	rows, err := p.MemorySnapshots.Read(ctx, filter)
	p.asked = filter
	p.meanwhile()
	return rows, err
}

// TestUsageIsWholeWhileAFlushRuns lets a whole flush happen between the reading
// of the database and the arrival of its answer: what the flush moves from memory
// to the database must still be in the answer.
func TestUsageIsWholeWhileAFlushRuns(t *testing.T) {
	killed := newBench(t, nil)
	killed.count("before the kill", killed.now, 3)
	sql := &pausingSnapshots{MemorySnapshots: new(MemorySnapshots)}
	b := newBenchOn(t, killed.disk.afterKill(), sql.MemorySnapshots, nil)
	b.options.OpenSnapshots = func(context.Context) (Snapshots, error) { return sql, nil }
	b.count("after it", b.now, 5)
	flushed := false
	sql.meanwhile = func() {
		if !flushed {
			flushed = true
			b.now = b.now.Add(time.Hour) // the minute is over, and leaves memory
			b.flush()
		}
	}
	everything := UsageQuery{Window: new(Minute), From: new(time.Unix(0, 0)), To: new(b.now.AddDate(1, 0, 0))}
	usage, _, err := b.Usage(t.Context(), everything)
	if err != nil || !flushed {
		t.Fatalf("flushed: %t, %v", flushed, err)
	}
	found := map[string]string{}
	for _, u := range usage {
		found[u.Key.User] = fmt.Sprintf("%d/%d", u.Requests, u.Tokens)
	}
	if found["before the kill"] != "1/3" || found["after it"] != "1/5" || len(found) != 2 {
		t.Errorf("%v", found)
	}
}

// TestUsageIsReadWindowByWindow: an answer of any length takes the memory of one
// window, because its entries are passed on before the next window is read, and no
// read is without a bound.
func TestUsageIsReadWindowByWindow(t *testing.T) {
	sql := &pausingSnapshots{MemorySnapshots: new(MemorySnapshots)}
	b := newBenchOn(t, newMemoryDisk(), sql.MemorySnapshots, nil)
	b.options.OpenSnapshots = func(context.Context) (Snapshots, error) { return sql, nil }
	for _, user := range []string{"ann", "bob"} {
		b.count(user, b.now, 1)
	}
	var steps []string
	sql.meanwhile = func() {
		asked := sql.asked
		steps = append(steps, fmt.Sprint("read ", asked.Ranges[0].Window))
		if len(asked.Ranges) != 1 || asked.Limit == 0 {
			t.Errorf("%+v", asked)
		}
	}
	see := func(u Usage) bool {
		steps = append(steps, fmt.Sprint(u.Key.User, " ", u.Window))
		return true
	}
	if enabled, err := b.EachUsage(t.Context(), UsageQuery{}, see); err != nil || !enabled {
		t.Fatal(enabled, err)
	}
	var want []string
	for _, w := range Windows() {
		want = append(want, fmt.Sprint("read ", w), fmt.Sprint("ann ", w), fmt.Sprint("bob ", w))
	}
	if !slices.Equal(steps, want) {
		t.Errorf("%q", steps)
	}
	steps = nil
	stop := func(u Usage) bool { see(u); return false }
	if _, err := b.EachUsage(t.Context(), UsageQuery{}, stop); err != nil || len(steps) != 2 {
		t.Errorf("%q after the reader had enough, %v", steps, err)
	}
}

// endlessSnapshots is a database with more rows of every window than anybody
// wants, two writers for each user.
type endlessSnapshots struct{ MemorySnapshots }

func (*endlessSnapshots) Read(_ context.Context, filter Filter) ([]Row, error) {
	rows := make([]Row, filter.Limit)
	for n := range rows {
		key := Key{User: fmt.Sprintf("u%06d", n/2), Model: "m"}
		rows[n] = Row{Writer: fmt.Sprint(n % 2), Key: key, Window: filter.Ranges[0].Window, Start: filter.Ranges[0].From, Totals: Totals{Requests: 1}}
	}
	return rows, nil
}

// TestWindowWithTooManyRowsIsCutBetweenKeys: an open window has a bound, too, and
// what is listed of it is exact.
func TestWindowWithTooManyRowsIsCutBetweenKeys(t *testing.T) {
	b := newBench(t, nil)
	b.session.maxOpen = 1000
	b.options.OpenSnapshots = func(context.Context) (Snapshots, error) { return new(endlessSnapshots), nil }
	entries := 0
	_, err := b.EachUsage(t.Context(), UsageQuery{Window: new(Month)}, func(u Usage) bool {
		if entries++; u.Requests != 2 {
			t.Errorf("%+v", u)
		}
		return true
	})
	if !errors.Is(err, ErrTruncated) || entries != b.session.maxOpen/2 {
		t.Errorf("%d entries, %v", entries, err)
	}
}

// TestLongHistoryIsCutBetweenKeys: what is listed is exact, whoever knows it, and
// one window with very many keys does not vanish.
func TestLongHistoryIsCutBetweenKeys(t *testing.T) {
	now := time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)
	sql := new(MemorySnapshots)
	var rows []Row
	const most, users = 1000, 600
	for n := range users {
		for _, writer := range []string{"first", "second"} {
			key := Key{User: fmt.Sprintf("u%05d", n), Model: "m"}
			rows = append(rows, Row{Writer: writer, Key: key, Window: Month, Start: Month.Start(now), Totals: Totals{Requests: 1, Tokens: 2}})
		}
	}
	if err := sql.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	b := newBenchOn(t, newMemoryDisk(), sql, nil)
	b.session.maxHistory = most
	for _, user := range []string{"u00001", fmt.Sprintf("u%05d", users-1), "zz"} {
		b.count(user, now, 2)
	}
	w := Month
	usage, _, err := b.Usage(t.Context(), UsageQuery{Window: &w, From: new(time.Unix(0, 0)), To: new(now)})
	if !errors.Is(err, ErrTruncated) || len(usage) != most/2 {
		t.Fatalf("%d entries, %v", len(usage), err)
	}
	for _, u := range usage {
		want := int64(2)
		if u.Key.User == "u00001" {
			want = 3
		}
		if u.Requests != want || u.Tokens != 2*want {
			t.Errorf("%+v", u)
		}
	}
}

// TestHistoryThatJustFitsIsWhole: the limit itself is not too much.
func TestHistoryThatJustFitsIsWhole(t *testing.T) {
	now := time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)
	rows := make([]Row, 1000)
	for n := range rows {
		rows[n] = Row{Writer: "w", Key: Key{User: fmt.Sprint(n), Model: "m"}, Window: Month, Start: Month.Start(now), Totals: Totals{Requests: 1}}
	}
	sql := new(MemorySnapshots)
	if err := sql.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	b := newBenchOn(t, newMemoryDisk(), sql, nil)
	b.session.maxHistory = len(rows)
	if usage, _, err := b.Usage(t.Context(), UsageQuery{From: new(time.Unix(0, 0)), To: new(now)}); err != nil || len(usage) != len(rows) {
		t.Errorf("%d entries, %v", len(usage), err)
	}
}

// TestHistoryOfOpenWindowsAsksTheSharedCounter: the same window has one value,
// however it is asked for.
func TestHistoryOfOpenWindowsAsksTheSharedCounter(t *testing.T) {
	redis := NewShared()
	now := time.Now()
	other := Row{Writer: "other", Key: Key{Model: "m"}, Window: Day, Start: Day.Start(now), Totals: Totals{Requests: 5, Tokens: 50}}
	if err := TellRows(t.Context(), redis, other); err != nil {
		t.Fatal(err)
	}
	l := sharedLedger(redis)
	w := Day
	for _, q := range []UsageQuery{{Window: &w}, {Window: &w, From: new(Day.Start(now))}, {From: new(time.Time{})}} {
		if usage, _, err := l.Usage(t.Context(), q); err != nil || len(usage) != 1 || usage[0].Requests != 5 {
			t.Errorf("%+v: %v, %v", q, usage, err)
		}
	}
	if usage, _, _ := l.Usage(t.Context(), UsageQuery{Window: &w, To: new(Day.Start(now))}); len(usage) != 0 {
		t.Errorf("%v", usage)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTotalsAreByWriter: what each process counted, whether memory or the database has
// it, and who counts now.
func TestTotalsAreByWriter(t *testing.T) {
	killed := newBench(t, nil)
	killed.count("ann", killed.now, 3)
	b := newBenchOn(t, killed.disk.afterKill(), new(MemorySnapshots), nil)
	b.count("ann", b.now, 5)
	b.count("ann", b.now, 6)
	before := b.RecoveredWriters()
	today := Filter{Ranges: RangesOf(CalendarWindow{Day, Day.Start(b.now)})}
	if rows, _, err := b.Totals(t.Context(), today); err != nil || len(rows) != 2 {
		t.Errorf("%v, %v while the database is empty", rows, err)
	}
	b.flush() // now the database has it, too
	b.count("bob", b.now, 7)
	if after := b.RecoveredWriters(); after != nil {
		t.Errorf("memory still has the totals of %q, which the database has", after)
	}
	rows, writer, err := b.Totals(t.Context(), today)
	if err != nil || len(before) != 1 || writer == before[0] || writer == "" {
		t.Fatalf("%q counts now, %q were recovered: %v", writer, before, err)
	}
	found := map[string]string{}
	for _, row := range rows {
		if row.Window != Day {
			t.Errorf("%+v", row)
		}
		found[fmt.Sprint(row.Key.User, " ", row.Writer == writer)] = fmt.Sprintf("%d/%d", row.Requests, row.Tokens)
	}
	want := map[string]string{"ann false": "1/3", "ann true": "2/11", "bob true": "1/7"}
	if fmt.Sprint(found) != fmt.Sprint(want) || len(rows) != len(want) {
		t.Errorf("%v, want %v", found, want)
	}
}

// TestTotalsOfALedgerThatIsOff are none.
func TestTotalsOfALedgerThatIsOff(t *testing.T) {
	l := New(DefaultSettings(), Options{disk: newMemoryDisk()})
	rows, writer, err := l.Totals(t.Context(), Filter{Ranges: RangesOf(CalendarWindow{Day, time.Unix(0, 0)})})
	if rows != nil || writer != "" || err != nil || l.RecoveredWriters() != nil {
		t.Errorf("%v, %q, %v, %v", rows, writer, err, l.RecoveredWriters())
	}
}

// TestCostsBeyondWhatCanBeCountedStayAtTheGreatest.
func TestCostsBeyondWhatCanBeCountedStayAtTheGreatest(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range [][3]int64{{1, 2, 3}, {most, 0, most}, {most - 1, 1, most}, {most - 1, 2, most}, {most, most, most}, {0, 0, 0}} {
		if got := addCost(c[0], c[1]); got != c[2] {
			t.Errorf("%d and %d are %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// TestUsageWithoutTheSharedCounter: what memory and the database have is listed, together
// with the failure; where no open window is asked for, the shared counter is not needed.
func TestUsageWithoutTheSharedCounter(t *testing.T) {
	redis := NewShared()
	redis.Down = true
	l := sharedLedger(redis)
	defer func() {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if _, _, err := l.Usage(t.Context(), UsageQuery{Window: new(Day)}); err == nil {
		t.Error("the usage of today hides the failure of the shared counter")
	}
	past := UsageQuery{From: new(time.Unix(0, 0)), To: new(time.Unix(86_400, 0))}
	if _, _, err := l.Usage(t.Context(), past); err != nil {
		t.Errorf("the usage of long ago: %v", err)
	}
}

// TestListedWindowsAreReadOneByOne: many keys in each of many windows are whole, because the
// bound is that of one window.
func TestListedWindowsAreReadOneByOne(t *testing.T) {
	now := time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)
	sql := new(MemorySnapshots)
	const users, days = 40, 20
	var windows []CalendarWindow
	var rows []Row
	for day := range days {
		start := Day.Start(now.AddDate(0, 0, -day))
		windows = append(windows, CalendarWindow{Day, start})
		for user := range users {
			rows = append(rows, Row{Writer: "w", Key: Key{User: fmt.Sprint(user), Tenant: fmt.Sprint(user % 2)}, Window: Day, Start: start, Totals: Totals{Requests: 1, Cost: 3}})
		}
	}
	if err := sql.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	b := newBenchOn(t, newMemoryDisk(), sql, nil)
	b.now = now
	b.session.maxOpen, b.session.maxHistory = users, users
	b.count("0", now, 2) // counted just now, and only in memory
	var requests, cost int64
	enabled, err := b.EachUsageIn(t.Context(), UsageQuery{}, windows, func(u Usage) { requests, cost = requests+u.Requests, cost+u.Cost })
	if !enabled || err != nil || requests != users*days+1 || cost != 3*users*days {
		t.Errorf("%t, %v, %d requests, cost %d", enabled, err, requests, cost)
	}
	requests = 0
	if _, err := b.EachUsageIn(t.Context(), UsageQuery{Tenant: "1"}, windows[:2], func(u Usage) { requests += u.Requests }); err != nil || requests != users {
		t.Errorf("%v, %d requests of a tenant", err, requests)
	}
	b.session.maxOpen = users - 1
	if _, err := b.EachUsageIn(t.Context(), UsageQuery{}, windows, func(Usage) {}); !errors.Is(err, ErrTruncated) {
		t.Errorf("beyond the bound: %v", err)
	}
	sql.Down = true
	if _, err := b.EachUsageIn(t.Context(), UsageQuery{}, windows, func(Usage) {}); err == nil || errors.Is(err, ErrTruncated) {
		t.Errorf("without the database: %v", err)
	}
}

// Costs that are more than can be counted stay at the greatest number.
func TestCostsOfACellDoNotOverflow(t *testing.T) {
	var d counts
	for range 3 {
		d.add(Totals{Cost: math.MaxInt64 - 1})
	}
	if got := d.load().Cost; got != math.MaxInt64 {
		t.Errorf("%d", got)
	}
}
