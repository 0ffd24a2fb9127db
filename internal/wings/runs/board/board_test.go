package board_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/board"
)

const idle = 30 * time.Minute

func keysOf(t *testing.T, key string) *seal.Keys {
	t.Helper()
	keys, err := seal.New(strings.Repeat(key, 32), "")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// pages returns a board that forgets with the test.
func pages(t *testing.T, keys *seal.Keys) board.Board {
	t.Helper()
	docs, err := pgdocuments.New(storetest.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(docs.Close)
	if keys == nil {
		return board.NewDocuments(docs, idle, func() {})
	}
	return board.NewDocuments(documents.NewSigned(docs, keys, slog.New(slog.DiscardHandler)), idle, func() {})
}

// Every board gives back what was told last of each run, one that is not believed excepted, and
// forgets runs of which nothing is told any more.
func TestABoardHasWhatWasToldLast(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) board.Board{
		"sheets": func(*testing.T) board.Board { return board.NewRedis(&sheets{tallytest.New()}, "p", idle, nil) },
		"signed sheets": func(t *testing.T) board.Board {
			return board.NewRedis(&sheets{tallytest.New()}, "p", idle, keysOf(t, "k"))
		},
		"documents":        func(t *testing.T) board.Board { return pages(t, nil) },
		"signed documents": func(t *testing.T) board.Board { return pages(t, keysOf(t, "k")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			defer b.Close()
			ctx := t.Context()
			began := time.Now().UTC().Truncate(time.Millisecond)
			run := board.Run{
				ID: "run_1", Owner: "key", Tenant: "red", User: "u", Name: "a task / 任务", Sign: "session", Model: "m",
				Began: began, Used: began, Limits: budget.RunLimits{Cost: 5, Requests: 3}, Terms: budget.Terms{Version: 1}.String(),
				Code: "run_limit_reached", Reason: "It has used 3 of 3.",
			}
			other := board.Run{ID: "run_2", Name: "other", Began: began, Used: began, Terms: budget.Terms{}.String()}
			for _, list := range [][]board.Run{{run, other}, {other}} {
				if _, err := b.Tell(ctx, list); err != nil {
					t.Fatal(err)
				}
			}
			run.Model, run.Terms = "n", budget.Terms{Version: 2, IsEnded: true, IsCut: true}.String()
			if _, err := b.Tell(ctx, []board.Run{run}); err != nil {
				t.Fatal(err)
			}
			found, err := b.Since(ctx, began.Add(-idle))
			if err != nil || len(found) != 2 {
				t.Fatalf("%+v, %v", found, err)
			}
			for _, got := range found {
				if want := map[string]board.Run{"run_1": run, "run_2": other}[got.ID]; got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
			if err := b.Sweep(ctx, began.Add(-idle)); err != nil {
				t.Error(err)
			}
			if found, _ := b.Since(ctx, began.Add(-idle)); len(found) != 2 {
				t.Errorf("swept too early: %+v", found)
			}
		})
	}
}

// sheets are a store of totals without a pool.
type sheets struct{ *tallytest.Model }

func (s *sheets) Tell(_ context.Context, list []tally.Sheet, isNews bool) ([]map[string]string, error) {
	return s.Model.Tell(list, isNews), nil
}

// A gateway that does not know the latest decision does not take it back when it tells of its run.
func TestTheLatestDecisionStaysOnABoardOfDocuments(t *testing.T) {
	t.Parallel()
	b, now := pages(t, nil), time.Now()
	ended := budget.Terms{Version: 5, IsEnded: true}.String()
	for _, terms := range []string{ended, budget.Terms{Version: 4}.String()} {
		if _, err := b.Tell(t.Context(), []board.Run{{ID: "run_1", Name: "n", Used: now, Terms: terms}}); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := b.Since(t.Context(), now.Add(-idle)); err != nil || len(found) != 1 || found[0].Terms != ended {
		t.Errorf("%+v, %v", found, err)
	}
	if err := b.Sweep(t.Context(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if found, _ := b.Since(t.Context(), now.Add(-idle)); len(found) != 0 {
		t.Errorf("a run that is over stays: %+v", found)
	}
}

// Nobody without the master key shows a run, and none of another sheet.
func TestAForgedRunIsNotRead(t *testing.T) {
	t.Parallel()
	store := &sheets{tallytest.New()}
	run := board.Run{ID: "run_1", Name: "n", Used: time.Now(), Terms: budget.Terms{}.String()}
	for _, keys := range []*seal.Keys{nil, keysOf(t, "other")} {
		if _, err := board.NewRedis(store, "p", idle, keys).Tell(t.Context(), []board.Run{run}); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := board.NewRedis(store, "p", idle, keysOf(t, "k")).Since(t.Context(), time.Now()); err != nil || len(found) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// A run that began after the one of its name was over has no decision about that one.
func TestARunOfTheSameNameBeginsAnew(t *testing.T) {
	t.Parallel()
	b, now := pages(t, nil), time.Now()
	ended := budget.Terms{Version: 5, IsEnded: true}.String()
	for _, run := range []board.Run{
		{ID: "run_1", Name: "n", Began: now.Add(-3 * idle), Used: now.Add(-2 * idle), Terms: ended},
		{ID: "run_1", Name: "n", Began: now.Add(-idle), Used: now, Terms: budget.Terms{}.String()},
	} {
		if told, err := b.Tell(t.Context(), []board.Run{run}); told != 1 || err != nil {
			t.Fatal(told, err)
		}
	}
	if found, err := b.Since(t.Context(), now.Add(-idle)); err != nil || len(found) != 1 || found[0].Terms != (budget.Terms{}).String() {
		t.Errorf("%+v, %v", found, err)
	}
}

// What is told in many round trips is told as far as the time goes, and a reason that is cut in a letter
// is a text still.
func TestAListThatEndsWithItsTimeIsToldInPart(t *testing.T) {
	t.Parallel()
	docs, err := pgdocuments.New(storetest.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer docs.Close()
	ctx, cancel := context.WithCancel(t.Context())
	const before = 3
	b := board.NewDocuments(&ending{docs, before, cancel}, idle, func() {})
	now := time.Now()
	var all []board.Run
	for i := range 2 * before {
		all = append(all, board.Run{ID: fmt.Sprint("run_", i), Name: "n", Began: now, Used: now, Terms: budget.Terms{}.String(),
			Reason: strings.Repeat("x", 999) + "任"})
	}
	if told, err := b.Tell(ctx, all); told != before || err == nil {
		t.Errorf("%d are told, %v", told, err)
	}
	if found, err := board.NewDocuments(docs, idle, func() {}).Since(t.Context(), now.Add(-idle)); err != nil || len(found) != before {
		t.Errorf("%d are found, %v", len(found), err)
	}
}

// ending are documents of which so many are put before the context ends.
type ending struct {
	documents.Store
	left   int
	cancel context.CancelFunc
}

func (e *ending) Put(ctx context.Context, doc documents.Document) (int64, error) {
	if e.left--; e.left < 0 {
		e.cancel()
		return 0, ctx.Err()
	}
	return e.Store.Put(ctx, doc)
}

// named are sheets that keep the name of the one that was written last.
type named struct {
	sheets
	last string
}

func (n *named) Tell(ctx context.Context, list []tally.Sheet, isNews bool) ([]map[string]string, error) {
	if len(list[0].Totals) > 0 {
		n.last = list[0].Name
	}
	return n.sheets.Tell(ctx, list, isNews)
}

// A gateway finds out that its run was removed or replaced, and has it back when it announces it again,
// whatever order the forged entry has. What another gateway with the key told is no forgery.
func TestADisplacedRunIsToldAgain(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, "k")
	for name, forged := range map[string]string{"removed": "", "replaced": "999999999999999999 {}", "no text of a gateway": "x"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &named{sheets: sheets{tallytest.New()}}
			b, now := board.NewRedis(store, "p", idle, keys), time.Now()
			run := board.Run{ID: "run_1", Name: "n", Began: now.UTC(), Used: now.UTC(), Terms: budget.Terms{}.String()}
			tell := func(b board.Board) {
				t.Helper()
				if _, err := b.Tell(t.Context(), []board.Run{run}); err != nil {
					t.Fatal(err)
				}
			}
			has := func(want ...string) {
				t.Helper()
				if ids, err := b.Displaced(t.Context()); err != nil || !slices.Equal(ids, want) {
					t.Errorf("displaced are %v, %v, want %v", ids, err, want)
				}
			}
			has()
			tell(b)
			tell(board.NewRedis(store, "p", idle, keys))
			has()
			store.Put(store.last, run.ID, forged)
			has(run.ID)
			tell(b)
			has()
			if found, err := b.Since(t.Context(), now); err != nil || len(found) != 1 || found[0] != run {
				t.Errorf("found %+v, %v, want %+v", found, err, run)
			}
		})
	}
}
