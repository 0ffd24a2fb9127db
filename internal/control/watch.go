package control

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settleTime lets an editor or a volume mount finish its sequence of writes.
	settleTime = 100 * time.Millisecond
	// pollTime is the safety net for file systems that report nothing.
	pollTime = 30 * time.Second
)

// Fingerprint identifies the content of a file.
type Fingerprint [sha256.Size]byte

// Watch calls changed whenever the content of a file is no longer what it was
// last, at first the one that was seen, and returns when the context ends. It
// watches the directory, because editors and mounted volumes replace files
// instead of writing to them.
func Watch(ctx context.Context, path string, seen Fingerprint, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Close() }()
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return err
	}
	last := seen
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	settle := time.NewTimer(0) // what changed before the watch began is not missed
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			settle.Reset(settleTime)
		case <-watcher.Errors:
			settle.Reset(settleTime)
		case <-poll.C:
			settle.Reset(0)
		case <-settle.C:
			if now := Look(path); now != last {
				last = now
				changed()
			}
		}
	}
}

// Look returns the fingerprint of a file; one that cannot be read right now has
// the same as an empty one, and is read again later.
func Look(path string) Fingerprint {
	data, err := os.ReadFile(path)
	if err != nil {
		data = nil
	}
	return sha256.Sum256(data)
}
