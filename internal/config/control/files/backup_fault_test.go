package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// A backup that cannot be made whole is told, and nothing of it is left.
func TestBackupThatFailsLeavesNothing(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for name, spoil := range map[string]func(dir string) error{
		"a name that is taken": func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, backupPrefix+now.Format("20060102T150405.000000000Z"), "something"), 0o700)
		},
		"no data directory": func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			b := open(t, dir, config.Default())
			mustChange(t, b, add("one"))
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			if path, files, err := b.store.Backup(now, false); err == nil || path != "" || len(files) > 0 {
				t.Errorf("%s, %v, %v", path, files, err)
			}
			entries, _ := os.ReadDir(dir) // it may be gone
			for _, entry := range entries {
				if strings.HasPrefix(entry.Name(), ".new-") {
					t.Errorf("left behind: %s", entry.Name())
				}
			}
			_ = b.store.Close()
		})
	}
}
