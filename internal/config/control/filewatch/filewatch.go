// Package filewatch decides when the content of a file has changed.
package filewatch

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settleTime lets an editor or a volume mount finish its sequence of writes: new
	// content counts only if it is still the same after this time.
	settleTime = 100 * time.Millisecond
	// pollTime is how often the file is read on file systems that report no events.
	pollTime = 30 * time.Second
)

// Fingerprint identifies the content of a file.
type Fingerprint [sha256.Size]byte

// Watch calls changed whenever the content of a file has changed, at first compared with
// seen, and returns when the context ends. It watches the directory, because editors and
// mounted volumes replace files instead of writing to them.
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
	settle := time.NewTimer(0) // fires at once, to find changes from before the watch began
	defer settle.Stop()
	armed, now := true, last
	// A running timer is not reset, or a file that changes all the time would never be
	// read.
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

// mayAffect reports whether an event for a file in the same directory can change the
// content at path. Where path is a symbolic link, any event can: mounted volumes replace
// another link in its directory.
func mayAffect(happened, path string) bool {
	if filepath.Base(happened) == filepath.Base(path) {
		return true
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// FingerprintOf returns the fingerprint of a file. An unreadable file has the fingerprint
// of an empty one, and so has a pipe: a pipe gives its content only once, so it is not
// read.
func FingerprintOf(path string) Fingerprint {
	var data []byte
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		if data, err = os.ReadFile(path); err != nil {
			data = nil
		}
	}
	return sha256.Sum256(data)
}
