package control_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	. "github.com/patchbay-ai/patchbay/internal/config/control" //nolint:revive // the tests stood in the package, and left it for its two logs
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

func keeping(versions int) *config.Document {
	doc := config.Default()
	doc.Store.KeepVersions = versions
	return doc
}

func versionsOf(t *testing.T, b *bench) []int {
	t.Helper()
	numbers, err := b.Versions()
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

// Old versions go with the next change; the current one stays however old it is,
// numbers are not used again, and backups are left alone.
func TestOldVersionsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, keeping(3))
	for n := range 4 {
		mustChange(t, b, add(fmt.Sprint("first-", n)))
	}
	if got := versionsOf(t, b); !slices.Equal(got, []int{3, 4, 5}) {
		t.Errorf("kept: %v", got)
	}
	if _, files, err := b.Backup(Change{}); err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	if _, err := b.Use(t.Context(), Change{}, 3); err != nil {
		t.Fatal(err)
	}
	if got := versionsOf(t, b); !slices.Equal(got, []int{3, 4, 5}) {
		t.Errorf("kept after a rollback: %v", got)
	}
	if _, err := b.Apply(t.Context(), Change{DryRun: true}, add("dry")); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		mustChange(t, b, add(fmt.Sprint("second-", n)))
	}
	if got := versionsOf(t, b); !slices.Equal(got, []int{6, 7, 8}) || b.Version() != 8 {
		t.Errorf("kept: %v, current %d", got, b.Version())
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "backup-*", "*.json")); len(kept) != 3 {
		t.Errorf("the backup has %v", kept)
	}
	_ = b.store.Close()
	b = open(t, dir, keeping(0))
	defer b.store.Close()
	mustChange(t, b, add("third"))
	if got := versionsOf(t, b); !slices.Equal(got, []int{6, 7, 8, 9}) {
		t.Errorf("with all kept: %v", got)
	}
}

// addedBy returns the instance that a version has added by its codes and values, empty
// where only its words are known.
func addedBy(t *testing.T, b *bench, version int) string {
	t.Helper()
	about, err := b.About(version)
	if err != nil || !strings.HasPrefix(about.Summary, "chat: +1 instance ") {
		t.Fatalf("%+v, %v", about, err)
	}
	if len(about.Said) == 0 {
		return ""
	}
	return about.Said[0].Values["instance"]
}

// The oldest version says what it changed, although the one before it is gone, without a part
// of a secret.
func TestTheOldestVersionSaysWhatItChanged(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, keeping(2))
	defer b.store.Close()
	for n := range 4 {
		mustChange(t, b, add(fmt.Sprint("m-", n)))
	}
	if got := addedBy(t, b, 4); got != "m-2@http://127.0.0.1:1" {
		t.Errorf("version 4 added %q", got)
	}
	mustChange(t, b, func(doc *config.Document) error {
		doc.Services[schema.Chat].Instances[0].APIKey = backend.Literal("sk-0123456789-abcdefghij")
		return nil
	})
	about, err := b.About(6)
	if want := []say.Sentence{say.New("change.instance_secret", "service", "chat", "instance", "m-0@http://127.0.0.1:1", "field", "apiKey")}; err != nil || !reflect.DeepEqual(about.Said, want) {
		t.Errorf("%+v, %v", about.Said, err)
	}
}

// A shared configuration loses its old versions in the database and on every
// gateway.
func TestOldVersionsOfASharedConfigurationAreRemoved(t *testing.T) {
	db := storetest.Postgres(t)
	one, _ := join(t, db.URL, t.TempDir(), keeping(2))
	two, _ := join(t, db.URL, t.TempDir(), keeping(2))
	for n := range 3 {
		mustChange(t, one, add(fmt.Sprint("one-", n)))
	}
	mustChange(t, two, add("two"))
	if got := versionsOf(t, two); !slices.Equal(got, []int{4, 5}) {
		t.Errorf("kept by the second: %v", got)
	}
	soon(t, "the first has the same", func() bool { return slices.Equal(versionsOf(t, one), []int{4, 5}) })
	three, _ := join(t, db.URL, t.TempDir(), keeping(2))
	if got := versionsOf(t, three); !slices.Equal(got, []int{4, 5}) {
		t.Errorf("kept in the database: %v", got)
	}
	for _, b := range []*bench{one, two, three} {
		if got := addedBy(t, b, 4); got != "one-2@http://127.0.0.1:1" {
			t.Errorf("version 4, without the one before it, added %q", got)
		}
	}
}
