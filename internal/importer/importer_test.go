package importer_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/importer"
)

// The files were written for these tests after the public formats.
var files = map[string]importer.Source{
	"jairouter.yaml": importer.JAiRouter,
	"litellm.yaml":   importer.LiteLLM,
	"one-api.json":   importer.OneAPI,
	"new-api.json":   importer.NewAPI,
	"bifrost.json":   importer.Bifrost,
}

// callerKeys are keys in the files that callers of the gateway have.
var callerKeys = map[string]string{"jairouter.yaml": "sk-jairouter-caller", "litellm.yaml": "sk-litellm-master", "bifrost.json": "sk-bf-team-a"}

func imported(t *testing.T, file string, change func(string) string) *importer.Result {
	t.Helper()
	open := func(name string) ([]byte, error) {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		return []byte(change(string(content))), err
	}
	content, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	result, err := importer.Import(files[file], file, content, open)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func same(text string) string { return text }

// rendered is a result as the golden files have it.
func rendered(r *importer.Result) string {
	var b strings.Builder
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "%s | %s:%d | %s | %s\n", row.Outcome, row.File, row.Line, row.Setting, row.Text)
	}
	b.WriteString("---\n" + r.YAML + "---\n")
	for _, v := range r.Variables {
		fmt.Fprintf(&b, "%s=%s (%s)\n", v.Name, v.Value, v.From)
	}
	return b.String()
}

// With UPDATE=1 in the environment the golden files are written.
func TestImportsAreAsTheyWere(t *testing.T) {
	for file := range files {
		golden := filepath.Join("testdata", strings.TrimSuffix(file, filepath.Ext(file))+".golden")
		got := rendered(imported(t, file, same))
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is not as in %s:\n%s", file, golden, got)
		}
	}
}

func TestNoSecretGetsIntoAConfiguration(t *testing.T) {
	for file := range files {
		if found := regexp.MustCompile(`sk-[a-z]`).FindString(imported(t, file, same).YAML); found != "" {
			t.Errorf("%s: %s", file, found)
		}
	}
}

// resolved puts values in the places of variables.
func resolved(r *importer.Result) string {
	yaml := r.YAML
	for _, v := range r.Variables {
		value := v.Value
		switch {
		case strings.HasSuffix(v.Name, "_SHA256"):
			value = strings.Repeat("a", 64)
		case value == "":
			value = "key-of-the-environment"
		}
		yaml = strings.ReplaceAll(yaml, "${"+v.Name+"}", value)
	}
	return yaml
}

func TestImportedConfigurationsRouteTraffic(t *testing.T) {
	for file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			result := imported(t, file, func(text string) string {
				return strings.ReplaceAll(text, "http://backend.example:8000", b.URL())
			})
			yaml := resolved(result)
			if _, err := config.Load(config.Source{File: file, Content: []byte(yaml), KnownAdapter: kinds.Check}); err != nil {
				t.Fatalf("%v in\n%s", err, yaml)
			}
			r := gatewaytest.Start(t, yaml)
			key := callerKeys[file]
			if key != "" {
				if got := r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer nobody").Status; got != 401 {
					t.Errorf("a wrong key: %d", got)
				}
			}
			r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+key).Succeeds(t)
			if len(b.Requests()) == 0 {
				t.Error("the backend got no request")
			}
		})
	}
}

func TestSourcesAreRecognised(t *testing.T) {
	for file, want := range files {
		content, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := importer.Detect(file, content)
		if want == importer.OneAPI || want == importer.NewAPI {
			if err == nil || !strings.Contains(err.Error(), "--from") {
				t.Errorf("%s: %s %v", file, got, err)
			}
		} else if got != want || err != nil {
			t.Errorf("%s: %s %v", file, got, err)
		}
	}
	for _, content := range []string{"", "a: b", "[1, 2]", "{", "SQLite format 3\x00"} {
		if got, err := importer.Detect("x", []byte(content)); err == nil {
			t.Errorf("%q is %s", content, got)
		}
	}
	for _, source := range importer.Sources() {
		if _, err := importer.Import(source, "x", []byte("a: b"), nil); err == nil {
			t.Errorf("%s read nothing", source)
		}
	}
}

func TestChannelsOfADatabase(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	file := filepath.Join(t.TempDir(), "one api.db")
	db, err := sql.Open("sqlite", "file:"+strings.ReplaceAll(file, " ", "%20"))
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE TABLE channels (id INTEGER PRIMARY KEY, type INTEGER, key TEXT, status INTEGER, name TEXT, weight INTEGER, base_url TEXT, models TEXT, model_mapping TEXT, priority INTEGER)",
		"INSERT INTO channels VALUES (7, 8, 'sk-in-database', 1, 'own', NULL, '" + b.URL() + "', 'm', NULL, 0)",
		"INSERT INTO channels VALUES (8, 999, 'x', 1, 'strange', NULL, NULL, 'y', NULL, 0)",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	result, err := importer.Import(importer.OneAPI, file, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result.Complete() || len(result.Rows) != 2 || result.Rows[1].Setting != "channel 8" {
		t.Errorf("%+v", result.Rows)
	}
	r := gatewaytest.Start(t, resolved(result))
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if got := b.Requests()[0].Header.Get("Authorization"); got != "Bearer sk-in-database" {
		t.Errorf("the backend was sent %q", got)
	}
}
