package control_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/config"
	. "github.com/patchbay-ai/patchbay/internal/config/control" //nolint:revive // the tests stood in the package, and left it for its two logs
	"github.com/patchbay-ai/patchbay/internal/config/control/differences"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// bench is a control with its store and the table that it fills.
type bench struct {
	*Control
	store *files.Store
	table *routing.Current
}

// fataler is a test or a run of a property.
type fataler interface {
	Context() context.Context
	Fatal(args ...any)
	Helper()
}

func open(t fataler, dir string, doc *config.Document) *bench {
	t.Helper()
	store, err := files.Open(dir, masterOf(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	table := new(routing.Current)
	c, err := Opening{Store: store, Document: doc, Current: table, Log: slog.New(slog.DiscardHandler)}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &bench{c, store, table}
}

// masterOf returns the master key of a configuration.
func masterOf(t fataler, doc *config.Document) *seal.Keys {
	t.Helper()
	keys, err := doc.Security.MasterKeys()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// state describes all that must survive a restart.
func (b *bench) describe(t fataler) string {
	t.Helper()
	numbers, err := b.Versions()
	if err != nil {
		t.Fatal(err)
	}
	doc, version := b.Document()
	var created []string
	for _, m := range b.table.Load().Entries() {
		created = append(created, m.Service.String()+"/"+m.ID+"="+m.Created.UTC().Format(time.RFC3339Nano))
	}
	return fmt.Sprint(version, numbers, SourceOf(doc), created)
}

func instanceOf(name string, weight float64) backend.Settings {
	s := backend.DefaultSettings()
	s.Name, s.BaseURL, s.Weight, s.APIKey = name, "http://127.0.0.1:1", weight, backend.Literal("secret-of-"+name)
	return s
}

func add(name string) func(*config.Document) error {
	return func(doc *config.Document) error {
		service := doc.Services[schema.Chat]
		service.Instances = append(service.Instances, instanceOf(name, 1))
		doc.Services[schema.Chat] = service
		return nil
	}
}

func mustChange(t fataler, b *bench, edit func(*config.Document) error) Result {
	t.Helper()
	result, err := again(t, func() (Result, error) {
		return b.Apply(t.Context(), Change{Origin: FromAPI, Author: "test"}, edit)
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// again makes a change of a shared configuration again for as long as the machine is so
// busy that the database does not answer in time.
func again(t fataler, change func() (Result, error)) (Result, error) {
	result, err := change()
	for errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnconfirmed) && t.Context().Err() == nil {
		result, err = change()
	}
	return result, err
}

func TestVersionNumbersAreNeverUsedTwice(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, config.Default())
	for _, name := range []string{"a", "b", "c"} {
		mustChange(t, b, add(name))
	}
	if _, err := b.Use(t.Context(), Change{}, 2); err != nil {
		t.Fatal(err)
	}
	for _, number := range []int{4, 3} {
		if _, err := b.Delete(t.Context(), Change{}, number); err != nil {
			t.Fatal(err)
		}
	}
	_ = b.store.Close()
	b = open(t, dir, config.Default())
	defer b.store.Close()
	if b.Version() != 2 {
		t.Errorf("version %d after the restart", b.Version())
	}
	next := b.Next(t.Context())
	if result := mustChange(t, b, add("d")); result.Version != 5 || result.Before != 2 || next != 5 {
		t.Errorf("the next version is %d, after %d, announced as %d", result.Version, result.Before, next)
	}
	// The gateway ended before it wrote that a version which it had written is current.
	unfinished, err := b.Load(5)
	if err != nil {
		t.Fatal(err)
	}
	unfinished.Number = 6
	if err := b.store.Save(unfinished); err != nil {
		t.Fatal(err)
	}
	_ = b.store.Close()
	restarted := open(t, dir, config.Default())
	defer restarted.store.Close()
	next = restarted.Next(t.Context())
	if result := mustChange(t, restarted, add("e")); result.Version != 7 || result.Before != 5 || next != 7 {
		t.Errorf("the next version is %d, after %d, announced as %d", result.Version, result.Before, next)
	}
}

func TestRefusedChangesChangeNothing(t *testing.T) {
	b := open(t, t.TempDir(), config.Default())
	defer b.store.Close()
	mustChange(t, b, add("a"))
	before := b.describe(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, test := range map[string]struct {
		do   func() error
		want error
	}{
		"another version": {func() error { _, err := b.Apply(t.Context(), Change{IfVersions: []int{1}}, add("b")); return err }, ErrMoved},
		"the edit": {func() error {
			_, err := b.Apply(t.Context(), Change{}, func(*config.Document) error { return io.EOF })
			return err
		}, io.EOF},
		"a caller who left": {func() error { _, err := b.Apply(gone, Change{}, add("b")); return err }, context.Canceled},
		"no such version":   {func() error { _, err := b.Use(t.Context(), Change{}, 9); return err }, versions.ErrNoVersion},
		"version 0":         {func() error { _, err := b.Use(t.Context(), Change{}, 0); return err }, versions.ErrNoVersion},
		"apply, moved":      {func() error { _, err := b.Use(t.Context(), Change{IfVersions: []int{7}}, 1); return err }, ErrMoved},
		"delete current":    {func() error { _, err := b.Delete(t.Context(), Change{}, 2); return err }, ErrCurrent},
		"delete unknown":    {func() error { _, err := b.Delete(t.Context(), Change{}, 99); return err }, versions.ErrNoVersion},
		"delete, moved":     {func() error { _, err := b.Delete(t.Context(), Change{IfVersions: []int{1}}, 1); return err }, ErrMoved},
		"dry run":           {func() error { _, err := b.Apply(t.Context(), Change{DryRun: true}, add("b")); return err }, nil},
		"dry run of use":    {func() error { _, err := b.Use(t.Context(), Change{DryRun: true}, 1); return err }, nil},
		"dry run of delete": {func() error { _, err := b.Delete(t.Context(), Change{DryRun: true}, 1); return err }, nil},
		"dry run of reset":  {func() error { _, err := b.Reset(t.Context(), Change{DryRun: true}); return err }, nil},
		"dry run of backup": {func() error { _, _, err := b.Backup(Change{DryRun: true}); return err }, nil},
	} {
		if err := test.do(); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if after := b.describe(t); after != before {
			t.Errorf("%s changed %s into %s", name, before, after)
		}
	}
}

func TestResetTakesTheStaticConfiguration(t *testing.T) {
	doc := config.Default()
	_ = add("static")(doc)
	dir := t.TempDir()
	b := open(t, dir, doc)
	mustChange(t, b, add("more"))
	_ = b.store.Close()
	b = open(t, dir, doc) // the file is remembered over a restart, too
	defer b.store.Close()
	result, err := b.Reset(t.Context(), Change{Origin: FromReset, Author: "test"})
	if err != nil || result.Version != 3 || !strings.Contains(result.Summary, "-1 instance more@127.0.0.1:1") {
		t.Fatalf("%+v, %v", result, err)
	}
	if again, err := b.Reset(t.Context(), Change{Origin: FromReset}); err != nil || again.Changed || again.Version != 3 {
		t.Errorf("a second reset: %+v, %v", again, err)
	}
	v, err := b.Load(3)
	if err != nil || v.Origin != FromReset || v.Author != "test" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestSummariesAndDifferencesSayWhatChangedWithoutSecrets(t *testing.T) {
	before := Services{schema.Chat: config.DefaultService(), schema.TTS: config.DefaultService()}
	chat := settings.Clone(before[schema.Chat])
	chat.Instances = []backend.Settings{instanceOf("llama3", 1), instanceOf("old@name", 1)}
	before[schema.Chat] = chat
	after := Services{schema.Chat: settings.Clone(chat), schema.STT: config.DefaultService()}
	next := after[schema.Chat]
	next.RateLimit.Capacity = 7
	next.Instances[0].Weight, next.Instances[0].APIKey = 3, backend.Literal("another-secret")
	next.Instances[0].Headers = map[string]backend.Secret{"X-Team": backend.Literal("secret-header")}
	next.Instances[1] = instanceOf("new", 1)
	after[schema.Chat] = next
	found := differences.Compare(before, after)
	const want = "chat: rateLimit.capacity 100→7, weight 1→3 on llama3@127.0.0.1:1, apiKey changed on llama3@127.0.0.1:1, " +
		`headers["X-Team"] changed on llama3@127.0.0.1:1, +1 instance new@127.0.0.1:1, -1 instance old@name@127.0.0.1:1; tts: removed; stt: added`
	if got := Summarize(found); !strings.HasPrefix(want, strings.TrimSuffix(got, "…")) || len(got) < 200 {
		t.Errorf("the summary is %q, want %q", got, want)
	}
	var text strings.Builder
	for _, d := range found {
		text.WriteString(d.Text() + "\n")
	}
	if strings.Contains(text.String(), "secret-") || strings.Contains(text.String(), "another-secret") || !strings.Contains(text.String(), "apiKey ****ama3 → ****cret") {
		t.Errorf("the text is\n%s", text.String())
	}
	if found := differences.Compare(after, after); len(found) != 0 {
		t.Errorf("no difference is %v", found)
	}
	turned := settings.Clone(next)
	slices.Reverse(turned.Instances)
	if got := Summarize(differences.Compare(after, Services{schema.Chat: turned, schema.STT: after[schema.STT]})); got != "chat: order of the instances" {
		t.Errorf("another order is %q", got)
	}
}

// memoryDir returns a directory that is in memory where the system has one, for
// tests that write so often that syncing files is most of what they do.
func memoryDir() string {
	const shared = "/dev/shm"
	if info, err := os.Stat(shared); err == nil && info.IsDir() {
		return shared
	}
	return os.TempDir()
}

// Any sequence of changes and a restart give the same state as the changes alone.
func TestPropertyRestartKeepsEverything(t *testing.T) {
	if histories := flag.Lookup("rapid.checks"); histories.Value.String() == histories.DefValue {
		_ = histories.Value.Set("30") // make test-long asks for more
		t.Cleanup(func() { _ = histories.Value.Set(histories.DefValue) })
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(memoryDir(), "control-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		b := open(t, dir, config.Default())
		used := map[int]bool{1: true}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			step(t, b, used)
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				before := b.describe(t)
				_ = b.store.Close()
				b = open(t, dir, config.Default())
				if after := b.describe(t); after != before {
					t.Fatal("before", before, "after", after)
				}
			}
		}
		before := b.describe(t)
		_ = b.store.Close()
		b = open(t, dir, config.Default())
		defer b.store.Close()
		if after := b.describe(t); after != before {
			t.Fatal("before", before, "after", after)
		}
	})
}

// step makes one random change and checks what holds for all of them.
func step(t *rapid.T, b *bench, used map[int]bool) {
	change := Change{Origin: FromAPI, Author: "property"}
	serviceType := schema.ServiceType(rapid.IntRange(0, 2).Draw(t, "service"))
	name := rapid.SampledFrom([]string{"a", "b", "c@d", `"e/f"`}).Draw(t, "name")
	number := rapid.IntRange(1, 8).Draw(t, "version")
	isNew := false
	var result Result
	var err error
	switch rapid.SampledFrom([]string{"add", "weight", "remove", "delete type", "use", "delete version", "reset", "invalid"}).Draw(t, "kind") {
	case "add":
		isNew = true
		result, err = b.Apply(t.Context(), change, func(doc *config.Document) error {
			service, ok := doc.Services[serviceType]
			if !ok {
				service = config.DefaultService()
			}
			service.Instances = append(service.Instances, instanceOf(name, 1)) // perhaps one that exists: refused
			doc.Services[serviceType] = service
			return nil
		})
	case "weight":
		isNew = true
		result, err = b.Apply(t.Context(), change, func(doc *config.Document) error {
			for i := range doc.Services[serviceType].Instances {
				doc.Services[serviceType].Instances[i].Weight = rapid.Float64Range(0, 10).Draw(t, "weight")
			}
			return nil
		})
	case "remove":
		isNew = true
		result, err = b.Apply(t.Context(), change, func(doc *config.Document) error {
			service := doc.Services[serviceType]
			service.Instances = slices.DeleteFunc(service.Instances, func(s backend.Settings) bool { return s.Name == name })
			if _, ok := doc.Services[serviceType]; ok {
				doc.Services[serviceType] = service
			}
			return nil
		})
	case "delete type":
		isNew = true
		result, err = b.Apply(t.Context(), change, func(doc *config.Document) error { delete(doc.Services, serviceType); return nil })
	case "use":
		_, err = b.Use(t.Context(), change, number)
	case "delete version":
		_, err = b.Delete(t.Context(), change, number)
	case "reset":
		isNew = true
		result, err = b.Reset(t.Context(), change)
	case "invalid":
		_, err = b.Apply(t.Context(), change, func(doc *config.Document) error {
			service := doc.Services[serviceType]
			service.RateLimit.Capacity = -1
			doc.Services[serviceType] = service
			return nil
		})
		if err == nil {
			t.Fatal("an invalid configuration was taken")
		}
	}
	if err == nil && isNew && result.Changed {
		if used[result.Version] {
			t.Fatal("version", result.Version, "was used twice")
		}
		used[result.Version] = true
	}
}

func prepared(t *testing.T, dir string) *bench {
	b := open(t, dir, config.Default())
	mustChange(t, b, add("one"))
	mustChange(t, b, add("two"))
	return b
}

func TestBackupsAreWholeAndPrivate(t *testing.T) {
	dir := t.TempDir()
	b := prepared(t, dir)
	defer b.store.Close()
	path, files, err := b.Backup(Change{})
	if err != nil || !slices.Equal(files, []string{"00000001.json", "00000002.json", "00000003.json"}) || filepath.Dir(path) != dir {
		t.Fatalf("%s %v %v", path, files, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, name := range files {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	second, _, err := b.Backup(Change{})
	if err != nil || second == path {
		t.Errorf("a second backup is %s, %v", second, err)
	}
}

func TestModelsKeepTheTimeAtWhichTheyWereAdded(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, config.Default())
	mustChange(t, b, add("a"))
	added := b.table.Load().Entries()[0].Created
	mustChange(t, b, add("b"))
	mustChange(t, b, func(doc *config.Document) error { doc.Services[schema.Chat].Instances[0].Weight = 5; return nil })
	_ = b.store.Close()
	b = open(t, dir, config.Default())
	defer b.store.Close()
	entries := b.table.Load().Entries()
	if !entries[0].Created.Equal(added) || !entries[1].Created.After(added) {
		t.Errorf("%v, and a was added at %v", entries, added)
	}
	mustChange(t, b, func(doc *config.Document) error {
		service := doc.Services[schema.Chat]
		service.Instances = service.Instances[1:]
		doc.Services[schema.Chat] = service
		return nil
	})
	mustChange(t, b, add("a"))
	if again := b.table.Load().Entries()[0]; again.ID != "a" || !again.Created.After(added) {
		t.Errorf("added again: %v", again)
	}
}
