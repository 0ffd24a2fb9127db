package quota

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// refusingSnapshots is a database that does not remove rows.
type refusingSnapshots struct {
	MemorySnapshots

	asked int
}

// askedSnapshots is a database that remembers of which windows rows were removed.
type askedSnapshots struct {
	MemorySnapshots

	asked map[Window]bool
}

func (s *askedSnapshots) Expire(_ context.Context, w Window, _ time.Time, _ int) (int, error) {
	s.asked[w] = true
	return 0, nil
}

func (s *refusingSnapshots) Expire(context.Context, Window, time.Time, int) (int, error) {
	s.asked++
	return 0, errFault
}

// TestRetentionRemovesOldRowsOfEveryWindow: also where there are more than one
// statement removes, and nothing of what is younger.
func TestRetentionRemovesOldRowsOfEveryWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sql := new(MemorySnapshots)
		now := time.Now()
		const many = 2*expireBatch + 10
		var rows []Row
		for w := Minute; int(w) < WindowCount; w++ {
			rows = append(rows, Row{Writer: "w", Window: w, Start: w.Start(now), Totals: Totals{Requests: 1}})
			for n := range many {
				rows = append(rows, Row{Writer: "w", Key: Key{User: fmt.Sprint(n)}, Window: w, Start: w.Start(now.AddDate(-10, 0, 0)), Totals: Totals{Requests: 1}})
			}
		}
		if err := sql.Write(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		settings := DefaultSettings()
		settings.Enabled = true
		l := New(settings, Options{OpenSnapshots: func(context.Context) (Snapshots, error) { return sql, nil }, disk: newMemoryDisk()})
		<-time.After(3 * expireEvery)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		// All that was ever spent of a budget is kept for good.
		const expire = (WindowCount - 1) * many
		if removed := l.Stats().RowsExpired; removed != int64(expire) || len(sql.rows) != WindowCount+many {
			t.Errorf("%d rows were removed and %d are left, want %d and %d", removed, len(sql.rows), expire, WindowCount+many)
		}
	})
}

// TestRowsThatCannotBeRemovedAreAFailureOfTheDatabase: the first refusal is reported
// and ends the attempt.
func TestRowsThatCannotBeRemovedAreAFailureOfTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sql := new(refusingSnapshots)
		settings := DefaultSettings()
		settings.Enabled = true
		l := New(settings, Options{OpenSnapshots: func(context.Context) (Snapshots, error) { return sql, nil }, disk: newMemoryDisk()})
		<-time.After(3 * expireEvery)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if failures := l.Stats().StoreFailures; sql.asked == 0 || failures != int64(sql.asked) {
			t.Errorf("%d failures are reported of %d", failures, sql.asked)
		}
	})
}

// TestOldRowsAreRemovedEveryTenMinutes, unless the wall clock has jumped by more than an
// hour in the last day: it may be wrong then, and what is removed is gone.
func TestOldRowsAreRemovedEveryTenMinutes(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		jump time.Duration // of the wall clock, in the first minute
		due  []time.Duration
	}{
		{"a clock that is right", 0, []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute}},
		{"an hour ahead", time.Hour, []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute}},
		{"an hour back", -time.Hour, []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute}},
		{"more than an hour ahead", time.Hour + 1, []time.Duration{24*time.Hour + time.Minute, 24*time.Hour + 11*time.Minute}},
		{"more than an hour back", -time.Hour - 1, []time.Duration{24*time.Hour + time.Minute, 24*time.Hour + 11*time.Minute}},
	} {
		var schedule expirySchedule
		var due []time.Duration
		for passed := time.Duration(0); passed <= c.due[len(c.due)-1]; passed += 30 * time.Second {
			wall := start.Add(passed)
			if passed >= time.Minute {
				wall = wall.Add(c.jump)
			}
			if schedule.due(wall, start.Add(passed)) {
				due = append(due, passed)
			}
		}
		if !slices.Equal(due, c.due) {
			t.Errorf("%s: rows are removed after %v, want %v", c.name, due, c.due)
		}
	}
}

// TestTotalsOfBudgetsAreNeverRemoved: they are of all time.
func TestTotalsOfBudgetsAreNeverRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sql := &askedSnapshots{asked: map[Window]bool{}}
		settings := DefaultSettings()
		settings.Enabled = true
		l := New(settings, Options{OpenSnapshots: func(context.Context) (Snapshots, error) { return sql, nil }, disk: newMemoryDisk()})
		<-time.After(3 * expireEvery)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for w := Minute; int(w) < WindowCount; w++ {
			if sql.asked[w] != (w != BudgetTotal) {
				t.Errorf("rows of %v were removed: %v", w, sql.asked[w])
			}
		}
	})
}
