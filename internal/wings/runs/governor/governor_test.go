package governor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/governor"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/known"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/loops"
)

const idle = 30 * time.Minute

// start returns a governor of runs with these limits, with a ledger in a folder.
func start(t *testing.T, limits budget.RunLimits) *governor.Governor {
	t.Helper()
	return startWith(t, func(settings *runs.Settings) { settings.Limits, settings.Loops.Repeats = limits, 0 })
}

// startWith is start with other settings.
func startWith(t *testing.T, edit func(*runs.Settings)) *governor.Governor {
	t.Helper()
	settings := runs.DefaultSettings()
	settings.Idle = schema.Duration(idle)
	edit(&settings)
	counted := quota.DefaultSettings()
	counted.Windows = []quota.Window{quota.BudgetRun}
	dir := t.TempDir()
	open := func(ctx context.Context) (quota.Snapshots, error) { return sqlstore.Open(ctx, "sqlite:totals.db", dir) }
	g := governor.New(governor.Options{
		Settings: settings, Currency: func() string { return "USD" }, Log: slog.New(slog.DiscardHandler),
		Book: func(r *budget.Runs) *budget.Book {
			r.Found = nil
			return budget.New(budget.Options{
				Ledger: quota.New(counted, quota.Options{Dir: filepath.Join(dir, "runs"), OpenSnapshots: open}),
				Runs:   r,
			})
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { g.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// enter begins a request of the run "task", and returns it or the code of its refusal.
func enter(g *governor.Governor, grant *access.Grant) (turn account.Turn, code string) {
	turn, err := g.Enter(context.Background(), &account.Account{
		Asks: &schema.Request{Door: schema.DoorChat}, Record: &calls.Record{},
		Caller: &access.Caller{Header: http.Header{known.Header: {"task"}}, Grant: grant},
	})
	refusal := (*schema.Error)(nil)
	if turn != nil {
		refusal = turn.Confirm() // no limit refuses it
	}
	if refusal != nil || errors.As(err, &refusal) {
		code = refusal.Code
	}
	return turn, code
}

// step is a request of a run some time after the one before.
type step struct {
	after time.Duration
	code  string // of its refusal
}

// A run has its time since its first request, and is over when nothing was asked for so long as
// idle says; requests that are refused put that off.
func TestTheTimeOfARunEndsIt(t *testing.T) {
	t.Parallel()
	const limit, refused = time.Hour, "run_limit_reached"
	for name, steps := range map[string][]step{
		"from the first request": {{0, ""}, {29 * time.Minute, ""}, {29 * time.Minute, ""}, {119 * time.Second, ""}, {time.Second, refused}},
		"a refused one goes on":  {{0, ""}, {29 * time.Minute, ""}, {29 * time.Minute, ""}, {29 * time.Minute, refused}, {29 * time.Minute, refused}},
		"a new one after idle":   {{0, ""}, {29 * time.Minute, ""}, {29 * time.Minute, ""}, {29 * time.Minute, refused}, {idle, ""}, {29 * time.Minute, ""}},
		"idle before the limit":  {{0, ""}, {29 * time.Minute, ""}, {idle, ""}, {29 * time.Minute, ""}, {29 * time.Minute, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := start(t, budget.RunLimits{Time: schema.Duration(limit)})
				for i, s := range steps {
					time.Sleep(s.after) //nolint:forbidigo // the time of a synctest bubble
					turn, code := enter(g, nil)
					if code != s.code {
						t.Errorf("request %d: %q, want %q", i+1, code, s.code)
					}
					if turn != nil {
						turn.Leave(account.End{})
					}
				}
			})
		})
	}
}

// A call that takes longer than idle keeps its run, and is not cut by the time of it.
func TestACallUnderWayKeepsItsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := start(t, budget.RunLimits{Time: schema.Duration(time.Hour), Concurrency: 1})
		long, _ := enter(g, nil)
		time.Sleep(4 * idle / 3) //nolint:forbidigo // the time of a synctest bubble
		if _, code := enter(g, nil); code != schema.CodeBudgetReserved {
			t.Errorf("beside it: %q", code)
		}
		time.Sleep(idle) //nolint:forbidigo // the time of a synctest bubble
		long.Leave(account.End{})
		if _, code := enter(g, nil); code != "run_limit_reached" {
			t.Errorf("after it: %q", code)
		}
		time.Sleep(idle) //nolint:forbidigo // the time of a synctest bubble
		if next, code := enter(g, nil); code != "" {
			t.Errorf("in a new run: %q", code)
		} else {
			next.Leave(account.End{})
		}
	})
}

// Requests of one run come with old and new terms of their key while the terms change.
func TestTermsChangeWhileRequestsOfARunAreRefused(t *testing.T) {
	t.Parallel()
	g := start(t, budget.RunLimits{Time: 1})
	strict, wide := &access.Grant{}, &access.Grant{}
	strict.Runs.Requests = 1
	var all sync.WaitGroup
	for _, grant := range []*access.Grant{strict, wide, strict, wide} {
		all.Go(func() {
			for range 200 {
				if turn, code := enter(g, grant); turn != nil {
					turn.Leave(account.End{})
				} else if code != "run_limit_reached" {
					t.Errorf("refused with %q", code)
				}
			}
		})
	}
	all.Wait()
}

// The next prompt of a conversation has the refused one and more: with the raise of the sentence it has room.
func TestTheRaiseThatARefusalNamesHasRoomForALongerCall(t *testing.T) {
	t.Parallel()
	turn, _ := enter(start(t, budget.RunLimits{Tokens: 1000}), nil)
	defer turn.Leave(account.End{})
	for _, row := range []struct {
		used, limit, wanted int64
		want                string
	}{
		{0, 1000, 90_000, "--tokens 134000`"},
		{990, 1000, 20, "--tokens 1000`"},
		{1, 1, 1, "--tokens 1`"},
	} {
		refusal := &budget.Refusal{Wanted: budget.Amounts{budget.Tokens: row.wanted}}
		refusal.Unit, refusal.Used, refusal.Limit = budget.Tokens, row.used, row.limit
		if said := turn.Refused(refusal).Error(); !strings.Contains(said, row.want) {
			t.Errorf("%d of %d used, %d wanted: %s", row.used, row.limit, row.wanted, said)
		}
	}
}

// A client that gives up while its call is slowed down waits as long the next time: the call proves
// nothing about the run.
func TestACallThatIsGivenUpWhileItWaitsIsNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := startWith(t, func(s *runs.Settings) {
			s.Loops = loops.DefaultSettings()
			s.Loops.Action = loops.Slow
		})
		waits := append(make([]time.Duration, 50), time.Second, time.Second, time.Second, time.Second) // after 50 errors
		for n, want := range waits {
			ctx, leave := context.WithTimeout(t.Context(), 600*time.Millisecond)
			began := time.Now()
			record := &calls.Record{}
			asks := &schema.Request{Door: schema.DoorChat}
			if err := asks.ParseChat(fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"%d"}]}`, n)); err != nil {
				t.Fatal(err)
			}
			turn, err := g.Enter(ctx, &account.Account{
				Asks: asks, Record: record, Caller: &access.Caller{Header: http.Header{known.Header: {"task"}}},
			})
			if took := time.Since(began); (err != nil) != (want > 0) || took != min(want, 600*time.Millisecond) {
				t.Errorf("call %d waits %s, %v, want %s", n, took, err, want)
			}
			if turn != nil {
				if refusal := turn.Confirm(); refusal != nil {
					t.Error(refusal)
				}
				record.Code = schema.CodeUpstreamError
				turn.Leave(account.End{})
			}
			leave()
		}
	})
}
