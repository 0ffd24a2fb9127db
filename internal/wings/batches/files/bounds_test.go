package files_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// block is what is added to each file for its description.
const block = 4 << 10

func TestBoundsOfFiles(t *testing.T) {
	t.Parallel()
	settings := files.DefaultSettings()
	settings.MaxSize, settings.MaxFiles, settings.MaxBytesPerKey, settings.MaxBytes = 1000, 3, 3*block+2000, 4*block+2500
	store := open(t, t.TempDir(), documents.NewMemory(), nil, settings)
	expect := func(want error, owner files.Owner, size int) files.File {
		t.Helper()
		file, err := put(store, owner, make([]byte, size))
		if !errors.Is(err, want) {
			t.Errorf("a file of %d bytes gives %v, want %v", size, err, want)
		}
		return file
	}
	expect(files.ErrTooLarge, alice, 1001)
	first := expect(nil, alice, 1000)
	expect(nil, alice, 900)
	expect(files.ErrNoRoom, alice, 101)
	expect(nil, alice, 0)
	expect(files.ErrTooMany, alice, 1)
	expect(files.ErrAllFull, bob, 700)
	expect(nil, bob, 600)
	if err := store.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	expect(nil, alice, 900)
	if err := store.Hold(t.Context(), bob.Scope(), 101); !errors.Is(err, files.ErrAllFull) {
		t.Errorf("more room than there is: %v", err)
	}
	if err := store.Hold(t.Context(), bob.Scope(), 100); err != nil {
		t.Error(err)
	}
}

func TestUploadsThatAreBegunTogetherDoNotPassTheirNumber(t *testing.T) {
	t.Parallel()
	settings := files.DefaultSettings()
	settings.MaxFiles = 5
	store := open(t, t.TempDir(), documents.NewMemory(), nil, settings)
	var begun []*files.Upload
	for range 60 {
		u, err := store.Create(t.Context(), files.File{Owner: alice})
		if err == nil {
			begun = append(begun, u)
		} else if !errors.Is(err, files.ErrTooMany) {
			t.Fatal(err)
		}
	}
	if len(begun) != 5 {
		t.Fatalf("%d uploads were begun", len(begun))
	}
	begun[0].Abort() // gives its place back
	if _, err := put(store, alice, []byte("x")); err != nil {
		t.Error(err)
	}
	for _, u := range begun[1:] {
		if _, err := u.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := put(store, alice, []byte("x")); !errors.Is(err, files.ErrTooMany) {
		t.Errorf("a sixth file gives %v", err)
	}
}

func TestFilesThatAreMadeAtTheSameTimeDoNotPassTheirNumber(t *testing.T) {
	t.Parallel()
	settings := files.DefaultSettings()
	settings.MaxFiles = 10
	store := open(t, t.TempDir(), documents.NewMemory(), nil, settings)
	var made atomic.Int32
	var making sync.WaitGroup
	for range 40 {
		making.Go(func() {
			if _, err := put(store, alice, []byte("x")); err == nil {
				made.Add(1)
			}
		})
	}
	making.Wait()
	if n := made.Load(); n > 10 {
		t.Errorf("%d files were made", n)
	}
}

// batchesOf makes results of batches that have ended, of one file each.
type ended struct {
	store *files.Store
	gone  []string
	open  string // the one that has not ended
}

func (e *ended) giveWay(_ context.Context, id string) (bool, error) {
	if id == e.open {
		return true, nil
	}
	e.gone = append(e.gone, id)
	return false, nil
}

// result makes a result of a batch.
func (e *ended) result(t *testing.T, owner files.Owner, number, size int) {
	t.Helper()
	created := time.Now().Add(time.Duration(number) * time.Second)
	u, err := e.store.CreateOwn(files.File{ID: files.ResultID(created, fmt.Sprintf("batch_%d", number), "output", 1), Created: created, Owner: owner, Purpose: "batch_output"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func openWithResults(t *testing.T, settings files.Settings) (*files.Store, *ended) {
	t.Helper()
	store := open(t, t.TempDir(), documents.NewMemory(), nil, settings)
	e := &ended{store: store}
	store.GiveWay("batch", e.giveWay)
	return store, e
}

func TestOldResultsOfAnOwnerGiveWay(t *testing.T) {
	t.Parallel()
	settings := files.DefaultSettings()
	settings.MaxFiles, settings.MaxBytesPerKey = 5, 10*block
	store, e := openWithResults(t, settings)
	e.open = "batch_0"
	for i := range 4 {
		e.result(t, alice, i, 1)
	}
	e.result(t, bob, 9, 1)
	for range 2 {
		if _, err := put(store, alice, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"batch_1"}; !slices.Equal(e.gone, want) {
		t.Errorf("for two files went %v, want %v", e.gone, want)
	}
	// There are batch_0, batch_2, batch_3 and two files: more than a result is needed.
	if _, err := put(store, alice, make([]byte, 5*block)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"batch_1", "batch_2", "batch_3"}; !slices.Equal(e.gone, want) {
		t.Errorf("for a large file went %v, want %v", e.gone, want)
	}
}

func TestResultsDoNotGoForNothing(t *testing.T) {
	t.Parallel()
	settings := files.DefaultSettings()
	settings.MaxBytesPerKey = 10 * block
	store, e := openWithResults(t, settings)
	e.result(t, alice, 1, block)
	if _, err := put(store, alice, make([]byte, 20*block)); !errors.Is(err, files.ErrNoRoom) {
		t.Errorf("a file that cannot have room gives %v", err)
	}
	if len(e.gone) > 0 {
		t.Errorf("%v went for it", e.gone)
	}
}

func TestWhoHasTheMostGivesWayToOthers(t *testing.T) {
	t.Parallel()
	settings := files.DefaultSettings()
	settings.MaxFilesInAll = 6
	store, e := openWithResults(t, settings)
	e.result(t, bob, 1, 1)
	for i := range 4 {
		e.result(t, alice, 10+i, 1)
	}
	for range 3 {
		if _, err := put(store, bob, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"batch_10", "batch_11"}; !slices.Equal(e.gone, want) {
		t.Errorf("%v went, want %v", e.gone, want)
	}
}

// Whoever fills the disk with uploads, which never give way, does not push out the results of
// those who have less.
func TestResultsDoNotGiveWayToThoseWhoHaveMore(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]func(*files.Settings){
		"number": func(s *files.Settings) { s.MaxFilesInAll = 6 },
		"bytes":  func(s *files.Settings) { s.MaxBytes = 6 * (block + 1) },
	} {
		settings := files.DefaultSettings()
		bound(&settings)
		store, e := openWithResults(t, settings)
		e.result(t, bob, 1, 1)
		for range 5 {
			if _, err := put(store, alice, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := put(store, alice, []byte("x")); !errors.Is(err, files.ErrAllFull) && !errors.Is(err, files.ErrAllTooMany) {
			t.Errorf("%s: one more file of the one who has the most gives %v", name, err)
		}
		if len(e.gone) > 0 {
			t.Errorf("%s: for it went %v", name, e.gone)
		}
	}
}

// Results do not go for a bound that was made so small that all of them are not enough.
func TestResultsOfAllDoNotGoForNothing(t *testing.T) {
	t.Parallel()
	settings := files.DefaultSettings()
	docs, folder := documents.NewMemory(), t.TempDir()
	before := open(t, folder, docs, nil, settings)
	e := &ended{store: before}
	e.result(t, bob, 1, 1)
	if _, err := put(before, alice, make([]byte, 100*block)); err != nil {
		t.Fatal(err)
	}
	settings.MaxBytes = 10 * block
	store := open(t, folder, docs, nil, settings)
	store.GiveWay("batch", e.giveWay)
	if err := store.Hold(t.Context(), "key carol 1", 1); !errors.Is(err, files.ErrAllFull) || len(e.gone) > 0 {
		t.Errorf("it gives %v, and for it went %v", err, e.gone)
	}
}

func TestResultsAboveTheNumberOfFilesAreTrimmed(t *testing.T) {
	t.Parallel()
	settings := files.DefaultSettings()
	docs, folder := documents.NewMemory(), t.TempDir()
	e := &ended{store: open(t, folder, docs, nil, settings)}
	for i := range 8 {
		e.result(t, alice, i, 1)
	}
	settings.MaxFiles = 5
	store := open(t, folder, docs, nil, settings)
	store.GiveWay("batch", e.giveWay)
	if err := store.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"batch_0", "batch_1", "batch_2"}; !slices.Equal(e.gone, want) {
		t.Errorf("%v went, want %v", e.gone, want)
	}
}

// onDisk opens a store on a disk of a size, with some of it free.
func onDisk(t *testing.T, total int64, free *atomic.Int64, settings files.Settings) *files.Store {
	t.Helper()
	store, err := files.Open(files.Options{
		Documents: documents.NewMemory(), Folder: t.TempDir(), Settings: func() files.Settings { return settings }, Log: slog.New(slog.DiscardHandler),
		Space: func(string) (durable.Space, error) { return durable.Space{Total: total, Free: free.Load()}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// counting counts how often it is asked how much is used.
type counting struct {
	documents.Store
	asked atomic.Int64
}

// Use counts the question.
func (c *counting) Use(ctx context.Context, kind, scope string) (own, all documents.Use, err error) {
	c.asked.Add(1)
	return c.Store.Use(ctx, kind, scope)
}

// Each question is a walk through a table where gateways share a database.
func TestALargeUploadAsksSeldomForRoom(t *testing.T) {
	t.Parallel()
	docs := &counting{Store: documents.NewMemory()}
	store := open(t, t.TempDir(), docs, nil, files.DefaultSettings())
	u, err := store.Create(t.Context(), files.File{Owner: alice})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Abort()
	part := make([]byte, 32<<10)
	for range 64 << 20 / len(part) {
		if _, err := u.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if asked := docs.asked.Load(); asked > 30 {
		t.Errorf("for 64 MiB it was asked %d times how much is used", asked)
	}
}

func TestAReserveOfTheDiskStaysFree(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	settings := files.DefaultSettings()
	settings.Reserve = schema.MiB
	store := onDisk(t, 1<<30, &free, settings)
	free.Store(1<<20 + 10*block)
	if _, err := put(store, alice, make([]byte, 5*block)); err != nil {
		t.Error(err)
	}
	if _, err := put(store, alice, make([]byte, 10*block)); !errors.Is(err, files.ErrDiskFull) {
		t.Errorf("a file in the reserve gives %v", err)
	}
	// What others have begun and not written is not free.
	u, err := store.Create(t.Context(), files.File{Owner: alice})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Abort()
	if _, err := u.Write(make([]byte, 5*block)); err != nil {
		t.Fatal(err)
	}
	if _, err := put(store, bob, make([]byte, 4*block)); !errors.Is(err, files.ErrDiskFull) {
		t.Errorf("room that is promised twice gives %v", err)
	}
	if disk := store.Disk(); disk.Free != free.Load() || disk.Reserve != 1<<20 || !disk.IsFull() || disk.Refused != 2 {
		t.Errorf("the disk is %+v", disk)
	}
}

func TestDefaultsFollowTheSizeOfTheDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ total, reserve int64 }{
		{24 << 20, 12 << 20}, {1 << 30, 1 << 30 / 20}, {100 << 30, 1 << 30},
	} {
		var free atomic.Int64
		free.Store(c.total)
		settings := files.DefaultSettings()
		settings.MaxSize = math.MaxInt64
		store := onDisk(t, c.total, &free, settings)
		if disk := store.Disk(); disk.Reserve != c.reserve {
			t.Errorf("of %d bytes %d are reserved, want %d", c.total, disk.Reserve, c.reserve)
		}
		perKey, all := min(c.total/8, 2<<30), min(c.total/2, 20<<30)
		if err := store.Hold(t.Context(), alice.Scope(), perKey+1); !errors.Is(err, files.ErrNoRoom) {
			t.Errorf("of %d bytes an owner gets %d: %v", c.total, perKey+1, err)
		}
		for i := int64(0); i*perKey < all; i++ {
			if err := store.Hold(t.Context(), fmt.Sprint("key ", i), min(perKey, all-i*perKey)); err != nil {
				t.Errorf("of %d bytes owner %d gets none: %v", c.total, i, err)
			}
		}
		if err := store.Hold(t.Context(), alice.Scope(), 1); !errors.Is(err, files.ErrAllFull) {
			t.Errorf("of %d bytes all get more than %d: %v", c.total, all, err)
		}
	}
}
