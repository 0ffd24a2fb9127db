package quota_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/tally/redistally"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func row(writer, user string, w quota.Window, start time.Time, requests, tokens int64) quota.Row {
	return quota.Row{
		Writer: writer, Key: quota.Key{Tenant: "acme", APIKey: "k", User: user, Service: schema.Chat, Model: "m"},
		Window: w, Start: w.Start(start), Totals: quota.Totals{Requests: requests, Tokens: tokens},
	}
}

func byText(a, b quota.Row) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }

// snapshotStores are the stores that keep totals for good, each empty.
func snapshotStores(t *testing.T) map[string]func(t *testing.T) quota.Snapshots {
	return map[string]func(t *testing.T) quota.Snapshots{
		"memory": func(*testing.T) quota.Snapshots { return new(quota.MemorySnapshots) },
		"SQLite": func(t *testing.T) quota.Snapshots { return openSQL(t, "sqlite:quota.db", t.TempDir()) },
		"PostgreSQL": func(t *testing.T) quota.Snapshots {
			return openSQL(t, storetest.Postgres(t).URL, "")
		},
	}
}

func openSQL(t testing.TB, address, dir string) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), address, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// TestSnapshotStores is the contract of every store that keeps totals.
func TestSnapshotStores(t *testing.T) {
	now := time.Date(2026, 5, 31, 23, 59, 59, 0, time.UTC)
	for name, open := range snapshotStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			ctx := t.Context()
			write := func(rows ...quota.Row) {
				t.Helper()
				if err := store.Write(ctx, rows); err != nil {
					t.Fatal(err)
				}
			}
			read := func(f quota.Filter) []quota.Row {
				t.Helper()
				rows, err := store.Read(ctx, f)
				if err != nil {
					t.Fatal(err)
				}
				return sorted(rows, byText)
			}
			current := quota.Filter{Ranges: quota.RangesOf(quota.CalendarWindow{Window: quota.Day, Start: quota.Day.Start(now)})}

			write(row("w1", "ann", quota.Day, now, 5, 50), row("w2", "ann", quota.Day, now, 1, 7))
			write(row("w1", "ann", quota.Day, now, 3, 60)) // late: fewer requests, more tokens
			want := []quota.Row{row("w1", "ann", quota.Day, now, 5, 60), row("w2", "ann", quota.Day, now, 1, 7)}
			if diff := cmp.Diff(sorted(want, byText), read(current)); diff != "" {
				t.Errorf("the greater values are not kept: %s", diff)
			}

			detailed := func(prompt, completion, cost int64) quota.Row {
				r := row("w1", "cost", quota.Day, now, 1, 1)
				r.Prompt, r.Completion, r.Cost = prompt, completion, cost
				return r
			}
			write(row("w1", "cost", quota.Day, now, 1, 1))
			write(detailed(5, 7, 1<<60+1))
			write(detailed(6, 3, 1<<60))
			expensive := current
			expensive.User = "cost"
			if diff := cmp.Diff([]quota.Row{detailed(6, 7, 1<<60+1)}, read(expensive)); diff != "" {
				t.Errorf("the greater details are not kept: %s", diff)
			}

			for _, odd := range []string{"'); DROP TABLE quota_usage;--", "%", "_", "多字节 😀", strings.Repeat("x", 128)} {
				write(row("w1", odd, quota.Hour, now, 1, 1))
				got := read(quota.Filter{User: odd, Ranges: quota.RangesOf(quota.CalendarWindow{Window: quota.Hour, Start: quota.Hour.Start(now)})})
				if len(got) != 1 || got[0].Key.User != odd {
					t.Errorf("%q: %v", odd, got)
				}
			}

			for i := range 10 {
				old := row("w1", "old", quota.Minute, now.Add(time.Duration(-i)*time.Minute), 1, 0)
				old.Cost = 1
				write(old)
			}
			history := quota.Filter{User: "old", Ranges: []quota.Range{{Window: quota.Minute, From: now.Add(-3 * time.Minute), To: now.Add(time.Second)}}}
			if got := read(history); len(got) != 3 {
				t.Errorf("history: %v", got)
			}
			history.Ranges[0].From, history.Limit = time.Unix(0, 0), 4
			if got := read(history); len(got) != 4 || got[0].Start.Before(now.Add(-4*time.Minute)) {
				t.Errorf("the newest: %v", got)
			}
			history.Limit = 0
			if removed, err := store.Expire(ctx, quota.Minute, quota.Minute.Start(now.Add(-5*time.Minute)), 3); removed != 3 || err != nil {
				t.Errorf("%d rows removed at once, %v", removed, err)
			}
			if removed, err := store.Expire(ctx, quota.Minute, quota.Minute.Start(now.Add(-5*time.Minute)), 3); removed != 1 || err != nil {
				t.Errorf("%d rows removed after that, %v", removed, err)
			}
			if got := read(history); len(got) != 6 {
				t.Errorf("%d rows left", len(got))
			}

			for i, key := range []string{"a", "a", "b"} {
				run := row("w1", fmt.Sprint("run", i), quota.BudgetRun, now, 1, 1)
				run.Key.APIKey, run.Cost = key, 1
				again := run
				again.Writer = "w2"
				write(run, again)
			}
			first := row("", "run0", quota.BudgetRun, now, 0, 0)
			first.Key.APIKey = "a"
			all := quota.Filter{Ranges: []quota.Range{{Window: quota.BudgetRun, To: now.Add(time.Second)}}}
			before := read(all)
			if err := store.Remove(ctx, []quota.Row{first}); err != nil {
				t.Error(err)
			}
			first.Writer, first.Requests = "w1", 1
			write(first) // which would show the details, if they were there
			want = slices.DeleteFunc(before, func(r quota.Row) bool { return r.Key.User == "run0" })
			if diff := cmp.Diff(sorted(append(want, first), byText), read(all)); diff != "" {
				t.Errorf("after a run was removed: %s", diff)
			}

			var writers sync.WaitGroup
			for w := range 4 {
				writers.Go(func() {
					for i := range 20 {
						if err := store.Write(ctx, []quota.Row{row(fmt.Sprint("c", w%2), "many", quota.Month, now, int64(i+1), int64(i+1)*2)}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			writers.Wait()
			got := read(quota.Filter{User: "many", Ranges: quota.RangesOf(quota.CalendarWindow{Window: quota.Month, Start: quota.Month.Start(now)})})
			if len(got) != 2 || got[0].Requests != 20 || got[1].Tokens != 40 {
				t.Errorf("after many writers: %v", got)
			}
		})
	}
}

func TestTablesAreCreatedOnceAndNotChanged(t *testing.T) {
	for name, address := range map[string]string{"SQLite": "sqlite:quota.db", "PostgreSQL": ""} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if address == "" {
				address = storetest.Postgres(t).URL
			}
			var opened sync.WaitGroup
			for range 4 {
				opened.Go(func() {
					store, err := sqlstore.Open(t.Context(), address, dir)
					if err != nil {
						t.Error(err)
						return
					}
					_ = store.Close()
				})
			}
			opened.Wait()
			driver, where := "pgx", address
			if name == "SQLite" {
				driver, where = "sqlite", filepath.Join(dir, "quota.db")
			}
			db, err := sql.Open(driver, where)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, version := range []string{"1", "99"} {
				if _, err := db.ExecContext(t.Context(), "UPDATE quota_schema SET version = "+version); err != nil {
					t.Fatal(err)
				}
				if _, err := sqlstore.Open(t.Context(), address, dir); !errors.Is(err, sqlstore.ErrFormat) {
					t.Errorf("opened tables of format %s: %v", version, err)
				}
			}
		})
	}
}

func TestDatabaseFilesAreReadableByTheirOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	store := openSQL(t, "sqlite:some #% name?.db", dir)
	if err := store.Write(t.Context(), []quota.Row{row("w", "u", quota.Day, time.Now(), 1, 1)}); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) < 2 {
		t.Errorf("%v", entries)
	}
	for _, entry := range entries {
		if info, _ := entry.Info(); info.Mode().Perm() != 0o600 || !strings.HasPrefix(entry.Name(), "some #% name?.db") {
			t.Errorf("%s has %v", entry.Name(), info.Mode())
		}
	}
}

// TestRemovedDatabaseIsNoticed: what would be written to a file that nobody can open any
// more is an error, after which the new file gets all that is known.
func TestRemovedDatabaseIsNoticed(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
		},
		"replaced": func(t *testing.T, path string) {
			if err := os.Rename(path, path+".away"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"without its log": func(t *testing.T, path string) {
			if err := os.Remove(path + "-wal"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			g := startLedger(t, shape{dir: dir})
			g.requests(10)
			waittest.Eventually(t, "written", func() bool { return g.Stats().RowsWritten > 0 })
			remove(t, filepath.Join(dir, "quota.db"))
			waittest.Eventually(t, "it is noticed", func() bool { return g.Stats().StoreFailures > 0 })
			waittest.Eventually(t, "well again", func() bool { return g.Status(t.Context()).Reason == "" })
			// Nothing was counted since, and nothing is left in the journal.
			if err := g.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(dir, quota.JournalDir)); err != nil {
				t.Fatal(err)
			}
			other := startLedger(t, shape{dir: dir})
			if requests, tokens := other.month(); requests != 10 || tokens != 10 {
				t.Errorf("%d/%d in the database, want 10", requests, tokens)
			}
		})
	}
}

func TestErrorsOfStoresHoldNoPassword(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	nobody := waittest.Nobody(t)
	for _, address := range []string{"postgres://u:hunter2@" + nobody + "/x", "postgres://u:hunter2@[::1/x", "postgres://u:hunter2@127.0.0.1:99999/x"} {
		if _, err := sqlstore.Open(ctx, address, ""); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
	for _, address := range []string{"redis://u:hunter2@" + nobody + "/0", "redis://u:hunter2@[::1/0", "redis://u:hunter2@127.0.0.1/hunter2"} {
		if _, err := redistally.Open(ctx, address, "p", "a"); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

// TestSharedCounters: what gateways tell of their counts is read as it was told, the greater
// of two.
func TestSharedCounters(t *testing.T) {
	now := time.Now()
	open := map[string]func(t *testing.T) quota.Teller{
		"memory": func(*testing.T) quota.Teller { return quota.NewShared() },
		"Redis": func(t *testing.T) quota.Teller {
			store, err := redistally.Open(t.Context(), storetest.Redis(t).URL, "test", "a")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			return store
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counter := open(t)
			ctx := t.Context()
			tell := func(rows ...quota.Row) {
				t.Helper()
				if err := quota.TellRows(ctx, counter, rows...); err != nil {
					t.Fatal(err)
				}
			}
			tell(row("w1", "ann", quota.Day, now, 5, 50))
			tell(row("w1", "ann", quota.Day, now, 3, 60)) // late: fewer requests, more tokens
			tell(row("w1", "ann", quota.Day, now, 6, 60))
			tell(row("w1", "nobody", quota.Day, now, 0, 0)) // a total of nothing is not stored
			var many []quota.Row
			for i := range 300 {
				many = append(many, row("w2", fmt.Sprint("u", i), quota.Minute, now, 1<<40, 1<<62+1))
			}
			tell(many...)
			rows, err := quota.ReadRows(ctx, counter, quota.CalendarWindow{Window: quota.Day, Start: quota.Day.Start(now)}, quota.CalendarWindow{Window: quota.Minute, Start: quota.Minute.Start(now)})
			if err != nil || len(rows) != 301 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			for _, r := range rows {
				if r.Writer == "w1" && cmp.Diff(r, row("w1", "ann", quota.Day, now, 6, 60)) != "" || r.Writer == "w2" && (r.Requests != 1<<40 || r.Tokens != 1<<62+1) {
					t.Errorf("%+v", r)
				}
			}
			cost := func(prompt, cost int64) {
				r := row("w1", "cost", quota.Hour, now, 1, 1)
				r.Prompt, r.Cost = prompt, cost
				tell(r)
			}
			cost(7, 1<<60+1)
			cost(9, 1<<60)
			cost(8, 3)
			rows, err = quota.ReadRows(ctx, counter, quota.CalendarWindow{Window: quota.Hour, Start: quota.Hour.Start(now)})
			var got quota.Totals
			for _, r := range rows {
				got.Prompt, got.Cost = max(got.Prompt, r.Prompt), max(got.Cost, r.Cost)
			}
			if err != nil || got != (quota.Totals{Prompt: 9, Cost: 1<<60 + 1}) {
				t.Errorf("details %+v, %v", got, err)
			}
		})
	}
}

// TestLibcHasTheVersionThatSQLiteRequires: another version has crashed others.
func TestLibcHasTheVersionThatSQLiteRequires(t *testing.T) {
	ours, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := func(content []byte, module string) string {
		found := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(content)
		if found == nil {
			t.Fatalf("no %s", module)
		}
		return string(found[1])
	}
	cache := os.Getenv("GOMODCACHE")
	if cache == "" {
		home, _ := os.UserHomeDir()
		gopath := os.Getenv("GOPATH")
		if gopath == "" {
			gopath = filepath.Join(home, "go")
		}
		cache = filepath.Join(gopath, "pkg", "mod")
	}
	theirs, err := os.ReadFile(filepath.Join(cache, "modernc.org", "sqlite@"+version(ours, "modernc.org/sqlite"), "go.mod"))
	if err != nil {
		t.Skip("the module cache cannot be read: ", err)
	}
	if a, b := version(ours, "modernc.org/libc"), version(theirs, "modernc.org/libc"); a != b {
		t.Errorf("go.mod has modernc.org/libc %s, SQLite wants %s", a, b)
	}
}

// BenchmarkFlushManyRows writes what 100,000 live cells are.
func BenchmarkFlushManyRows(b *testing.B) {
	store := openSQL(b, "sqlite:quota.db", b.TempDir())
	now := time.Now()
	rows := make([]quota.Row, 100_000)
	for i := range rows {
		rows[i] = row("w", fmt.Sprintf("user-%06d", i/4), quota.Window(i%4), now, 1, 100)
	}
	slices.SortStableFunc(rows, func(a, b quota.Row) int { return a.Start.Compare(b.Start) })
	for n := int64(1); b.Loop(); n++ {
		for i := range rows {
			rows[i].Requests = n
		}
		if err := store.Write(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	}
}
