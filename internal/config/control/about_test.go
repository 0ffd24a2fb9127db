package control_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	. "github.com/patchbay-ai/patchbay/internal/config/control" //nolint:revive // as in the other tests
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// countingStore counts how often a version is read.
type countingStore struct {
	versions.Store
	reads atomic.Int64
}

func (s *countingStore) Load(number int) (*Version, error) {
	s.reads.Add(1)
	return s.Store.Load(number)
}

// Lists of versions are asked for every few seconds: what they say is read from the disk
// once, and a version that was deleted is not said to be there.
func TestAVersionIsReadOnceForLists(t *testing.T) {
	dir, err := files.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := &countingStore{Store: dir}
	c, err := Opening{Store: store, Document: config.Default(), Current: new(routing.Current), Log: slog.New(slog.DiscardHandler)}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Control: c}
	for n := range 5 {
		mustChange(t, b, add(fmt.Sprint("m-", n)))
	}
	list := func() (said []string) {
		t.Helper()
		numbers, err := c.Versions()
		if err != nil {
			t.Fatal(err)
		}
		for _, number := range numbers {
			about, err := c.About(number)
			if err != nil {
				t.Fatal(err)
			}
			if about.Number != number || about.CreatedAt.IsZero() || len(about.Said) == 0 {
				t.Errorf("version %d: %+v", number, about)
			}
			said = append(said, about.Summary)
		}
		return said
	}
	if first := list(); len(first) != 6 {
		t.Fatal(first)
	}
	before := store.reads.Load()
	for range 3 {
		list()
	}
	if more := store.reads.Load() - before; more != 0 {
		t.Errorf("%d reads for three more lists", more)
	}
	mustChange(t, b, add("another"))
	before = store.reads.Load()
	if now := list(); len(now) != 7 || now[6] == now[5] {
		t.Errorf("after a change: %q", now)
	}
	// The new one, and the one before it, from which it is told what changed.
	if more := store.reads.Load() - before; more > 2 {
		t.Errorf("%d reads for one new version", more)
	}
	if _, err := c.Delete(t.Context(), Change{}, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := c.About(2); !errors.Is(err, versions.ErrNoVersion) {
		t.Errorf("a deleted version: %v", err)
	}
	if now := list(); len(now) != 6 {
		t.Errorf("after a deletion: %q", now)
	}
}
