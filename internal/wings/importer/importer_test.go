package importer_test

import (
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config/references"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/wings/importer"
)

// The files were written for these tests after the public formats, or are those that
// testdata/SOURCES.md names.
var files = map[string]importer.Source{
	"jairouter.yaml":            importer.JAiRouter,
	"jairouter/application.yml": importer.JAiRouter,
	"litellm.yaml":              importer.LiteLLM,
	"litellm-variables.yaml":    importer.LiteLLM,
	"one-api.json":              importer.OneAPI,
	"new-api.json":              importer.NewAPI,
	"bifrost.json":              importer.Bifrost,
	"llama-swap.yaml":           importer.LlamaSwap,
}

// examples are configurations of other gateways that come with them.
var examples = map[string]importer.Source{
	"bifrost-virtualkeys.json": importer.Bifrost,
	"litellm-proxy.yaml":       importer.LiteLLM,
	"litellm-wildcards.yaml":   importer.LiteLLM,
}

// all returns the files and the examples.
func all() map[string]importer.Source {
	both := maps.Clone(files)
	maps.Copy(both, examples)
	return both
}

// callerKeys are keys in the files, or in the environment, that callers of the gateway have.
var callerKeys = map[string]string{
	"jairouter.yaml": "sk-jairouter-caller", "jairouter/application.yml": "sk-jairouter-caller", "litellm.yaml": "sk-litellm-master", "litellm-variables.yaml": environmentsText,
	"bifrost.json": "sk-bf-team-a", "llama-swap.yaml": "sk-swap-caller",
}

// environmentsText is what variables have whose values the source does not say.
const environmentsText = "text-of-the-environment"

// input returns a file of the test data, changed by a function.
func input(t *testing.T, file string, change func(string) string) importer.Input {
	t.Helper()
	open := func(name string) ([]byte, error) {
		content, err := os.ReadFile(filepath.Join("testdata", filepath.Dir(file), name))
		return []byte(change(string(content))), err
	}
	content, err := open(filepath.Base(file))
	if err != nil {
		t.Fatal(err)
	}
	return importer.Input{Files: []importer.File{{Name: file, Content: content}}, Open: open}
}

func imported(t *testing.T, file string, change func(string) string) *importer.Result {
	t.Helper()
	result, err := importer.Import(all()[file], input(t, file, change))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// importedText imports a file of this content.
func importedText(t *testing.T, source importer.Source, content ...string) *importer.Result {
	t.Helper()
	var in importer.Input
	for i, text := range content {
		in.Files = append(in.Files, importer.File{Name: fmt.Sprintf("file%d", i+1), Content: []byte(text)})
	}
	result, err := importer.Import(source, in)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func same(text string) string { return text }

// lastCall returns the last request that a backend was sent for an answer.
func lastCall(t *testing.T, b *simulator.Backend) simulator.Request {
	t.Helper()
	for _, request := range slices.Backward(b.Requests()) {
		if request.Method == http.MethodPost {
			return request
		}
	}
	t.Fatal("the backend got no request")
	return simulator.Request{}
}

// rowOf returns the text of the row about a setting with an outcome.
func rowOf(r *importer.Result, outcome importer.Outcome, setting string) string {
	at := slices.IndexFunc(r.Rows, func(row importer.Row) bool { return row.Outcome == outcome && row.Setting == setting })
	if at < 0 {
		return ""
	}
	return r.Rows[at].Text
}

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
	for file := range all() {
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
		result := imported(t, file, same)
		text := result.YAML
		for _, row := range result.Rows {
			text += row.Setting + " " + row.Text + "\n"
		}
		if found := regexp.MustCompile(`sk-[a-z]+`).FindAllString(text, -1); len(found) > 0 {
			t.Errorf("%s: %s", file, found)
		}
	}
}

// resolved puts values in the places of variables: those that the source has, and the
// same text for all others.
func resolved(r *importer.Result, others string) string {
	variables := map[string]string{}
	for _, v := range r.Variables {
		if variables[v.Name] = v.Value; v.Value == "" && !strings.HasSuffix(v.Name, "_URL") && !strings.HasSuffix(v.Name, "_BASE") && !strings.HasSuffix(v.Name, "_ENDPOINT") && !strings.HasSuffix(v.Name, "_MODEL") {
			variables[v.Name] = others
		}
		if variables[v.Name] == "" {
			delete(variables, v.Name)
		}
	}
	return references.Resolver{Variables: variables}.Expand(r.YAML).Text
}

func TestImportedConfigurationsRouteTraffic(t *testing.T) {
	for file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			result := imported(t, file, func(text string) string {
				return strings.ReplaceAll(text, "http://backend.example:8000", b.URL())
			})
			r := gatewaytest.Start(t, resolved(result, environmentsText))
			key := callerKeys[file]
			if key != "" {
				if got := r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer nobody").Status; got != 401 {
					t.Errorf("a wrong key: %d", got)
				}
			}
			r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+key).Succeeds(t)
			lastCall(t, b)
		})
	}
}

func TestSourcesAreRecognised(t *testing.T) {
	for file, want := range all() {
		content, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := importer.Detect(importer.File{Name: file, Content: content})
		if want == importer.OneAPI || want == importer.NewAPI {
			if err == nil || !strings.Contains(err.Error(), "--from") {
				t.Errorf("%s: %s %v", file, got, err)
			}
		} else if got != want || err != nil {
			t.Errorf("%s: %s %v", file, got, err)
		}
	}
	for _, content := range []string{"", "a: b", "[1, 2]", "{", "SQLite format 3\x00"} {
		if got, err := importer.Detect(importer.File{Name: "x", Content: []byte(content)}); err == nil {
			t.Errorf("%q is %s", content, got)
		}
	}
	for _, source := range importer.Sources() {
		if _, err := importer.Import(source, importer.Input{Files: []importer.File{{Name: "x", Content: []byte("a: b")}}}); err == nil {
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
		"CREATE TABLE channels (id INTEGER PRIMARY KEY, type INTEGER, key TEXT, status INTEGER, name TEXT, weight INTEGER, base_url TEXT, models TEXT, model_mapping TEXT, priority INTEGER, system_prompt TEXT)",
		"INSERT INTO channels VALUES (7, 8, 'sk-in-database', 1, 'own', NULL, '" + b.URL() + "', 'm', NULL, 0, 'be kind')",
		"INSERT INTO channels VALUES (8, 999, 'x', 1, 'strange', NULL, NULL, 'y', NULL, 0, NULL)",
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
	result, err := importer.Import(importer.OneAPI, importer.Input{Files: []importer.File{{Name: file, Content: content}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range []string{"channels[1]", "channels[0].system_prompt"} {
		if rowOf(result, importer.Unsupported, setting) == "" {
			t.Errorf("%s: %+v", setting, result.Rows)
		}
	}
	r := gatewaytest.Start(t, resolved(result, ""))
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if got := lastCall(t, b).Header.Get("Authorization"); got != "Bearer sk-in-database" {
		t.Errorf("the backend was sent %q", got)
	}
}
