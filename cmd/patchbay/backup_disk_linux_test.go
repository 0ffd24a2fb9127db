// This file belongs to the wing backup.

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// On a full disk neither a backup nor a restore leaves a part of itself.
func TestABackupOnAFullDisk(t *testing.T) {
	t.Parallel()
	e := newEstate(t, "")
	e.start()
	e.fill()
	e.signal(os.Interrupt)
	e.exits(exitOK)
	good := filepath.Join(t.TempDir(), "good.zip")
	verb(t, exitOK, "backup", good, "--config", e.file, "--with", "ledger,batches")
	disk, fill, free := smallDisk(t, 1<<20)
	data := filepath.Join(disk, "data")
	verb(t, exitOK, "restore", good, "--config", e.file, "--data-dir", data)
	fill()
	before := treeOf(t, disk)
	for _, args := range [][]string{
		{"backup", filepath.Join(disk, "b.zip"), "--config", e.file, "--with", "ledger,batches"},
		{"restore", good, "--config", e.file, "--data-dir", data, "--force"},
	} {
		if said := verb(t, exitFailed, args...); !strings.Contains(said, "no space left") && !strings.Contains(said, "bytes free") {
			t.Errorf("%s says %s", args[0], said)
		}
		if now := treeOf(t, disk); now != before {
			t.Errorf("%s leaves\n%s\nbefore\n%s", args[0], now, before)
		}
	}
	free()
	verb(t, exitOK, "restore", good, "--config", e.file, "--data-dir", data, "--force")
}
