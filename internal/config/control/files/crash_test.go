package files

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// opened is a control and the store that it works on.
type opened struct {
	*control.Control
	store *Store
}

func open(t *testing.T, dir string, doc *config.Document) *opened {
	t.Helper()
	store, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := control.Opening{Store: store, Document: doc, Current: new(routing.Current), Log: slog.New(slog.DiscardHandler)}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &opened{c, store}
}

// describe returns all that must survive a restart.
func (b *opened) describe(t *testing.T) string {
	t.Helper()
	numbers, err := b.Versions()
	if err != nil {
		t.Fatal(err)
	}
	doc, version := b.Document()
	v, err := b.Load(version)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(version, numbers, doc.Services, v.Added)
}

func add(name string) func(*config.Document) error {
	return func(doc *config.Document) error {
		instance := backend.DefaultSettings()
		instance.Name, instance.BaseURL = name, "http://127.0.0.1:1"
		service := doc.Services[schema.Chat]
		service.Instances = append(service.Instances, instance)
		doc.Services[schema.Chat] = service
		return nil
	}
}

func mustChange(t *testing.T, b *opened, edit func(*config.Document) error) control.Result {
	t.Helper()
	result, err := b.Apply(t.Context(), control.Change{Origin: control.FromAPI}, edit)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// At every moment of a write the disk holds the old state or the new one, and a
// step that fails changes nothing.
func TestCrashPointsAndFaultsOfTheStore(t *testing.T) {
	for name, do := range map[string]func(*opened) error{
		"change": func(b *opened) error {
			_, err := b.Apply(t.Context(), control.Change{Origin: control.FromAPI}, add("new"))
			return err
		},
		"use":    func(b *opened) error { _, err := b.Use(t.Context(), control.Change{}, 1); return err },
		"reset":  func(b *opened) error { _, err := b.Reset(t.Context(), control.Change{}); return err },
		"delete": func(b *opened) error { _, err := b.Delete(t.Context(), control.Change{}, 1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			crashAnywhere(t, do)
			faultAnywhere(t, do)
		})
	}
	t.Run("reload", func(t *testing.T) {
		faultAnywhere(t, func(b *opened) error {
			doc := config.Default()
			_ = add("in the file")(doc)
			_, err := b.Reload(t.Context(), doc)
			return err
		})
	})
}

// A change that cannot be saved says why, also when the versions cannot even be listed.
func TestDirectoryThatIsGoneIsTheReason(t *testing.T) {
	dir := t.TempDir()
	b := prepared(t, dir)
	before := current(b)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err := b.Apply(t.Context(), control.Change{Origin: control.FromAPI}, add("new"))
	if !errors.Is(err, control.ErrSave) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	if now := current(b); now != before {
		t.Errorf("%s became %s", before, now)
	}
	_ = b.store.Close()
}

func prepared(t *testing.T, dir string) *opened {
	b := open(t, dir, config.Default())
	mustChange(t, b, add("one"))
	mustChange(t, b, add("two"))
	return b
}

// crashAnywhere copies the disk before each step, and boots from every copy.
func crashAnywhere(t *testing.T, do func(*opened) error) {
	dir := t.TempDir()
	b := prepared(t, dir)
	before := current(b)
	var copies []string
	b.store.dir.Before = func(durable.Step) error {
		to := t.TempDir()
		if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
			t.Error(err)
		}
		copies = append(copies, to)
		return nil
	}
	if err := do(b); err != nil {
		t.Fatal(err)
	}
	after := current(b)
	_ = b.store.Close()
	for n, dir := range append(copies, dir) {
		b := open(t, dir, config.Default())
		if now := current(b); now != before && now != after {
			t.Errorf("a crash before step %d leaves %s, neither %s nor %s", n, now, before, after)
		}
		if result := mustChange(t, b, add("later")); result.Version <= 3 {
			t.Errorf("a crash before step %d: version %d was used before", n, result.Version)
		}
		_ = b.store.Close()
	}
}

// current describes what is in force.
func current(b *opened) string {
	doc, version := b.Document()
	return fmt.Sprint(version, doc.Services)
}

// faultAnywhere lets each step fail in turn.
func faultAnywhere(t *testing.T, do func(*opened) error) {
	for n := 0; ; n++ {
		dir := t.TempDir()
		b := prepared(t, dir)
		before := b.describe(t)
		steps, failed := 0, false
		b.store.dir.Before = func(durable.Step) error {
			steps++
			if steps == n+1 {
				failed = true
				return fs.ErrPermission
			}
			return nil
		}
		err := do(b)
		b.store.dir.Before = nil
		if !failed {
			_ = b.store.Close()
			return // there are not that many steps
		}
		if !errors.Is(err, control.ErrSave) {
			t.Errorf("step %d fails and the error is %v", n, err)
		}
		now := b.describe(t)
		isDeleted := strings.HasPrefix(now, "3 [2 3]") // removed, but perhaps not for good
		if now != before && !isDeleted {
			t.Errorf("step %d fails and leaves %s, not %s", n, now, before)
		}
		mustChange(t, b, add("later"))
		after := b.describe(t)
		_ = b.store.Close()
		again := open(t, dir, config.Default())
		if restarted := again.describe(t); restarted != after {
			t.Errorf("step %d fails; later %s becomes %s", n, after, restarted)
		}
		_ = again.store.Close()
	}
}
