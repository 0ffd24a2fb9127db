package quota

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// newRuns returns a ledger of runs, which are named "owner/number", that keeps those of the list.
func newRuns(t *testing.T, d *memoryDisk, sql *MemorySnapshots, ofOwner, inAll int, kept ...string) *bench {
	t.Helper()
	b := &bench{t: t, disk: d, sql: sql, now: time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)}
	settings := DefaultSettings()
	settings.Enabled, settings.Windows = true, []Window{BudgetRun}
	b.Ledger = New(settings, Options{
		OpenSnapshots: func(context.Context) (Snapshots, error) { return b.sql, nil },
		Now:           func() time.Time { return b.now }, disk: d, manual: true,
		Bound: &Bound{ofOwner, inAll, func(key *Key, _ time.Time) bool { return slices.Contains(kept, key.User) }},
	})
	return b
}

// begin begins runs of an owner, one a second.
func (b *bench) begin(owner string, from, to int) {
	b.t.Helper()
	for i := from; i < to; i++ {
		b.now = b.now.Add(time.Second)
		var ticket Ticket
		who := Subject{APIKey: owner, User: fmt.Append(nil, owner, "/", i)}
		if err := b.Admit(&ticket, who, b.now); err != nil {
			b.t.Fatal(err)
		}
		ticket.Settle(schema.Usage{Known: true, Total: 1})
	}
}

// names returns the runs in the database, in order.
func (b *bench) names() (names []string) {
	b.t.Helper()
	rows, err := b.sql.Read(b.t.Context(), Filter{Ranges: []Range{{Window: BudgetRun, To: b.now.Add(time.Second)}}})
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range rows {
		names = append(names, rows[i].Key.User)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The database has no more runs than the bound; the oldest ones of the owner with the most are removed,
// unless they are kept.
func TestRunsInTheDatabaseAreBounded(t *testing.T) {
	type flood struct {
		owner    string
		from, to int
	}
	for name, c := range map[string]struct {
		kept   []string
		floods []flood
		want   []string
	}{
		"below the bound":         {nil, []flood{{"a", 0, 4}, {"b", 0, 2}}, []string{"a/0", "a/1", "a/2", "a/3", "b/0", "b/1"}},
		"of an owner":             {[]string{"a/0"}, []flood{{"a", 0, 9}, {"b", 0, 1}}, []string{"a/0", "a/6", "a/7", "a/8", "b/0"}},
		"in all":                  {[]string{"b/0"}, []flood{{"b", 0, 3}, {"a", 0, 4}}, []string{"a/1", "a/2", "a/3", "b/0", "b/1", "b/2"}},
		"the most stay":           {[]string{"a/0", "a/1", "a/2", "a/3"}, []flood{{"a", 0, 4}, {"b", 0, 2}, {"c", 0, 1}}, []string{"a/0", "a/1", "a/2", "a/3", "b/1", "c/0"}},
		"of callers without keys": {nil, []flood{{"", 0, 6}, {"a", 0, 2}}, []string{"/2", "/3", "/4", "/5", "a/0", "a/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRuns(t, newMemoryDisk(), new(MemorySnapshots), 4, 6, c.kept...)
			for _, f := range c.floods {
				b.begin(f.owner, f.from, f.to)
				b.flush()
			}
			if got := b.names(); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if held, want := b.Stats().Keys, int64(len(c.kept)); held != want {
				t.Errorf("got %d runs in memory, want the %d that are kept", held, want)
			}
		})
	}
}

// The bound holds over what other gateways write, and for the rows that a killed process left.
func TestTheBoundOfRunsHoldsOverAll(t *testing.T) {
	sql := new(MemorySnapshots)
	one := newRuns(t, newMemoryDisk(), sql, 4, 6)
	other := newRuns(t, newMemoryDisk(), sql, 4, 6)
	for i := range 10 {
		one.begin("a", i, i+1)
		one.flush()
		other.begin("a", 10+i, 11+i)
		other.flush()
	}
	if got := one.names(); len(got) != 4 {
		t.Errorf("got %v, want 4 runs", got)
	}
	one.begin("a", 20, 28)
	after := newRuns(t, one.disk.afterKill(), sql, 4, 6)
	after.now = one.now
	after.flush()
	if got, want := after.names(), []string{"a/24", "a/25", "a/26", "a/27"}; !slices.Equal(got, want) {
		t.Errorf("got %v after a restart, want %v", got, want)
	}
}

// Runs below the bound are counted separately, however many there were before and also while the
// database is away.
func TestRunsThatAreOverTakeNoRoomOfOthers(t *testing.T) {
	for name, isDown := range map[string]bool{"database": false, "no database": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRuns(t, newMemoryDisk(), &MemorySnapshots{Down: isDown}, 100, 100, "a/0")
			b.begin("a", 0, 1)
			_ = b.session.flush(t.Context()) // which finds out that the database is away
			for i := 1; i < 1000; i += 10 {
				b.begin("a", i, i+10)
				b.session.maintainJournal()
				select {
				case <-b.session.flushNow:
					_ = b.session.flush(t.Context())
				default:
				}
			}
			if s := b.Stats(); s.Overflowed != 0 || s.Keys >= 200 {
				t.Errorf("%d runs were counted together, %d are in memory", s.Overflowed, s.Keys)
			}
			if c := b.session.cells.find(&Subject{APIKey: "a", User: []byte("a/0")}); c == nil {
				t.Error("a run that is kept is not in memory")
			}
		})
	}
}

// Runs are no usage, neither open nor past.
func TestRunsAreNoUsage(t *testing.T) {
	sql := new(MemorySnapshots)
	runs := newRuns(t, newMemoryDisk(), sql, 4, 6, "a/0")
	runs.begin("a", 0, 1)
	runs.flush()
	b := newBenchOn(t, newMemoryDisk(), sql, nil)
	b.count("ann", b.now, 1)
	for _, l := range []*bench{b, runs} {
		for name, q := range map[string]UsageQuery{
			"open": {}, "past": {From: new(time.Unix(0, 0)), To: new(b.now.AddDate(1, 0, 0))},
		} {
			usage, isOn, err := l.Usage(t.Context(), q)
			if !isOn || err != nil {
				t.Fatal(isOn, err)
			}
			for _, u := range usage {
				if u.Key.User != "ann" {
					t.Errorf("%s: got %+v", name, u)
				}
			}
		}
	}
}
