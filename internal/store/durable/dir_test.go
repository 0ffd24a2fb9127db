package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var errFault = errors.New("fault on purpose")

// names lists everything in a directory, the unfinished included.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whatever step of a write fails, the error is told, the file has its old content and
// nothing is left behind. Only where the rename may not last it has the new one.
func TestWriteThatFailsChangesNothing(t *testing.T) {
	for _, step := range []Step{Create, Fill, Sync, Rename, SyncDir} {
		t.Run(string(step), func(t *testing.T) {
			dir, err := Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if err := dir.Write("a", []byte("old")); err != nil {
				t.Fatal(err)
			}
			dir.Before = func(now Step) error {
				if now == step {
					return errFault
				}
				return nil
			}
			if err := dir.Write("a", []byte("new")); !errors.Is(err, errFault) {
				t.Errorf("error %v", err)
			}
			want := "old"
			if step == SyncDir {
				want = "new"
			}
			if got := content(t, dir.Path("a")); got != want {
				t.Errorf("the file has %q", got)
			}
			if left := names(t, dir.Path("")); !slices.Equal(left, []string{"a"}) {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestRemovalThatFailsIsTold(t *testing.T) {
	dir, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Write("a", []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := dir.Remove("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	dir.Before = func(Step) error { return errFault }
	if err := dir.Remove("a"); !errors.Is(err, errFault) || content(t, dir.Path("a")) != "old" {
		t.Errorf("error %v", err)
	}
}

func TestOpenRemovesWhatWasNotFinished(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{unfinishedPrefix + "1", "kept"} {
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(path); err != nil || !slices.Equal(names(t, path), []string{"kept"}) {
		t.Errorf("%v is left, %v", names(t, path), err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	if err := WriteFile(path, []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// One that was open to others is not any more.
	if err := WriteFile(path, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || content(t, path) != "two" {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("three"), 0o600); err != nil || content(t, path) != "three" {
		t.Errorf("%v, the file has %q", err, content(t, path))
	}
	if target, err := os.Readlink(link); err != nil || target != "a" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	if err := WriteFile(filepath.Join(dir, "missing", "a"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := WriteFile(dir, nil, 0o600); err == nil {
		t.Error("a directory was written")
	}
	if err := WriteFile(os.DevNull, []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
	if left := names(t, dir); !slices.Equal(left, []string{"a", "link"}) {
		t.Errorf("left behind: %v", left)
	}
}
