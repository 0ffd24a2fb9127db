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
	// settleTime lets an editor or a volume mount finish its sequence of writes: a
	// new content counts when it is still the same after it.
	settleTime = 100 * time.Millisecond
	// pollTime is the safety net for file systems that report nothing.
	pollTime = 30 * time.Second
)

// Fingerprint identifies the content of a file.
type Fingerprint [sha256.Size]byte

// Watch calls changed whenever the content of a file is no longer what it was
// last, at first the one that was seen, and returns when the context ends. It
// watches the directory, because editors and mounted volumes replace files
// instead of writing to them. Others may write there as often as they like.
func Watch(ctx context.Context, path string, seen Fingerprint, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Close() }()
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return err
	}
	watchFile(ctx, path, seen, watcher, changed)
	return nil
}

// watchFile is Watch after the directory is watched.
func watchFile(ctx context.Context, path string, last Fingerprint, watcher *fsnotify.Watcher, changed func()) {
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	settle := time.NewTimer(0) // what changed before the watch began is not missed
	defer settle.Stop()
	armed, now := true, last
	// One that is armed is not put off: what never rests would never be looked at.
	arm := func(wait time.Duration) {
		if !armed {
			settle.Reset(wait)
		}
		armed = true
	}
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-watcher.Events:
			if mayAffect(event.Name, path) {
				arm(settleTime)
			}
		case <-watcher.Errors:
			arm(settleTime)
		case <-poll.C:
			arm(0)
		case <-settle.C:
			armed = false
			before := now
			now = FingerprintOf(path)
			switch {
			case now == last:
			case now != before:
				arm(settleTime)
			default:
				last = now
				changed()
			}
		}
	}
}

// mayAffect reports whether something that happened to a file of the same
// directory can change what the path leads to. A link leads to what only others
// are named after: mounted volumes turn a link of their own.
func mayAffect(happened, path string) bool {
	if filepath.Base(happened) == filepath.Base(path) {
		return true
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// FingerprintOf returns the fingerprint of a file; one that cannot be read right now has
// the same as an empty one, and is read again later.
func FingerprintOf(path string) Fingerprint {
	data, err := os.ReadFile(path)
	if err != nil {
		data = nil
	}
	return sha256.Sum256(data)
}
