package registry_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/registry"
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

// open returns a registry in a database of the test.
func open(t *testing.T, keys *seal.Keys) *registry.Registry {
	t.Helper()
	docs, err := pgdocuments.New(storetest.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(docs.Close)
	if keys == nil {
		return registry.New(docs, idle)
	}
	return registry.New(documents.NewSigned(docs, keys, slog.New(slog.DiscardHandler)), idle)
}

// A registry returns what was published last of each run, and keeps the runs that were published lately.
func TestARegistryHasWhatWasPublishedLast(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"plain": "", "signed": "k"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var keys *seal.Keys
			if key != "" {
				keys = keysOf(t, key)
			}
			b := open(t, keys)
			ctx := t.Context()
			began := time.Now().UTC().Truncate(time.Millisecond)
			run := registry.Run{
				ID: "run_1", Owner: "key", Tenant: "red", User: "u", Name: "a task / 任务", Sign: "session", Model: "m",
				Began: began, Used: began, Limits: budget.RunLimits{Cost: 5, Requests: 3}, Terms: budget.Terms{Version: 1}.String(),
				Code: "run_limit_reached", Reason: "It has used 3 of 3.",
			}
			other := registry.Run{ID: "run_2", Name: "other", Began: began, Used: began, Terms: budget.Terms{}.String()}
			for _, list := range [][]registry.Run{{run, other}, {other}} {
				if _, err := b.Publish(ctx, list); err != nil {
					t.Fatal(err)
				}
			}
			run.Model, run.Terms = "n", budget.Terms{Version: 2, IsEnded: true, IsCut: true}.String()
			if _, err := b.Publish(ctx, []registry.Run{run}); err != nil {
				t.Fatal(err)
			}
			found, err := b.Since(ctx, began.Add(-idle))
			if err != nil || len(found) != 2 {
				t.Fatalf("%+v, %v", found, err)
			}
			for _, got := range found {
				if want := map[string]registry.Run{"run_1": run, "run_2": other}[got.ID]; got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
			if err := b.Remove(ctx, began.Add(-idle)); err != nil {
				t.Error(err)
			}
			if found, _ := b.Since(ctx, began.Add(-idle)); len(found) != 2 {
				t.Errorf("swept too early: %+v", found)
			}
		})
	}
}

// A gateway that does not know the latest decision does not take it back when it publishes its run.
func TestTheLatestDecisionStaysInARegistry(t *testing.T) {
	t.Parallel()
	b, now := open(t, nil), time.Now()
	ended := budget.Terms{Version: 5, IsEnded: true}.String()
	for _, terms := range []string{ended, budget.Terms{Version: 4}.String()} {
		if _, err := b.Publish(t.Context(), []registry.Run{{ID: "run_1", Name: "n", Used: now, Terms: terms}}); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := b.Since(t.Context(), now.Add(-idle)); err != nil || len(found) != 1 || found[0].Terms != ended {
		t.Errorf("%+v, %v", found, err)
	}
	if err := b.Remove(t.Context(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if found, _ := b.Since(t.Context(), now.Add(-idle)); len(found) != 0 {
		t.Errorf("a run that is over stays: %+v", found)
	}
}

// A run that was published without the master key is not read.
func TestAForgedRunIsNotRead(t *testing.T) {
	t.Parallel()
	docs, err := pgdocuments.New(storetest.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(docs.Close)
	signed := func(key string) documents.Store {
		return documents.NewSigned(docs, keysOf(t, key), slog.New(slog.DiscardHandler))
	}
	for id, by := range map[string]documents.Store{"run_1": docs, "run_2": signed("other")} {
		run := registry.Run{ID: id, Name: "n", Used: time.Now(), Terms: budget.Terms{}.String()}
		if _, err := registry.New(by, idle).Publish(t.Context(), []registry.Run{run}); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := registry.New(signed("k"), idle).Since(t.Context(), time.Now().Add(-time.Hour)); err != nil || len(found) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// A run that began after the one of its name was over has no decision about that one.
func TestARunOfTheSameNameBeginsAnew(t *testing.T) {
	t.Parallel()
	b, now := open(t, nil), time.Now()
	ended := budget.Terms{Version: 5, IsEnded: true}.String()
	for _, run := range []registry.Run{
		{ID: "run_1", Name: "n", Began: now.Add(-3 * idle), Used: now.Add(-2 * idle), Terms: ended},
		{ID: "run_1", Name: "n", Began: now.Add(-idle), Used: now, Terms: budget.Terms{}.String()},
	} {
		if told, err := b.Publish(t.Context(), []registry.Run{run}); told != 1 || err != nil {
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
	b := registry.New(&ending{docs, before, cancel}, idle)
	now := time.Now()
	var all []registry.Run
	for i := range 2 * before {
		all = append(all, registry.Run{ID: fmt.Sprint("run_", i), Name: "n", Began: now, Used: now, Terms: budget.Terms{}.String(),
			Reason: strings.Repeat("x", 999) + "任"})
	}
	if told, err := b.Publish(ctx, all); told != before || err == nil {
		t.Errorf("%d are told, %v", told, err)
	}
	if found, err := registry.New(docs, idle).Since(t.Context(), now.Add(-idle)); err != nil || len(found) != before {
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
