package batches

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
)

// A batch that waits for its backend for longer than files are kept has its lines until it ends.
func TestABatchHasItsLinesForAsLongAsItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		h.bounds.Retention = schema.Duration(time.Hour)
		var isThere atomic.Bool
		b.presence = func(string) Presence {
			if isThere.Load() {
				return Served
			}
			return Unclear
		}
		e := h.open(b)
		stop := start(e)
		made := h.submit(e, linesOf(3))
		<-time.After(3 * time.Hour)
		stop() // so that the file is opened again
		e = h.open(b)
		defer start(e)()
		<-time.After(time.Hour)
		isThere.Store(true)
		p := h.await(e, made.ID)
		if p.State != Completed || p.Counts.Done != 3 {
			t.Fatalf("the batch is %s with %+v", p.State, p.Counts)
		}
		<-time.After(30 * time.Minute)
		if _, err := e.o.Files.Input(context.Background(), owner.Scope(), made.Input); err == nil {
			t.Error("the file is kept after the batch has ended")
		}
	})
}

// A batch ends when its time is over, also where somebody has removed the file of its lines.
func TestABatchWithoutItsLinesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		h.sets.Window = schema.Duration(10 * time.Minute)
		b.presence = func(string) Presence { return Unclear }
		e := h.open(b)
		defer start(e)()
		made := h.submit(e, linesOf(3))
		<-time.After(time.Minute)
		h.check(os.RemoveAll(filepath.Join(h.folder, "contents", made.Input)))
		if p := h.await(e, made.ID); p.State != Expired || p.Errors != "" {
			t.Errorf("the batch is %s with %q", p.State, p.Errors)
		}
	})
}

// Lines whose answers were lost with the disk are waited for no longer than the batch runs.
func TestABatchWhoseAnswersAreGoneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		h.sets.Window = schema.Duration(10 * time.Minute)
		b.room = 1
		e := h.open(b)
		defer start(e)()
		made := h.submit(e, linesOf(20)) // in chunks of 8
		<-time.After(10 * time.Second)
		h.check(os.RemoveAll(e.folderOf(made.ID)))
		p := h.await(e, made.ID)
		if p.State != Expired || p.Counts.Done == 20 || time.Since(made.Created) < 10*time.Minute {
			t.Fatalf("after %s the batch is %s with %+v", time.Since(made.Created), p.State, p.Counts)
		}
		if got := len(h.results(e, p.Errors)) + len(h.results(e, p.Output)); got != 20 {
			t.Errorf("there are %d results", got)
		}
	})
}

// slowUse is a store whose answer to how much is used takes a second.
type slowUse struct{ documents.Store }

func (s slowUse) Use(ctx context.Context, kind, scope string) (own, all documents.Use, err error) {
	<-time.After(time.Second)
	return s.Store.Use(ctx, kind, scope)
}

// Of lines that end together one finds no room because the other has just taken it for both.
func TestLinesThatEndTogetherTakeRoomTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.docs, h.leases = slowUse{documents.NewMemory()}, documents.NewMemory()
		h.bounds.MaxBytesPerKey = roomStep + 3000
		e := h.open(newBackend())
		j := newJob(e, Batch{ID: "batch_1", Owner: owner, Expires: time.Now().Add(time.Hour)})
		for range 2 {
			go j.hold(1000)
		}
		synctest.Wait()
		<-time.After(time.Minute)
		if problem := j.whyStill(); problem.Is() || !j.fullSince.IsZero() || j.lacks() > 0 {
			t.Errorf("the batch says %q, and lacks %d", problem, j.lacks())
		}
		if surplus := -j.lacks(); surplus > roomStep {
			t.Errorf("it holds %d bytes for nothing", surplus)
		}
	})
}

// A line that cannot be handled does not keep the lines of others from being read.
func TestALineThatPanicsGivesTheTurnToReadBack(t *testing.T) {
	h := newHouse(t)
	e := h.open(newBackend())
	j := newJob(e, Batch{ID: "batch_1", Owner: owner, Expires: time.Now().Add(time.Hour)})
	e.ahead.reading.Lock()
	isFine := logs.Contain(e.o.Log, "reading a line", func() { _ = j.readLine(Batch{}, nil, nil, 0) })
	if isFine || !e.ahead.reading.TryLock() {
		t.Errorf("the line is fine: %t, and others wait for ever", isFine)
	}
}

// unlisted is a store that does not list what is open.
type unlisted struct{ documents.Store }

func (u unlisted) List(ctx context.Context, q documents.Query) ([]documents.Document, error) {
	if q.OnlyOpen && len(q.Scopes) == 0 {
		return nil, documents.ErrUnavailable
	}
	return u.Store.List(ctx, q)
}

// Whoever is told that a batch was not made makes it again.
func TestABatchThatIsStoredIsMade(t *testing.T) {
	h := newHouse(t)
	h.docs, h.leases = unlisted{documents.NewMemory()}, documents.NewMemory()
	e := h.open(newBackend())
	made := h.submit(e, linesOf(1))
	if _, err := e.Get(context.Background(), owner.Scope(), made.ID); err != nil {
		t.Error(err)
	}
}

// Answers that nobody can read any more, because the master key is another one, do not keep a
// batch from its end.
func TestABatchEndsWhoseAnswersCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b := newHouse(t), newBackend()
		h.sets.Window = schema.Duration(10 * time.Minute)
		e := h.open(b)
		defer start(e)()
		made := h.submit(e, linesOf(20))
		<-time.After(1500 * time.Millisecond)
		h.check(os.WriteFile(filepath.Join(e.folderOf(made.ID), journalPrefix+"a"), append([]byte("pbk2"), make([]byte, 100)...), 0o600))
		p := h.await(e, made.ID)
		if late := time.Since(p.Expires); p.State != Completed || p.Counts.Done != 20 || late < lostAfter || late > lostAfter+time.Minute {
			t.Errorf("%s after its time the batch is %s with %+v", late, p.State, p.Counts)
		}
	})
}
