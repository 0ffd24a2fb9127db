package documents_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/documents"
	"github.com/patchbay-ai/patchbay/internal/documents/documentstest"
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
