package batches

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// kept returns the ids of the batches of an owner, the newest first.
func (h *house) kept(e *Engine, scope string) []string {
	h.t.Helper()
	all, _, err := e.List(context.Background(), Listing{Scope: scope, Limit: 10_000})
	h.check(err)
	var ids []string
	for _, p := range all {
		ids = append(ids, p.ID)
	}
	return ids
}

func TestTheOldestBatchesThatHaveEndedGiveWayToNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.sets.MaxKept = 3
		e := h.open(newBackend())
		defer start(e)()
		var made []Batch
		for range 5 {
			b := h.submit(e, linesOf(1))
			h.await(e, b.ID)
			made = append(made, b)
		}
		if got, want := fmt.Sprint(h.kept(e, owner.Scope())), fmt.Sprint([]string{made[4].ID, made[3].ID, made[2].ID}); got != want {
			t.Errorf("there are %s, want %s", got, want)
		}
		found, _, err := e.o.Files.List(context.Background(), files.Listing{Scope: owner.Scope(), Purpose: "batch_output", Limit: 100})
		if len(found) != 3 || err != nil {
			t.Errorf("%d results are left, %v", len(found), err)
		}
	})
}

func TestBatchesThatRunDoNotGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.sets.MaxKept = 2
		e := h.open(hanging{})
		defer start(e)()
		h.submit(e, linesOf(1))
		last := h.submit(e, linesOf(1))
		_, err := e.Create(context.Background(), Batch{Owner: owner, Form: OpenAI, Endpoint: chatEndpoint, Input: last.Input, Window: "24h"}, time.Hour)
		if !errors.Is(err, ErrTooManyKept) {
			t.Errorf("a third batch gives %v", err)
		}
	})
}

func TestWhoHasTheMostBatchesGivesWayToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.sets.MaxKeptInAll = 5
		e := h.open(newBackend())
		defer start(e)()
		other := files.Owner{Key: "bob", Issue: "1"}
		for i := range 8 {
			h.owner = owner
			if i%4 == 3 {
				h.owner = other
			}
			h.await(e, h.submit(e, linesOf(1)).ID)
		}
		if own, others := len(h.kept(e, owner.Scope())), len(h.kept(e, other.Scope())); own != 3 || others != 2 {
			t.Errorf("there are %d batches and %d of another owner", own, others)
		}
	})
}

func TestBatchesDoNotGiveWayToThoseWhoHaveMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.sets.MaxKeptInAll = 4
		running := newBackend()
		e := h.open(running)
		defer start(e)()
		h.owner = files.Owner{Key: "bob", Issue: "1"}
		done := h.submit(e, linesOf(1))
		h.await(e, done.ID)
		running.takes = time.Hour
		h.owner = owner
		var last Batch
		for range 3 {
			last = h.submit(e, linesOf(1))
		}
		_, err := e.Create(context.Background(), Batch{Owner: owner, Form: OpenAI, Endpoint: chatEndpoint, Input: last.Input, Window: "24h"}, time.Hour)
		if !errors.Is(err, ErrAllTooManyKept) {
			t.Errorf("a fourth batch of the one who has the most gives %v", err)
		}
		if _, err := e.Get(context.Background(), AnyScope, done.ID); err != nil {
			t.Errorf("the only one of another owner: %v", err)
		}
	})
}

func TestBatchesAboveTheBoundsGoAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.open(newBackend())
		stop := start(e)
		var last Batch
		for range 8 {
			last = h.submit(e, linesOf(1))
			h.await(e, last.ID)
		}
		stop()
		h.sets.MaxKept, h.bounds.MaxFiles = 3, 10
		e = h.open(newBackend())
		defer start(e)()
		synctest.Wait()
		if ids := h.kept(e, owner.Scope()); len(ids) != 2 || ids[0] != last.ID {
			t.Errorf("there are %v", ids)
		}
		// The files are eight inputs and the results of the last two.
		if left, err := os.ReadDir(filepath.Join(h.folder, "contents")); err != nil || len(left) != 10 {
			t.Errorf("%d contents are left, %v", len(left), err)
		}
	})
}

func TestABatchWithManyMetadataCountsAsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.bounds.MaxBytesPerKey = 100 << 10
		e := h.open(hanging{})
		defer start(e)()
		b := h.submit(e, linesOf(1))
		many := map[string]string{}
		for i := range 16 {
			many[fmt.Sprint(i)] = strings.Repeat("x", 500)
		}
		var err error
		for n := 0; err == nil && n < 50; n++ {
			_, err = e.Create(context.Background(), Batch{Owner: owner, Form: OpenAI, Endpoint: chatEndpoint, Input: b.Input, Window: "24h", Metadata: many}, time.Hour)
		}
		if !errors.Is(err, files.ErrNoRoom) {
			t.Errorf("batches without an end give %v", err)
		}
	})
}

func TestBatchesThatAreMadeTogetherDoNotPassTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.sets.MaxOpen = 5
		e := h.open(hanging{})
		defer start(e)()
		input := h.submit(e, linesOf(1)).Input
		errs := make(chan error, 60)
		for range cap(errs) {
			go func() {
				_, err := e.Create(context.Background(), Batch{Owner: owner, Form: OpenAI, Endpoint: chatEndpoint, Input: input, Window: "24h"}, time.Hour)
				errs <- err
			}()
		}
		made := 1
		for range cap(errs) {
			if <-errs == nil {
				made++
			}
		}
		if made != 5 {
			t.Errorf("%d batches are open", made)
		}
	})
}

// A list goes on after a batch that was deleted when it was seen.
func TestAListGoesOnAfterADeletedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.open(newBackend())
		defer start(e)()
		for range 5 {
			h.await(e, h.submit(e, linesOf(1)).ID)
		}
		ctx := context.Background()
		seen, after := 0, ""
		for {
			found, hasMore, err := e.List(ctx, Listing{Scope: owner.Scope(), After: after, Limit: 2})
			h.check(err)
			for _, p := range found {
				seen++
				after = p.ID
				h.check(e.Delete(ctx, owner.Scope(), p.ID))
			}
			if !hasMore {
				break
			}
		}
		if seen != 5 {
			t.Errorf("%d of 5 batches were seen", seen)
		}
		if _, _, err := e.List(ctx, Listing{Scope: owner.Scope(), After: "batch_nobodys", Limit: 2}); !errors.Is(err, ErrNotFound) {
			t.Errorf("a list after a batch that never was gives %v", err)
		}
	})
}

func TestWhatARemovedKeyMadeGoesAfterAWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		gone, other, tenant := files.Owner{Key: "gone", Issue: "1"}, files.Owner{Key: "other", Issue: "1"}, owner
		var removed sync.Map
		h.isRemoved = func(o files.Owner) bool {
			_, isRemoved := removed.Load(o.Key)
			return isRemoved
		}
		e := h.open(newBackend())
		stop := start(e)
		for _, h.owner = range []files.Owner{gone, other, tenant} {
			h.await(e, h.submit(e, linesOf(1)).ID)
		}
		<-time.After(24 * time.Hour)
		removed.Store("gone", true)
		removed.Store(tenant.Key, true)
		<-time.After(2 * expireEvery)
		// It was there again for a while, and the gateway was restarted.
		removed.Delete("gone")
		<-time.After(2 * expireEvery)
		removed.Store("gone", true)
		<-time.After(3 * 24 * time.Hour)
		stop()
		e = h.open(newBackend())
		defer start(e)()
		<-time.After(4*24*time.Hour - 2*expireEvery)
		if n := len(h.kept(e, gone.Scope())); n != 1 {
			t.Errorf("before a week is over %d batches are left", n)
		}
		<-time.After(4 * expireEvery)
		for scope, want := range map[string]int{gone.Scope(): 0, other.Scope(): 1, tenant.Scope(): 1} {
			found, _, err := e.o.Files.List(context.Background(), files.Listing{Scope: scope, Limit: 10})
			if n := len(h.kept(e, scope)); n != want || len(found) != 2*want || err != nil {
				t.Errorf("%s has %d batches and %d files, %v", scope, n, len(found), err)
			}
		}
	})
}
