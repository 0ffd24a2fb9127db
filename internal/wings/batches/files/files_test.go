package files_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

var (
	alice = files.Owner{Key: "alice", Issue: "1"}
	bob   = files.Owner{Key: "bob", Issue: "1", Tenant: "red"}
)

func open(t *testing.T, folder string, docs documents.Store, keys *seal.Keys, settings files.Settings) *files.Store {
	t.Helper()
	store, err := files.Open(files.Options{
		Documents: docs, Folder: folder, Keys: keys, Settings: func() files.Settings { return settings }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func put(store *files.Store, owner files.Owner, content []byte) (files.File, error) {
	ctx := context.Background()
	u, err := store.Create(ctx, files.File{Owner: owner, Filename: "f", Purpose: "batch"})
	if err != nil {
		return files.File{}, err
	}
	defer u.Abort()
	if _, err := u.Write(content); err != nil {
		return files.File{}, err
	}
	return u.Commit(ctx)
}

func TestAnyPartOfAContentCanBeRead(t *testing.T) {
	t.Parallel()
	const master, other = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	random := rand.New(rand.NewPCG(1, 2))
	for _, key := range []string{"", master} {
		folder, docs := t.TempDir(), documents.NewMemory()
		keys, _ := seal.New(key, "")
		store := open(t, folder, docs, keys, files.DefaultSettings())
		for _, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300_000} {
			content := make([]byte, size)
			for i := range content {
				content[i] = byte(random.Uint32())
			}
			file, err := put(store, alice, content)
			if err != nil || file.Bytes != int64(size) {
				t.Fatalf("a file of %d bytes: %+v, %v", size, file, err)
			}
			keys, _ := seal.New(key, "")
			if key != "" {
				keys, _ = seal.New(other, key) // the master key was replaced
			}
			testContent(t, open(t, folder, docs, keys, files.DefaultSettings()), file, content)
			if key == "" || size == 0 {
				continue
			}
			if stored, err := os.ReadFile(filepath.Join(folder, file.ID)); err != nil || size > 16 && bytes.Contains(stored, content[:16]) {
				t.Errorf("the content can be read on disk: %v", err)
			}
			strangers, _ := seal.New(other, "")
			if _, err := open(t, folder, docs, strangers, files.DefaultSettings()).Open(file); !errors.Is(err, seal.ErrKey) {
				t.Errorf("with another key it gives %v", err)
			}
		}
	}
}

func testContent(t *testing.T, store *files.Store, file files.File, want []byte) {
	t.Helper()
	content, err := store.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	for _, at := range []int{0, 1, 70_000, 200_000} {
		if at > len(want) {
			continue
		}
		if got, err := io.ReadAll(content.From(int64(at))); err != nil || !bytes.Equal(got, want[at:]) {
			t.Errorf("%d of %d bytes from %d on, %v", len(got), len(want)-at, at, err)
		}
	}
}

func TestFilesExpireAndWhatACrashLeftIsRemoved(t *testing.T) {
	t.Parallel()
	folder, docs := t.TempDir(), documents.NewMemory()
	settings := files.DefaultSettings()
	settings.Retention = schema.Duration(-time.Hour) // their time is over at once
	store := open(t, folder, docs, nil, settings)
	file, err := put(store, alice, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), alice.Scope(), file.ID); !errors.Is(err, files.ErrNotFound) {
		t.Errorf("a file whose time is over gives %v", err)
	}
	if err := store.Expire(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	kept, err := put(open(t, folder, docs, nil, files.DefaultSettings()), alice, []byte("y"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file-nobodys", ".new-file-half"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("z"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, folder, docs, nil, files.DefaultSettings())
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 || left[0].Name() != kept.ID {
		t.Errorf("in the folder are %v, %v", left, err)
	}
}

// unable is a store of documents that keeps nothing.
type unable struct{ documents.Store }

// Put returns an error.
func (unable) Put(context.Context, documents.Document) (int64, error) { return 0, errors.New("unable") }

// A content without a description would be on the disk, and neither listed nor counted.
func TestAFileThatCannotBeDescribedLeavesNoContent(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		docs documents.Store
		name string
	}{
		"a name that cannot be encoded":  {documents.NewMemory(), "f\xff"},
		"a description that is not kept": {unable{documents.NewMemory()}, "f"},
	} {
		folder := t.TempDir()
		store := open(t, folder, test.docs, nil, files.DefaultSettings())
		u, err := store.Create(t.Context(), files.File{Owner: alice, Filename: test.name, Purpose: "batch"})
		if err == nil {
			_, err = u.Write(bytes.Repeat([]byte("x"), 100_000))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Commit(t.Context()); err == nil {
			t.Errorf("%s: got no error", what)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%s: got %v (%v) in the folder, want nothing", what, left, err)
		}
	}
}
