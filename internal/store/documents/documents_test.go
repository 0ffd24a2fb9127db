package documents_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/testing/documentstest"
)

func TestMemoryKeepsTheContract(t *testing.T) { documentstest.Run(t, documents.NewMemory()) }

func TestADirectoryKeepsTheContract(t *testing.T) { documentstest.Run(t, openDir(t, t.TempDir())) }

func openDir(t *testing.T, path string) *documents.Local {
	t.Helper()
	store, err := documents.OpenDir(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestADirectoryKeepsItsDocuments(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	first := openDir(t, path)
	for _, id := range []string{"a", "b"} {
		if _, err := first.Put(t.Context(), documents.Document{Kind: "k", ID: id, Scope: "s", Created: time.Now(), Bytes: 7, Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(path, "k.b.json"), []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := openDir(t, path)
	if _, err := second.Get(t.Context(), "k", "a"); err != nil {
		t.Error(err)
	}
	if own, _, _ := second.Use(t.Context(), "k", "s"); own != (documents.Use{Count: 1, Bytes: 7}) {
		t.Errorf("in use are %+v", own)
	}
}

// What a directory keeps is not in memory as well.
func TestADirectoryHasOnlyAnIndexInMemory(t *testing.T) {
	path := t.TempDir()
	const many, size = 1000, 10 << 10
	data, _ := json.Marshal(strings.Repeat("x", size))
	store := openDir(t, path)
	for i := range many {
		created := time.Now()
		if _, err := store.Put(t.Context(), documents.Document{Kind: "k", ID: documents.NewID("k_", created), Scope: fmt.Sprint("key ", i%10), Created: created, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	before := heap()
	second := openDir(t, path)
	took := int64(heap()) - int64(before)
	if took > many*1024 {
		t.Errorf("%d documents of %d bytes take %d bytes of memory", many, size, took)
	}
	if found, err := second.List(t.Context(), documents.Query{Kind: "k", Scopes: []string{"key 3"}}); err != nil || len(found) != many/10 || len(found[0].Data) < size {
		t.Errorf("%d documents are listed, %v", len(found), err)
	}
	runtime.KeepAlive(store)
}

// A page of a long list costs what the page costs: whoever walks through 80,000 files asks for
// 800 of them.
func TestAPageOfALongListDoesNotTouchTheRest(t *testing.T) {
	const many = 50_000
	store, began := documents.NewMemory(), time.Now()
	for i := range many {
		created := began.Add(time.Duration(i%1000) * time.Second)
		if _, err := store.Put(t.Context(), documents.Document{Kind: "k", ID: documents.NewID("k_", created), Scope: "s", Created: created, Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, scopes := range [][]string{nil, {"s"}} {
		before := allocated()
		found, err := store.List(t.Context(), documents.Query{Kind: "k", Scopes: scopes, Limit: 100, OnlyNames: true})
		if took := allocated() - before; err != nil || len(found) != 100 || took > many*8 {
			t.Errorf("a page of %d of %d documents takes %d bytes, %v", len(found), many, took, err)
		}
	}
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

// A walk ends with its context, so that a start does not wait for one through all documents.
func TestAWalkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	store := openDir(t, t.TempDir())
	for _, id := range []string{"a", "b", "c"} {
		if _, err := store.Put(t.Context(), documents.Document{Kind: "k", ID: id, Scope: "s", Created: time.Now(), Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	visited := 0
	err := documents.Each(ctx, store, documents.Query{Kind: "k"}, func(documents.Document) (bool, error) {
		visited++
		cancel()
		return true, nil
	})
	if visited != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end %d documents were visited, %v", visited, err)
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
