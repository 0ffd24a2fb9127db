package filewatch

import (
	"context"
	"github.com/fsnotify/fsnotify"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// watching watches a file until the test ends and returns what is told of it:
// the content at the time of each change.
func watching(t *testing.T, path string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told, ended := make(chan string, 100), make(chan error, 1)
	seen := FingerprintOf(path)
	go func() {
		ended <- Watch(ctx, path, seen, func() {
			content, _ := os.ReadFile(path)
			told <- string(content)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return told
}

// busy writes to a file of the directory for as long as the test runs, far more
// often than a change takes to settle.
func busy(t *testing.T, dir string) {
	t.Helper()
	quit := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		often := time.NewTicker(2 * time.Millisecond)
		defer often.Stop()
		for n := 0; ; n++ {
			put(t, filepath.Join(dir, "access.log"), string(rune('a'+n%26)))
			select {
			case <-quit:
				return
			case <-often.C:
			}
		}
	})
	t.Cleanup(func() {
		close(quit)
		writer.Wait()
	})
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Error(err)
	}
}

// tells waits for a change to be told; the watch looks by itself only after a
// much longer time.
func tells(t *testing.T, told <-chan string, want string) {
	t.Helper()
	late := time.After(waittest.Limit)
	for {
		select {
		case got := <-told:
			if got == want {
				return
			}
		case <-late:
			t.Fatalf("%q was not told", want)
		}
	}
}

func TestChangeIsSeenInABusyDirectory(t *testing.T) {
	t.Run("of a file", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "patchbay.yaml")
		put(t, path, "old")
		told := watching(t, path)
		busy(t, dir)
		put(t, path, "new")
		tells(t, told, "new")
		put(t, path+".next", "newer")
		if err := os.Rename(path+".next", path); err != nil {
			t.Fatal(err)
		}
		tells(t, told, "newer")
	})
	t.Run("of a mounted volume", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "patchbay.yaml")
		link := func(name, to string) {
			if err := os.Symlink(to, name+".tmp"); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(name+".tmp", name); err != nil {
				t.Fatal(err)
			}
		}
		for _, state := range []string{"..old", "..new"} {
			if err := os.Mkdir(filepath.Join(dir, state), 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(dir, state, "patchbay.yaml"), state)
		}
		link(filepath.Join(dir, "..data"), "..old")
		link(path, filepath.Join("..data", "patchbay.yaml"))
		told := watching(t, path)
		busy(t, dir)
		for _, state := range []string{"..new", "..old"} { // the file's own name is not touched
			link(filepath.Join(dir, "..data"), state)
			tells(t, told, state)
		}
	})
}

// What never rests, here for hours, does not keep a change from being seen.
func TestChangeIsSeenWhileOthersNeverRest(t *testing.T) {
	for name, test := range map[string]struct {
		link  bool
		event string
	}{"another file is written": {false, "access.log"}, "the file is a link": {true, "..data"}, "the file itself is touched": {false, "patchbay.yaml"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, target := filepath.Join(dir, "patchbay.yaml"), filepath.Join(dir, "target")
			put(t, target, "old")
			appear := os.Rename
			if test.link {
				appear = os.Symlink
			}
			if err := appear(target, path); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				watcher := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
				told := make(chan time.Time, 1)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					watchFile(ctx, path, FingerprintOf(path), watcher, func() { told <- time.Now() })
				}()
				synctest.Wait()
				put(t, path, "new")
				begun := time.Now()
				if test.event != "patchbay.yaml" && !test.link {
					watcher.Events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
				}
				for len(told) == 0 && time.Since(begun) < pollTime/2 {
					watcher.Events <- fsnotify.Event{Name: filepath.Join(dir, test.event), Op: fsnotify.Write}
					<-time.After(settleTime / 10)
				}
				cancel()
				<-ended
				if len(told) == 0 {
					t.Fatal("the change was not told")
				}
				if took := (<-told).Sub(begun); took > 2*settleTime {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// A file that is written piece by piece is told of when it is whole.
func TestHalfAFileIsNoChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "patchbay.yaml")
	put(t, path, "old")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		watcher := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
		var told []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			watchFile(ctx, path, FingerprintOf(path), watcher, func() {
				content, _ := os.ReadFile(path)
				told = append(told, string(content))
			})
		}()
		synctest.Wait()
		for n := range 10 {
			put(t, path, "0123456789"[:n+1])
			watcher.Events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
			<-time.After(settleTime * 3 / 4)
		}
		<-time.After(2 * settleTime)
		cancel()
		<-ended
		if !slices.Equal(told, []string{"0123456789"}) {
			t.Errorf("told of %q", told)
		}
	})
}
