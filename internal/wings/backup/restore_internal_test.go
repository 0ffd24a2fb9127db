package backup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config/control/files"
)

// An exchange that fails in the middle is undone, and one that is killed in the middle keeps the
// gateway from starting with half of it.
func TestAnExchangeIsWholeOrUndone(t *testing.T) {
	dir := t.TempDir()
	write := func(text string, path ...string) {
		t.Helper()
		name := filepath.Join(append([]string{dir}, path...)...)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"format":1}`, "data", "format.json")
	write("old", "data", "versions", "1")
	write("old keys", "data", "keys.json")
	write("new", "stage", "versions", "1")
	write("no place", "stage", "nowhere", "x")
	data, stage := filepath.Join(dir, "data"), filepath.Join(dir, "stage")
	store, err := files.OpenToRestore(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &restoring{aside: "replaced"}
	err = store.Exchange(func() error {
		err := r.exchange(data, stage, []string{"versions", "keys.json", "nowhere/x"})
		if now, _ := os.ReadFile(filepath.Join(data, "versions", "1")); string(now) != "new" {
			t.Errorf("the exchange did not begin: %q", now)
		}
		return errors.Join(err, r.undo())
	})
	if err == nil {
		t.Error("an exchange without a place succeeds")
	}
	for name, want := range map[string]string{"versions/1": "old", "keys.json": "old keys"} {
		if got, err := os.ReadFile(filepath.Join(data, name)); string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	entries, err := os.ReadDir(data)
	if len(entries) != 4 || err != nil { // with the lock and the mark
		t.Errorf("it left %v, %v", entries, err)
	}
	if err := store.Exchange(func() error {
		if err := store.Close(); err != nil { // as the end of the process does
			return err
		}
		if _, err := files.Open(data, nil); !errors.Is(err, files.ErrRestoring) {
			t.Errorf("a directory in the middle of an exchange: %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	again, err := files.Open(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
