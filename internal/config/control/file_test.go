package control_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/config"
	. "github.com/patchbay-ai/patchbay/internal/config/control" //nolint:revive // the tests stood in the package, and left it for its two logs
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	calls "github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// openLogged is open with a log that can be read.
func openLogged(t *testing.T, dir string, doc *config.Document) (*bench, *bytes.Buffer) {
	t.Helper()
	store, err := files.Open(dir, masterOf(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	log, table := new(bytes.Buffer), new(routing.Current)
	c, err := Opening{Store: store, Document: doc, Current: table, Log: slog.New(slog.NewTextHandler(log, nil))}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &bench{c, store, table}, log
}

func breakerAt(threshold int) func(*config.Document) error {
	return func(doc *config.Document) error {
		service := doc.Services[schema.Chat]
		service.CircuitBreaker.FailureThreshold = threshold
		doc.Services[schema.Chat] = service
		return nil
	}
}

// An edit of the file is an edit, whether the gateway runs or not: what the API
// added stays, one version has the difference, and the log says what it is.
func TestAnEditOfTheFileKeepsWhatTheAPIAdded(t *testing.T) {
	const effect = "added 1 (chat new@127.0.0.1:1); changed 1 (chat circuitBreaker.failureThreshold 5→9); removed 1 (chat old@127.0.0.1:1)"
	before := func() *config.Document { return readFrom("before", add("old"), add("kept")) }
	after := func() *config.Document { return readFrom("after", add("kept"), add("new"), breakerAt(9)) }
	for name, edit := range map[string]func(t *testing.T, dir string, b *bench) (*bench, *bytes.Buffer){
		"while it runs": func(t *testing.T, dir string, b *bench) (*bench, *bytes.Buffer) {
			_ = b.store.Close()
			b, log := openLogged(t, dir, before())
			if changed, err := b.Reload(t.Context(), after()); !changed || err != nil {
				t.Fatal(changed, err)
			}
			return b, log
		},
		"while it is stopped": func(t *testing.T, dir string, b *bench) (*bench, *bytes.Buffer) {
			_ = b.store.Close()
			return openLogged(t, dir, after())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, before())
			mustChange(t, b, add("by hand"))
			b, log := edit(t, dir, b)
			defer b.store.Close()
			if got := names(b); !slices.Equal(got, []string{"kept", "new", "by hand"}) || b.Version() != 3 {
				t.Errorf("version %d has %v", b.Version(), got)
			}
			v, err := b.Load(3)
			if err != nil || !strings.HasPrefix(v.Summary, "the configuration file changed: 1 added, 1 changed, 1 removed; chat: ") {
				t.Errorf("%v, %v", v, err)
			}
			if !strings.Contains(log.String(), effect) {
				t.Errorf("the log says\n%s", log.String())
			}
			// The next edit is compared with this one.
			if _, err := b.Reload(t.Context(), readFrom("at last", add("kept"), breakerAt(9))); err != nil {
				t.Fatal(err)
			}
			if got := names(b); !slices.Equal(got, []string{"kept", "by hand"}) || b.Version() != 4 {
				t.Errorf("version %d has %v", b.Version(), got)
			}
			if doc, _ := b.Document(); doc.Services[schema.Chat].CircuitBreaker.FailureThreshold != 9 {
				t.Error("an unchanged setting was changed")
			}
		})
	}
}

// After a rollback an edit of the file applies to the version that is current.
func TestAnEditOfTheFileAfterARollback(t *testing.T) {
	b := open(t, t.TempDir(), readFrom("before", add("a")))
	defer b.store.Close()
	mustChange(t, b, add("x"))
	mustChange(t, b, add("y"))
	if _, err := b.Use(t.Context(), Change{}, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reload(t.Context(), readFrom("after", add("a"), add("b"))); err != nil {
		t.Fatal(err)
	}
	if got := names(b); !slices.Equal(got, []string{"a", "b", "x"}) || b.Version() != 4 {
		t.Errorf("version %d has %v", b.Version(), got)
	}
	mustReset := func() { _, _ = b.Reset(t.Context(), Change{Origin: FromReset}) }
	if mustReset(); !slices.Equal(names(b), []string{"a", "b"}) {
		t.Errorf("the static configuration is %v", names(b))
	}
}

// A save that fails leaves the file to be taken again.
func TestAnEditOfTheFileThatIsNotSavedIsTakenLater(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, readFrom("before"))
	defer b.store.Close()
	mustChange(t, b, add("by hand"))
	after := readFrom("after", add("in the file"))
	versions := filepath.Join(dir, "versions")
	if err := os.Rename(versions, versions+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reload(t.Context(), after); !errors.Is(err, ErrSave) {
		t.Errorf("%v", err)
	}
	if err := os.Rename(versions+".away", versions); err != nil {
		t.Fatal(err)
	}
	if changed, err := b.Reload(t.Context(), after); !changed || err != nil || !slices.Equal(names(b), []string{"in the file", "by hand"}) {
		t.Errorf("%t, %v: %v", changed, err, names(b))
	}
}

// Several gateways that read the same file make one version of its edit.
func TestGatewaysApplyAnEditOfTheirFileOnce(t *testing.T) {
	db := storetest.Postgres(t)
	before := func() *config.Document { return readFrom("before", add("old")) }
	after := func() *config.Document { return readFrom("after", add("new")) }
	one, _ := join(t, db.URL, t.TempDir(), before())
	two, _ := join(t, db.URL, t.TempDir(), before())
	mustChange(t, one, add("by hand"))
	for _, gateway := range []*bench{one, two, one} {
		if _, err := gateway.Reload(t.Context(), after()); err != nil {
			t.Fatal(err)
		}
		if got := names(gateway); !slices.Equal(got, []string{"new", "by hand"}) || gateway.Version() != 3 {
			t.Errorf("version %d has %v", gateway.Version(), got)
		}
	}
}

// referring returns a document with one instance whose secrets are references,
// and the text that they stand for.
func referring(words, key string) *config.Document {
	doc := readFrom(words, func(doc *config.Document) error {
		service := doc.Services[schema.Chat]
		s := instanceOf("m", 1)
		s.APIKey = backend.Reference("${KEY}")
		s.Headers = map[string]backend.Secret{"X-Team": backend.Reference("team ${KEY}")}
		service.Instances = append(service.Instances, s)
		doc.Services[schema.Chat] = service
		return nil
	})
	doc.Resolve = func(reference string) (string, error) {
		if key == "" {
			return "", errors.New("variable KEY is not set and has no default")
		}
		return strings.ReplaceAll(reference, "${KEY}", key), nil
	}
	return doc
}

func sent(b *bench, name string) string {
	target := serving(b, name).Target
	call := calls.Call{Header: slices.Clone(target.Header)}
	if err := target.Authorize(context.Background(), &call); err != nil {
		return err.Error()
	}
	return call.Header[0].Value + ", " + call.Header[len(call.Header)-1].Value
}

func serving(b *bench, name string) *backend.Instance {
	return b.table.Load().Service(schema.Chat).Instance(name + "@http://127.0.0.1:1")
}

// A key that is rotated is in force after a reload or a restart, makes no
// version, and is what a rollback uses. No file has it.
func TestSecretsOfTheFileAreResolvedWhenTheyAreUsed(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, referring("words", "first-key"))
	if got := sent(b, "m"); got != "team first-key, Bearer first-key" {
		t.Errorf("sent: %s", got)
	}
	mustChange(t, b, add("by hand"))
	if changed, err := b.Reload(t.Context(), referring("words", "second-key")); !changed || err != nil || b.Version() != 2 {
		t.Errorf("%t, %v, version %d", changed, err, b.Version())
	}
	if changed, err := b.Reload(t.Context(), referring("words", "second-key")); changed || err != nil {
		t.Errorf("the same key again: %t, %v", changed, err)
	}
	if got := sent(b, "m"); got != "team second-key, Bearer second-key" {
		t.Errorf("sent after a reload: %s", got)
	}
	if _, err := b.Use(t.Context(), Change{}, 1); err != nil {
		t.Fatal(err)
	}
	if got := sent(b, "m"); got != "team second-key, Bearer second-key" {
		t.Errorf("sent after a rollback: %s", got)
	}
	if _, _, err := b.Backup(Change{}); err != nil {
		t.Fatal(err)
	}
	_ = b.store.Close()
	b = open(t, dir, referring("words", "third-key"))
	defer b.store.Close()
	if got := sent(b, "m"); got != "team third-key, Bearer third-key" || b.Version() != 1 {
		t.Errorf("sent after a restart: %s, version %d", got, b.Version())
	}
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, _ error) error {
		if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte("-key")) {
			t.Errorf("%s has a key:\n%s", entry.Name(), content)
		}
		return nil
	})
}

// The database of a shared configuration gets references, too, and every gateway
// resolves them for itself.
func TestSharedConfigurationsHoldReferences(t *testing.T) {
	db := storetest.Postgres(t)
	one, _ := join(t, db.URL, t.TempDir(), referring("words", "first-key"))
	two, _ := join(t, db.URL, t.TempDir(), referring("words", "second-key"))
	if sent(one, "m") != "team first-key, Bearer first-key" || sent(two, "m") != "team second-key, Bearer second-key" {
		t.Errorf("sent: %s and %s", sent(one, "m"), sent(two, "m"))
	}
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var record string
	if err := conn.QueryRow(t.Context(), "SELECT string_agg(record, '') FROM patchbay_config_versions").Scan(&record); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(record, "-key") || !strings.Contains(record, `{"reference":"${KEY}"}`) {
		t.Errorf("stored: %s", record)
	}
}

// A secret that one gateway does not have takes one instance out there, and says
// why; the others serve, and changes are taken.
func TestASecretThatIsMissingTakesOneInstanceOut(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, referring("words", "key"))
	mustChange(t, b, add("other"))
	_ = b.store.Close()
	b, log := openLogged(t, dir, referring("words", ""))
	defer b.store.Close()
	const reason = "api-key: variable KEY is not set and has no default"
	if serving(b, "m").Fault.String() != reason || serving(b, "other").Fault.String() != "" {
		t.Errorf("faults: %q and %q", serving(b, "m").Fault, serving(b, "other").Fault)
	}
	if strings.Count(log.String(), reason) != 1 {
		t.Errorf("the log says\n%s", log.String())
	}
	mustChange(t, b, add("more"))
	if strings.Count(log.String(), reason) != 1 {
		t.Errorf("the log repeats itself:\n%s", log.String())
	}
	if changed, err := b.Reload(t.Context(), referring("words", "back")); !changed || err != nil || serving(b, "m").Fault.String() != "" {
		t.Errorf("%t, %v, fault %q", changed, err, serving(b, "m").Fault)
	}
}

// Versions of older releases hold secrets as plain text, and what is not saved
// any more. They stay what they are.
func TestVersionsOfOlderReleasesAreReadAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, readFrom("words", add("m")))
	path := filepath.Join(dir, "versions", "00000001.json")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.Replace(content, []byte(`"name": "m"`), []byte(`"name": "m", "headers": {"Accept-Encoding": "${file:/etc/passwd}"}`), 1)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = b.store.Close()
	b = open(t, dir, readFrom("other words", add("m"), add("n")))
	defer b.store.Close()
	doc, version := b.Document()
	old := doc.Services[schema.Chat].Instances[0]
	if version != 2 || old.APIKey != backend.Literal("secret-of-m") || old.Headers["Accept-Encoding"] != backend.Literal("${file:/etc/passwd}") {
		t.Errorf("version %d has %#v", version, old)
	}
	if _, err := b.Use(t.Context(), Change{}, 1); err != nil {
		t.Error(err)
	}
	var problems config.Problems
	if _, err := b.Apply(t.Context(), Change{Origin: FromAPI}, add("o")); !errors.As(err, &problems) {
		t.Errorf("a change that keeps the wrong header: %v", err)
	}
}
