package quota

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// slowSnapshots is a database that is too slow for more rows at once than a
// batch has, and that fails again after a number of batches.
type slowSnapshots struct {
	MemorySnapshots

	most    int // rows at once
	batches int // that are still taken
	rows    int // taken so far
}

func (s *slowSnapshots) Write(ctx context.Context, rows []Row) error {
	if len(rows) > s.most {
		return context.DeadlineExceeded
	}
	if len(rows) > 0 {
		if s.batches == 0 {
			return errFault
		}
		s.batches--
	}
	s.rows += len(rows)
	return s.MemorySnapshots.Write(ctx, rows)
}

// TestBacklogIsWrittenInBatches: what was committed before a failure is not written
// again, so that each try brings a backlog of any size nearer to its end.
func TestBacklogIsWrittenInBatches(t *testing.T) {
	const batch = 40
	sql := &slowSnapshots{most: batch}
	b := newBenchOn(t, newMemoryDisk(), &sql.MemorySnapshots, nil)
	b.options.OpenSnapshots = func(context.Context) (Snapshots, error) { return sql, nil }
	b.session.flushBatch = batch
	const users = 3*batch/countedWindows + 1 // four batches, the last one small
	for n := range users {
		b.count(fmt.Sprint("user-", n), b.now, 1)
	}
	for try := range 4 {
		if err := b.session.flush(t.Context()); !errors.Is(err, errFault) {
			t.Fatalf("try %d: %v", try, err)
		}
		sql.batches = 1
		if names, _ := b.disk.Names(); len(names) > 2 {
			t.Errorf("try %d left %v", try, names)
		}
	}
	if want := 3 * batch; sql.rows != want {
		t.Errorf("%d rows were written, want %d", sql.rows, want)
	}
	// Killed in the middle: the journal has what the database lacks.
	after := newBenchOn(t, b.disk.afterKill(), &sql.MemorySnapshots, nil)
	after.has(fmt.Sprint("user-", users-1), Day, map[string]string{day: "1/1"})
	b.flush()
	if want := users * countedWindows; sql.rows != want || b.Stats().RowsWritten != int64(want) {
		t.Errorf("%d rows were written, want %d, as there are cells", sql.rows, want)
	}
	if names, _ := b.disk.Names(); len(names) != 1 || b.Status(t.Context()).Reason != "" {
		t.Errorf("%v, %s", names, b.Status(t.Context()).Reason)
	}
}

// TestJournalIsCompactedWhenItDoubled: while the database is away, writing the
// journal anew costs in proportion to what is counted, not to how long that takes.
func TestJournalIsCompactedWhenItDoubled(t *testing.T) {
	b := newBench(t, nil)
	b.session.compactAt = 1 << 10
	b.sql.Down = true
	const users = 100
	for n := range users {
		b.count(fmt.Sprint("user-", n), b.now, 1)
		for range 5 { // time passes
			_ = b.session.flush(t.Context())
			b.session.maintainJournal()
		}
	}
	held, least := b.session.journal.totalSize(), b.session.compactAt
	doublings := bits.Len64(uint64(held / least))
	if most := doublings + 3; b.disk.creates > most || doublings < 3 {
		t.Errorf("%d segments were begun for %d bytes, want %d at most", b.disk.creates, held, most)
	}
	if held > 2*b.session.compactedSize+least {
		t.Errorf("%d bytes are held, %d were when it was written anew", held, b.session.compactedSize)
	}
	// One that does not grow in substance is kept as small as it can be.
	for range 20 * users {
		b.count("user-1", b.now, 1)
		b.session.maintainJournal()
	}
	if grown := b.session.journal.totalSize(); grown > 2*held+least {
		t.Errorf("%d bytes are held for the same cells, %d before", grown, held)
	}
	after := newBenchOn(t, b.disk.afterKill(), new(MemorySnapshots), nil)
	after.has("user-1", Day, map[string]string{day: fmt.Sprintf("%d/%[1]d", 1+20*users)})
	after.has(fmt.Sprint("user-", users-1), Minute, map[string]string{"2026-05-31T12:00:00Z": "1/1"})
}

// TestMemoryIsBoundedWhileTheDatabaseIsAway: beyond a number of cells users are
// counted together, then tenants, and then it is as if the ledger had failed.
func TestMemoryIsBoundedWhileTheDatabaseIsAway(t *testing.T) {
	b := newBench(t, nil)
	const users = 10
	b.session.cells.maxCells, b.session.cells.spareCells = users*int64(countedWindows), 2
	b.sql.Down = true
	total := 0
	minute := func() (refused int) {
		b.now = b.now.Add(time.Minute)
		for n := range users {
			var ticket Ticket
			who := Subject{Tenant: "acme", User: fmt.Append(nil, "user-", n), Service: schema.Chat, Model: "m"}
			if err := b.Admit(&ticket, who, b.now); errors.Is(err, ErrUnavailable) {
				refused++
				continue
			}
			ticket.Settle(schema.Usage{Known: true, Total: 1})
			total++
		}
		_ = b.session.flush(t.Context())
		return refused
	}
	requests := func(user string, w Window) (sum int) {
		usage, _, _ := b.Usage(t.Context(), UsageQuery{User: user, Window: &w, From: new(time.Unix(0, 0)), To: new(b.now.AddDate(1, 0, 0))})
		for _, u := range usage {
			sum += int(u.Requests)
		}
		return sum
	}
	isFull := func() bool { return strings.Contains(b.Status(t.Context()).Reason, "quota-memory-full: ") }

	minute()
	if requests(Overflow, Minute) != 0 || b.Stats().Overflowed != 0 {
		t.Errorf("%d are counted together while there is room", requests(Overflow, Minute))
	}
	// Two minutes for the users of a tenant together, two more for all tenants.
	for range 4 {
		minute()
	}
	if got := requests(Overflow, Minute); got != 4*users || requests("", Minute) != total || b.Stats().Overflowed != 4*users || !isFull() {
		t.Errorf("%d of %d are counted together, %d in all; %s", got, total, requests("", Minute), b.Status(t.Context()).Reason)
	}
	// Nothing is left: the windows that have a cell count on.
	minute()
	if got := requests("", Minute); got != total-users || requests("user-3", Day) != 6 || requests("", Month) != total {
		t.Errorf("%d of %d in minutes, %d in the month", got, total, requests("", Month))
	}
	if s := b.Stats(); s.Uncounted != users || s.Cells != b.session.cells.maxCells+2*b.session.cells.spareCells {
		t.Errorf("%+v", s)
	}
	b.Edit(Edit{FailOpen: new(false)})
	if refused := minute(); refused != users || b.Stats().Uncounted != users || requests("user-3", Day) != 6 {
		t.Errorf("%d are refused", refused)
	}
	b.sql.Down = false
	b.flush()
	if isFull() {
		t.Errorf("full when the database is back: %s", b.Status(t.Context()).Reason)
	}
	if refused := minute(); refused != 0 || requests("", Month) != total || requests("user-3", Minute) != 2 {
		t.Errorf("%d are refused when the database is back, %d of %d are in the month", refused, requests("", Month), total)
	}
}

// TestDatabaseIsAskedBetweenFlushes: that it is away shows without traffic and long
// before the next flush, and so does that it is back.
func TestDatabaseIsAskedBetweenFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sql := new(MemorySnapshots)
		settings := DefaultSettings()
		settings.Enabled, settings.FlushIntervalSeconds = true, 3600
		l := New(settings, Options{OpenSnapshots: func(context.Context) (Snapshots, error) { return sql, nil }, disk: newMemoryDisk()})
		down := func(so bool) {
			sql.mu.Lock()
			defer sql.mu.Unlock()
			sql.Down = so
		}
		<-time.After(time.Minute)
		if failure := l.Stats().StoreFailure; failure != nil {
			t.Fatalf("%+v", failure)
		}
		down(true)
		began := time.Now()
		<-time.After(checkEvery)
		failure := l.Stats().StoreFailure
		if failure == nil || !strings.HasPrefix(failure.Reason, "quota-store-unavailable: ") || failure.Since.Before(began) {
			t.Errorf("%+v", failure)
		}
		<-time.After(time.Minute)
		if again := l.Stats(); again.StoreFailure == nil || !again.StoreFailure.Since.Equal(failure.Since) || again.StoreFailures < 10 {
			t.Errorf("%+v after %d failures", again.StoreFailure, again.StoreFailures)
		}
		down(false)
		<-time.After(2 * retryAfter)
		if failure := l.Stats().StoreFailure; failure != nil {
			t.Errorf("back, and still %+v", failure)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
