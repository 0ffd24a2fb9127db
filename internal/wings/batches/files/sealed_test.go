package files_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// read returns the content of a file.
func read(store *files.Store, file files.File) (string, error) {
	content, err := store.Open(file)
	if err != nil {
		return "", err
	}
	defer content.Close()
	text, err := io.ReadAll(content.From(0))
	return string(text), err
}

// An encrypted content is bound to its file and to who sees it, and nothing that is plain is
// taken for it.
func TestAContentIsBoundToItsFileAndScope(t *testing.T) {
	t.Parallel()
	folder, docs := t.TempDir(), documents.NewMemory()
	keys, err := seal.New(strings.Repeat("k", seal.MinKeyLength), "")
	if err != nil {
		t.Fatal(err)
	}
	store := open(t, folder, docs, keys, files.DefaultSettings())
	file, err := put(store, alice, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := read(store, file); text != "secret" || err != nil {
		t.Fatalf("its owner reads %q, %v", text, err)
	}
	stolen := file
	stolen.Owner = bob
	if text, err := read(store, stolen); err == nil {
		t.Errorf("described as that of another owner it is %q", text)
	}
	if err := os.WriteFile(filepath.Join(folder, file.ID), []byte("pbp1forged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := read(store, file); err == nil {
		t.Errorf("a plain content in its place is %q", text)
	}
}
