package quota

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// bench is a ledger without goroutines on a disk in memory.
type bench struct {
	*Ledger
	t    *testing.T
	disk *memoryDisk
	sql  *MemorySnapshots
	now  time.Time
}

func newBench(t *testing.T, edit func(*Settings)) *bench {
	t.Helper()
	return newBenchOn(t, newMemoryDisk(), new(MemorySnapshots), edit)
}

func newBenchOn(t *testing.T, d *memoryDisk, sql *MemorySnapshots, edit func(*Settings)) *bench {
	t.Helper()
	b := &bench{t: t, disk: d, sql: sql, now: time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)}
	settings := DefaultSettings()
	settings.Enabled = true
	if edit != nil {
		edit(&settings)
	}
	b.Ledger = New(settings, Options{
		OpenSnapshots: func(context.Context) (Snapshots, error) { return b.sql, nil },
		Now:           func() time.Time { return b.now }, disk: d, manual: true,
	})
	return b
}

// count sends a request that costs tokens; below zero nobody says how many.
func (b *bench) count(user string, at time.Time, tokens int64) {
	b.t.Helper()
	var ticket Ticket
	if err := b.Admit(&ticket, Subject{User: []byte(user), Service: schema.Chat, Model: "m"}, at); err != nil {
		b.t.Fatal(err)
	}
	ticket.Settle(schema.Usage{Known: tokens >= 0, Total: tokens})
}

// counts returns "requests/tokens" of a user by the start of each window.
func (b *bench) counts(user string, w Window) map[string]string {
	b.t.Helper()
	usage, _, err := b.Usage(context.Background(), UsageQuery{User: user, Window: &w, From: new(time.Unix(0, 0)), To: new(b.now.AddDate(10, 0, 0))})
	if err != nil {
		b.t.Fatal(err)
	}
	found := map[string]string{}
	for _, u := range usage {
		found[u.Start.Format(time.RFC3339)] = fmt.Sprintf("%d/%d", u.Requests, u.Tokens)
	}
	return found
}

func (b *bench) has(user string, w Window, want map[string]string) {
	b.t.Helper()
	got := b.counts(user, w)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("%s %v: %v, want %v", user, w, got, want)
	}
}

func (b *bench) flush() {
	b.t.Helper()
	if err := b.session.flush(context.Background()); err != nil {
		b.t.Fatal(err)
	}
}

// countedWindows is how many windows a ledger of usage counts in.
const countedWindows = int(Month) + 1

const day = "2026-05-31T00:00:00Z"

func TestLedgerThatIsOffUsesNoResources(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := filepath.Join(t.TempDir(), "data", JournalDir)
	before := runtime.NumGoroutine()
	never := func() { t.Error("a store was opened") }
	settings := DefaultSettings()
	settings.Distributed.Enabled = true
	l := New(settings, Options{
		Dir:           dir,
		OpenSnapshots: func(context.Context) (Snapshots, error) { never(); return nil, errFault },
		Shared:        struct{ Shared }{}, // panics when it is used
	})
	var ticket Ticket
	if err := l.Admit(&ticket, benchSubject, time.Now()); err != nil || ticket != (Ticket{}) {
		t.Errorf("%v %v", err, ticket)
	}
	ticket.Settle(schema.Usage{Known: true, Total: 1})
	if usage, enabled, err := l.Usage(t.Context(), UsageQuery{}); len(usage) != 0 || enabled || err != nil {
		t.Errorf("%v %v %v", usage, enabled, err)
	}
	if s := l.Status(t.Context()); s.Reason != "" || s.Settings.Enabled || s.Probe == nil || s.Probe.Reachable {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Errorf("a directory was made: %v", err)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines more", n-before)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTurnedOffWritesWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, sql := newMemoryDisk(), new(MemorySnapshots)
		l := New(DefaultSettings(), Options{OpenSnapshots: func(context.Context) (Snapshots, error) { return sql, nil }, disk: disk})
		yes, no := true, false
		l.Edit(Edit{Enabled: &yes})
		var early, late Ticket
		for _, ticket := range []*Ticket{&early, &late} {
			if err := l.Admit(ticket, benchSubject, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		early.Settle(schema.Usage{Known: true, Total: 10})
		l.Edit(Edit{Enabled: &no})
		var none Ticket
		if err := l.Admit(&none, benchSubject, time.Now()); err != nil || none != (Ticket{}) {
			t.Error("counted while off")
		}
		<-time.After(5 * time.Second)
		if l.currentSession() == nil {
			t.Error("a request is in flight and the ledger has ended")
		}
		late.Settle(schema.Usage{Known: true, Total: 5})
		<-time.After(2 * time.Minute)
		if l.currentSession() != nil {
			t.Error("off, and still there after the next flush")
		}
		if names, _ := disk.Names(); len(names) != 0 {
			t.Errorf("files are left: %v", names)
		}
		var requests, tokens int64
		for _, row := range sql.rows {
			if row.Window == Day {
				requests, tokens = requests+row.Requests, tokens+row.Tokens
			}
		}
		if requests != 2 || tokens != 15 {
			t.Errorf("%d requests, %d tokens", requests, tokens)
		}
		// On again is another writer: the first one's totals stand.
		l.Edit(Edit{Enabled: &yes})
		if err := l.Admit(&early, benchSubject, time.Now()); err != nil {
			t.Fatal(err)
		}
		early.Settle(schema.Usage{Known: true, Total: 1})
		w := Month
		usage, _, err := l.Usage(t.Context(), UsageQuery{Window: &w})
		if err != nil || len(usage) != 1 || usage[0].Requests != 3 || usage[0].Tokens != 16 {
			t.Errorf("%v %v", usage, err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestEveryRequestIsInOneWindowOfEachKind(t *testing.T) {
	b := newBench(t, nil)
	edge := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.count("u", edge.Add(-time.Nanosecond), 1)
	b.count("u", edge, 10)
	for w, start := range map[Window]string{Minute: "2025-12-31T23:59:00Z", Hour: "2025-12-31T23:00:00Z", Day: "2025-12-31T00:00:00Z", Month: "2025-12-01T00:00:00Z"} {
		b.has("u", w, map[string]string{start: "1/1", "2026-01-01T00:00:00Z": "1/10"})
	}
}

func TestTokensGoToTheWindowOfArrival(t *testing.T) {
	b := newBench(t, nil)
	b.now = time.Date(2026, 5, 31, 23, 59, 50, 0, time.UTC)
	var ticket Ticket
	if err := b.Admit(&ticket, Subject{User: []byte("u"), Service: schema.Chat, Model: "m"}, b.now); err != nil {
		t.Fatal(err)
	}
	b.flush()
	b.now = b.now.Add(2 * time.Hour) // long after the window left memory, but for this request
	b.flush()
	ticket.Settle(schema.Usage{Known: true, Total: 9})
	b.flush()
	b.has("u", Minute, map[string]string{"2026-05-31T23:59:00Z": "1/9"})
	b.has("u", Month, map[string]string{"2026-05-01T00:00:00Z": "1/9"})
	if cells := b.Stats().Cells; cells != 0 {
		t.Errorf("%d cells are held", cells)
	}
}

func TestClockThatGoesBackLosesNothing(t *testing.T) {
	b := newBench(t, nil)
	start := b.now
	b.count("u", b.now, 1)
	b.now = b.now.Add(3 * time.Hour)
	b.flush() // the windows of minute and hour are let go
	b.now = start
	b.count("u", b.now, 2)
	b.flush()
	b.now = b.now.Add(3 * time.Hour)
	b.flush()
	b.now = start
	b.count("u", b.now, 4)
	b.has("u", Minute, map[string]string{"2026-05-31T12:00:00Z": "3/7"})
	b.has("u", Day, map[string]string{day: "3/7"})
}

func TestWindowsAreInUTC(t *testing.T) {
	for _, zone := range []string{"America/Sao_Paulo", "Asia/Kolkata"} {
		where, err := time.LoadLocation(zone)
		if err != nil {
			t.Skip(err)
		}
		at := time.Date(2024, 2, 29, 23, 30, 0, 0, time.UTC)
		for _, w := range Windows() {
			if got := w.Start(at.In(where)); !got.Equal(w.Start(at)) || got.Location() != time.UTC {
				t.Errorf("%v in %s: %v", w, zone, got)
			}
		}
	}
	for start, want := range map[string]string{"2024-02-01": "2024-03-01", "2026-01-01": "2026-02-01", "2026-12-01": "2027-01-01"} {
		from, _ := time.Parse(time.DateOnly, start)
		if got := Month.End(from).Format(time.DateOnly); got != want {
			t.Errorf("the month of %s ends on %s", start, got)
		}
	}
	if got := Day.Start(time.Date(1969, 12, 31, 1, 0, 0, 0, time.UTC)).Format(time.RFC3339); got != "1969-12-31T00:00:00Z" {
		t.Errorf("before 1970: %s", got)
	}
}

func TestRetentionCountsMonthsFromTheFirst(t *testing.T) {
	keep := Period{13, Months}
	for now, want := range map[string]string{
		"2026-03-31": "2025-02-01", "2024-02-29": "2023-01-01", "2026-01-31": "2024-12-01", "2025-12-31": "2024-11-01",
	} {
		at, _ := time.Parse(time.DateOnly, now)
		if got := Month.cutoff(at.Add(time.Hour), keep).Format(time.DateOnly); got != want {
			t.Errorf("on %s: %s, want %s", now, got, want)
		}
	}
	at := time.Date(2026, 5, 15, 12, 30, 30, 0, time.UTC)
	if got := Minute.cutoff(at, Period{1, Days}).Format(time.RFC3339); got != "2026-05-14T12:30:00Z" {
		t.Errorf("minute: %s", got)
	}
}

func TestOldCountsAreRemovedUnlessTheClockJumps(t *testing.T) {
	begin := time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)
	var r expirySchedule
	for _, step := range []struct {
		wall, passed time.Duration
		want         bool
	}{
		{0, 0, false},
		{5 * time.Minute, 5 * time.Minute, false},
		{11 * time.Minute, 11 * time.Minute, true},
		{40 * 24 * time.Hour, 30 * time.Minute, false}, // the clock jumped
		{40*24*time.Hour + time.Hour, 90 * time.Minute, false},
		{2 * time.Hour, 2 * time.Hour, false}, // and back
		{25 * time.Hour, 25 * time.Hour, false},
		{27 * time.Hour, 27 * time.Hour, true}, // a day later it is believed
	} {
		if got := r.due(begin.Add(step.wall), begin.Add(step.passed)); got != step.want {
			t.Errorf("at %v after %v: %v", step.wall, step.passed, got)
		}
	}
}

func TestTooManyUsersAreCountedTogether(t *testing.T) {
	b := newBench(t, nil)
	b.session.cells.maxKeys = 10
	for i := range 50 {
		b.count(fmt.Sprint("user-", i), b.now, 1)
	}
	b.count("user-3", b.now, 1)
	b.has("user-3", Day, map[string]string{day: "2/2"})
	b.has(Overflow, Day, map[string]string{day: "40/40"})
	// A client that names tenants is bounded, too.
	b.session.cells.maxKeys = -spareKeys
	for i := range 5 {
		var ticket Ticket
		_ = b.Admit(&ticket, Subject{Tenant: fmt.Sprint("t", i), User: []byte("x"), Service: schema.Chat, Model: "m"}, b.now)
		ticket.Settle(schema.Usage{})
	}
	usage, _, _ := b.Usage(t.Context(), UsageQuery{Tenant: Overflow})
	if len(usage) != countedWindows || usage[0].Requests != 5 {
		t.Errorf("%v", usage)
	}
	if s := b.Stats(); s.Keys != 12 || s.Overflowed != 45 {
		t.Errorf("%+v", s)
	}
}

func TestUnstorableTextIsHashed(t *testing.T) {
	b := newBench(t, nil)
	long := strings.Repeat("x", 10_000)
	for _, user := range []string{"a\x00b", "a\x00c", "bad \xff", "bad \xfe", long, long + "y"} {
		b.count(user, b.now, 1)
		b.count(user, b.now, 1)
	}
	for _, user := range []string{"a\x00b", "a\x00c", "bad \xff", "bad \xfe", long, long + "y"} {
		b.has(user, Day, map[string]string{day: "2/2"}) // asked for as it was sent
	}
	usage, _, _ := b.Usage(t.Context(), UsageQuery{})
	if len(usage) != 6*countedWindows {
		t.Errorf("%d entries", len(usage))
	}
	for _, u := range usage {
		if !utf8.ValidString(u.Key.User) || len(u.Key.User) > maxText || u.Requests != 2 {
			t.Errorf("%+v", u)
		}
	}
}

func TestWindowsCanBeEdited(t *testing.T) {
	b := newBench(t, nil)
	b.count("u", b.now, 1)
	b.Edit(Edit{Windows: []Window{Hour}})
	b.count("u", b.now, 1)
	b.Edit(Edit{Windows: []Window{}})
	b.count("u", b.now, 1)
	b.Edit(Edit{Windows: []Window{Hour, Day}})
	b.count("u", b.now, 1)
	b.has("u", Hour, map[string]string{"2026-05-31T12:00:00Z": "3/3"})
	b.has("u", Day, map[string]string{day: "2/2"})
	usage, _, _ := b.Usage(t.Context(), UsageQuery{})
	var kinds []Window
	for _, u := range usage {
		kinds = append(kinds, u.Window)
	}
	if !slices.Equal(kinds, []Window{Hour, Day}) {
		t.Errorf("open windows %v", kinds)
	}
}

func TestReloadRevertsEdits(t *testing.T) {
	b := newBench(t, nil)
	configured := b.Settings()
	no := false
	b.Edit(Edit{Enabled: &no, FailOpen: &no, Windows: []Window{Day}})
	b.Reload(configured)
	if !settings.Equal(b.Settings(), configured) || !b.On() {
		t.Errorf("%+v", b.Settings())
	}
}

func TestSettleCountsOnce(t *testing.T) {
	b := newBench(t, nil)
	var ticket Ticket
	if err := b.Admit(&ticket, Subject{User: []byte("u"), Service: schema.Chat, Model: "m"}, b.now); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ticket.Settle(schema.Usage{Known: true, Total: 7})
	}
	b.has("u", Day, map[string]string{day: "1/7"})
	b.count("u", b.now, -1)
	if s := b.Stats(); s.Unsettled != 1 || s.Admitted != 2 || s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
}

func TestJournalThatFailsRefusesOrDegrades(t *testing.T) {
	b := newBench(t, nil)
	b.count("u", b.now, 1)
	b.disk.failWrite, b.disk.failAfter = true, 9
	no := false
	b.Edit(Edit{FailOpen: &no})
	var ticket Ticket
	for range 3 {
		if err := b.Admit(&ticket, benchSubject, b.now); !errors.Is(err, ErrUnavailable) || ticket != (Ticket{}) {
			t.Errorf("%v", err)
		}
	}
	if s := b.Status(t.Context()); !strings.HasPrefix(s.Reason, "quota-journal-unavailable: ") {
		t.Errorf("reason %q", s.Reason)
	}
	yes := true
	b.Edit(Edit{FailOpen: &yes})
	b.count("u", b.now, 1)
	b.disk.failWrite = false
	b.session.repair()
	if s := b.Status(t.Context()); s.Reason != "" {
		t.Errorf("reason %q", s.Reason)
	}
	// What was counted while nothing could be written is safe now.
	after := newBenchOn(t, b.disk.afterKill(), b.sql, nil)
	after.has("u", Day, map[string]string{day: "2/2"})
	if s := b.Stats(); s.Refused != 3 || s.JournalFailures < 1 {
		t.Errorf("%+v", s)
	}
}

func TestDatabaseThatIsAwayLosesNothing(t *testing.T) {
	b := newBench(t, nil)
	b.sql.Down = true
	for i := range 100 {
		b.count("u", b.now, 1)
		if err := b.session.flush(t.Context()); !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		b.now = b.now.Add(time.Duration(i%2) * time.Minute)
	}
	if names, _ := b.disk.Names(); len(names) > 2 {
		t.Errorf("%d segments", len(names))
	}
	if s := b.Status(t.Context()); !strings.HasPrefix(s.Reason, "quota-store-unavailable: ") {
		t.Errorf("reason %q", s.Reason)
	}
	after := newBenchOn(t, b.disk.afterKill(), b.sql, nil)
	b.sql.Down = false
	after.now = b.now
	after.flush()
	after.has("u", Day, map[string]string{day: "100/100"})
	if names, _ := after.disk.Names(); len(names) != 1 {
		t.Errorf("segments left: %v", names)
	}
}

// TestDatabaseThatHangsDelaysNobody: not the requests, and not the counter that
// gateways share.
func TestDatabaseThatHangsDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := NewShared()
		settings := DefaultSettings()
		settings.Enabled, settings.Distributed.Enabled = true, true
		l := New(settings, Options{
			OpenSnapshots: func(ctx context.Context) (Snapshots, error) { <-ctx.Done(); return nil, ctx.Err() },
			Shared:        redis,
			disk:          newMemoryDisk(),
		})
		<-time.After(time.Minute)
		redis.Wipe()
		began := time.Now()
		for range 10 {
			var ticket Ticket
			if err := l.Admit(&ticket, benchSubject, time.Now()); err != nil {
				t.Fatal(err)
			}
			ticket.Settle(schema.Usage{Known: true, Total: 3})
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("requests waited %v", took)
		}
		redis.Wipe()
		<-time.After(5 * time.Second)
		rows := redis.Rows(OpenWindows(time.Now(), []Window{Month}))
		if len(rows) != 1 || rows[0].Requests != 10 || rows[0].Tokens != 30 {
			t.Errorf("the counter has %v", rows)
		}
		if _, _, err := l.Usage(t.Context(), UsageQuery{}); err == nil || time.Since(began) > 11*time.Second {
			t.Errorf("usage after %v: %v", time.Since(began), err)
		}
		if !strings.HasPrefix(l.Status(t.Context()).Reason, "quota-store-unavailable") {
			t.Errorf("%q", l.Status(t.Context()).Reason)
		}
		began = time.Now()
		// What the database did not take is said, and stays in the journal.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2*time.Second {
			t.Errorf("closed after %v: %v", time.Since(began), err)
		}
	})
}

func TestConcurrentRequestsAreAllCounted(t *testing.T) {
	b := newBench(t, nil)
	var clients sync.WaitGroup
	const goroutines, requests = 8, 500
	stop := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = b.session.flush(context.Background())
			}
		}
	})
	for g := range goroutines {
		clients.Go(func() {
			var ticket Ticket
			for i := range requests {
				at := b.now.Add(time.Duration(i%3-1) * time.Minute)
				if err := b.Admit(&ticket, Subject{User: fmt.Append(nil, "u", (g+i)%5), Service: schema.Chat, Model: "m"}, at); err != nil {
					t.Error(err)
				}
				ticket.Settle(schema.Usage{Known: true, Total: 2})
			}
		})
	}
	clients.Wait()
	close(stop)
	background.Wait()
	b.flush()
	w := Day
	usage, _, err := b.Usage(t.Context(), UsageQuery{Window: &w, From: new(time.Unix(0, 0))})
	var total, tokens int64
	for _, u := range usage {
		total, tokens = total+u.Requests, tokens+u.Tokens
	}
	if total != goroutines*requests || tokens != 2*total || err != nil {
		t.Errorf("%d requests, %d tokens, %v", total, tokens, err)
	}
}
