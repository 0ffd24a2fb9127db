package quota

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

// stuckStore answers nothing while it is stuck, whatever the context says. Its end comes a
// moment after it was closed.
type stuckStore struct {
	*tallytest.Member

	stuck   atomic.Bool
	release chan struct{}
	running atomic.Int64
}

func newStuckStore() *stuckStore {
	return &stuckStore{Member: tallytest.New().Member("a"), release: make(chan struct{})}
}

func (c *stuckStore) Tell(ctx context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error) {
	if c.stuck.Load() {
		c.running.Add(1)
		defer c.running.Add(-1)
		<-c.release
		<-time.After(time.Millisecond)
	}
	return c.Member.Tell(ctx, sheets, isNews)
}

func (c *stuckStore) Close() { close(c.release) }

// poolOf returns what a gateway has of a store that it shares.
func poolOf(store tally.Store, timeout time.Duration) *tally.Pool {
	return tally.NewPool(tally.Options{
		Open:    func(context.Context) (tally.Store, error) { return store, nil },
		Timeout: timeout, SharesMore: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
	})
}

// stuckSnapshots is a database of the same kind.
type stuckSnapshots struct {
	MemorySnapshots

	onWrite, onClose func()
}

func (s *stuckSnapshots) Write(ctx context.Context, rows []Row) error {
	if s.onWrite != nil && len(rows) > 0 {
		s.onWrite()
	}
	return s.MemorySnapshots.Write(ctx, rows)
}

func (s *stuckSnapshots) Close() error {
	if s.onClose != nil {
		s.onClose()
	}
	return nil
}

// openShared starts a ledger that counts with others, whose database may be stuck.
func openShared(settings Settings, redis Shared, sql Snapshots) *Ledger {
	settings.Distributed.Enabled = true
	return New(settings, Options{
		OpenSnapshots: func(context.Context) (Snapshots, error) { return sql, nil },
		Shared:        redis,
		disk:          newMemoryDisk(),
	})
}

func countOne(t *testing.T, l *Ledger) {
	t.Helper()
	var ticket Ticket
	if err := l.Admit(&ticket, benchSubject, time.Now()); err != nil {
		t.Error(err)
	}
	ticket.Settle(schema.Usage{Known: true, Total: 3})
}

// waitingSnapshots is a database whose first write takes until the caller gives up.
type waitingSnapshots struct {
	MemorySnapshots

	began, isBack atomic.Bool
}

func (s *waitingSnapshots) Write(ctx context.Context, rows []Row) error {
	if len(rows) > 0 && !s.isBack.Swap(true) {
		s.began.Store(true)
		<-ctx.Done()
		return ctx.Err()
	}
	return s.MemorySnapshots.Write(ctx, rows)
}

// A write that a stop interrupts is no failure of the database: what it was to write is
// written by the stop.
func TestInterruptedWriteIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		settings := DefaultSettings()
		settings.Enabled, settings.FlushIntervalSeconds = true, 1
		sql := new(waitingSnapshots)
		l := New(settings, Options{
			OpenSnapshots: func(context.Context) (Snapshots, error) { return sql, nil },
			Log:           slog.New(slog.NewTextHandler(&said, nil)),
			disk:          newMemoryDisk(),
		})
		countOne(t, l)
		<-time.After(2 * time.Second) // the clock of the bubble
		synctest.Wait()
		if !sql.began.Load() {
			t.Fatal("nothing was written")
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if said.Len() > 0 {
			t.Errorf("the log says %s", &said)
		}
		if len(sql.rows) != 4 {
			t.Errorf("%d rows are written, want one of each window", len(sql.rows))
		}
	})
}

// TestCloseLeavesNothingRunning: calls to the shared counter that nobody waits for
// any more have ended when what gateways share is closed after the ledger.
func TestCloseLeavesNothingRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := newStuckStore()
		settings := DefaultSettings()
		settings.Enabled = true
		pool := poolOf(redis, settings.Distributed.Timeout.Std())
		l := openShared(settings, pool, new(MemorySnapshots))
		redis.stuck.Store(true)
		countOne(t, l)
		if probe := l.Status(t.Context()).Probe; probe.Reachable || probe.Status != ProbeError {
			t.Errorf("%+v", probe)
		}
		if running := redis.running.Load(); running != 1 {
			t.Fatalf("%d calls are stuck, want that of a look", running)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		pool.Close()
		if running := redis.running.Load(); running != 0 {
			t.Errorf("%d calls run after the end", running)
		}
	})
}

// TestCloseHoldsUpNobodyWhoWaitsForTheCounter: a look, and a request that must be counted by
// all gateways, which wait for the shared counter, go on when the ledger is closed, long
// before the timeout.
func TestCloseHoldsUpNobodyWhoWaitsForTheCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := newStuckStore()
		settings := DefaultSettings()
		settings.Enabled, settings.Distributed.Timeout = true, maxTimeout
		settings.FailOpen, settings.Distributed.DegradeToLocal = false, false
		pool := poolOf(redis, maxTimeout.Std())
		l := openShared(settings, pool, new(MemorySnapshots))
		<-time.After(pushEvery)
		began := time.Now()
		redis.stuck.Store(true)
		asked, counted := make(chan Status, 1), make(chan error, 1)
		go func() { asked <- l.Status(t.Context()) }()
		go func() { counted <- l.Admit(new(Ticket), benchSubject, time.Now()) }()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- l.Close(t.Context()) }()
		if err := <-counted; !errors.Is(err, ErrUnavailable) {
			t.Errorf("a request that was not counted: %v", err)
		}
		if status := <-asked; status.Probe.Reachable {
			t.Errorf("%+v", status.Probe)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("held up for %v", took)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		pool.Close()
	})
}

// TestCloseEndsWithItsContext: whatever does not answer, Close returns when its
// context ends and says that not all was written. What is released afterwards ends:
// the bubble of synctest fails where a goroutine is left.
func TestCloseEndsWithItsContext(t *testing.T) {
	const grace = time.Second
	for what, prepare := range map[string]func(release <-chan struct{}) *Ledger{
		"a database that does not write": func(release <-chan struct{}) *Ledger {
			settings := DefaultSettings()
			settings.Enabled = true
			l := openShared(settings, NewShared(), &stuckSnapshots{onWrite: func() { <-release }})
			countOne(t, l)
			return l
		},
		"a database that does not close": func(release <-chan struct{}) *Ledger {
			settings := DefaultSettings()
			settings.Enabled = true
			return openShared(settings, NewShared(), &stuckSnapshots{onClose: func() { <-release }})
		},
		"a session that was turned off and cannot write": func(release <-chan struct{}) *Ledger {
			settings := DefaultSettings()
			settings.Enabled = true
			l := openShared(settings, NewShared(), &stuckSnapshots{onWrite: func() { <-release }})
			countOne(t, l)
			l.Edit(Edit{Enabled: new(false)})
			<-time.After(time.Minute)
			return l
		},
		"a change that waits for a counter": func(release <-chan struct{}) *Ledger {
			redis := NewShared()
			redis.onMeet = func() { <-release }
			l := openShared(DefaultSettings(), redis, new(MemorySnapshots))
			go l.Edit(Edit{Enabled: new(true)})
			synctest.Wait()
			return l
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			l := prepare(release)
			<-time.After(grace)
			ctx, cancel := context.WithTimeout(t.Context(), grace)
			defer cancel()
			began := time.Now()
			if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != grace {
				t.Errorf("%s: %v after %v", what, err, time.Since(began))
			}
			close(release)
			synctest.Wait()
			if l.On() {
				t.Errorf("%s: on after the end", what)
			}
		})
	}
}

// TestGroupIsWaitedForUntilNoneRuns: also for what is started while somebody waits.
func TestGroupIsWaitedForUntilNoneRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		if err := g.wait(t.Context()); err != nil {
			t.Errorf("waiting for none: %v", err)
		}
		var ended atomic.Int64
		later := func(d time.Duration) func() {
			return func() { <-time.After(d); ended.Add(1) }
		}
		g.start(later(time.Second))
		g.start(func() {
			<-time.After(time.Second / 2)
			g.start(later(time.Minute))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := g.wait(ctx); !errors.Is(err, context.DeadlineExceeded) || ended.Load() != 1 {
			t.Errorf("%v when %d have ended", err, ended.Load())
		}
		if err := g.wait(t.Context()); err != nil || ended.Load() != 2 {
			t.Errorf("%v when %d have ended", err, ended.Load())
		}
		if err := g.wait(t.Context()); err != nil {
			t.Errorf("waiting again: %v", err)
		}
	})
}
