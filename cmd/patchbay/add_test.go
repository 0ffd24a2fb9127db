package main

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// modelServer starts a backend with these models.
func modelServer(t *testing.T, models ...string) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(simulator.Options{Models: models, Record: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestAddMakesOneVersionOfTheModelsOfABackend(t *testing.T) {
	t.Parallel()
	b := modelServer(t, "m", "bge-m3", "whisper-1")
	r := gatewaytest.Start(t, "")
	add := func(args ...string) (int, string, string) {
		return runFor(t, append([]string{"add", b.URL(), "--url", r.URL, "--adapter", "openai"}, args...)...)
	}
	if code, stdout, stderr := add("--dry-run"); code != exitOK || !strings.Contains(stdout, "3 instances would be added") || r.Control.Version() != 1 {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := add("--model", "m", "--model", "bge-m3"); code != exitOK || !strings.Contains(stdout, "added 2 instances; the configuration is version 2") {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.Post("/v1/embeddings", `{"model":"bge-m3","input":"x"}`).Succeeds(t)
	if code, stdout, stderr := add("--json"); code != exitOK || !strings.Contains(stdout, `"version": 3`) || strings.Count(stdout, `"exists": true`) != 2 {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := add(); code != exitOK || !strings.Contains(stdout, "nothing is new") || r.Control.Version() != 3 {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if code, _, stderr := add("--model", "whisper1"); code != exitFailed || !strings.Contains(stderr, `did you mean "whisper-1"`) {
		t.Errorf("%d %s", code, stderr)
	}
}

func TestAddSendsTheKeyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	b := modelServer(t, "m")
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	args := []string{"add", b.URL(), "--url", r.URL, "--adapter", "openai", "--key-env", "BACKEND_KEY"}
	var out, errs bytes.Buffer
	env := []string{"BACKEND_KEY=sk-of-the-backend", "PATCHBAY_TOKEN=admin-token"}
	if code := run(args, env, &out, &errs); code != exitOK {
		t.Fatalf("%d %s%s", code, out.String(), errs.String())
	}
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer x").Succeeds(t)
	if got := b.Requests()[0].Header.Get("Authorization"); got != "Bearer sk-of-the-backend" {
		t.Errorf("the backend was sent %q", got)
	}
	if strings.Contains(out.String()+errs.String(), "sk-of") {
		t.Error("the key was printed")
	}
	if code, _, stderr := runFor(t, args...); code != exitFailed || !strings.Contains(stderr, "BACKEND_KEY has no key") {
		t.Errorf("without the variable: %d %s", code, stderr)
	}
}

func TestAddSaysWhyItCannot(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	for name, test := range map[string]struct {
		code int
		says string
		args []string
	}{
		"nothing there":    {exitFailed, "no list of models was found", []string{simulator.DownURL, "--url", r.URL}},
		"no gateway":       {exitFailed, "no gateway answers", []string{simulator.DownURL, "--url", simulator.DownURL}},
		"no address":       {exitUsage, "want the address of a backend", []string{"localhost", "--url", r.URL}},
		"nothing":          {exitUsage, "the address of the backend is missing", nil},
		"no such type":     {exitUsage, "--type", []string{"http://x", "--type", "cooking"}},
		"no key":           {exitFailed, "OPENAI_API_KEY", []string{"openai", "--url", r.URL}},
		"unknown adapters": {exitFailed, "adapter", []string{"http://x", "--adapter", "nothing", "--url", r.URL}},
	} {
		if code, _, stderr := runFor(t, append([]string{"add"}, test.args...)...); code != test.code || !strings.Contains(stderr, test.says) {
			t.Errorf("%s: %d %s", name, code, stderr)
		}
	}
	// A backend without a list is added with what the flags say.
	if code, stdout, stderr := runFor(t, "add", simulator.DownURL, "--url", r.URL, "--model", "w", "--type", "stt", "--adapter", "whispercpp"); code != exitOK {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

func TestInitWritesAConfigurationThatRoutes(t *testing.T) {
	t.Parallel()
	b := modelServer(t, "m", "bge-m3")
	address, err := url.Parse(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	code, stdout, stderr := runFor(t, "init", file, "--ports", address.Port())
	if code != exitOK || !strings.Contains(stdout, "with 2 instances") {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	content := string(gatewaytest.ReadFile(t, file))
	if !strings.HasPrefix(content, "# yaml-language-server: $schema=patchbay.schema.json\n") {
		t.Errorf("%s", content)
	}
	if code, _, stderr := runFor(t, "check", file); code != exitOK {
		t.Errorf("check: %s", stderr)
	}
	r := gatewaytest.Start(t, content)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.Post("/v1/embeddings", `{"model":"bge-m3","input":"x"}`).Succeeds(t)
	if code, _, stderr := runFor(t, "init", file, "--ports", "0"); code != exitFailed || !strings.Contains(stderr, "--force") {
		t.Errorf("again: %d %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(file), schemaFile)); err != nil {
		t.Error(err)
	}
}

func TestInitNeedsNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if code, stdout, stderr := runFor(t, "init", file, "--ports", "0"); code != exitOK || !strings.Contains(stdout, "0 instances") {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	if code, _, stderr := runFor(t, "check", file); code != exitOK {
		t.Errorf("check: %s", stderr)
	}
}

func TestInitSecuresWhatOthersCanReach(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	code, stdout, stderr := runFor(t, "init", file, "--ports", "0", "--listen", "0.0.0.0:8080")
	if code != exitOK {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	content := string(gatewaytest.ReadFile(t, file))
	fields := strings.Fields(stdout)
	var token, key string
	for i, word := range fields {
		switch {
		case strings.HasPrefix(word, "pbt-"):
			token = fields[i]
		case strings.HasPrefix(word, "pb-"):
			key = fields[i]
		}
	}
	if token == "" || key == "" || strings.Contains(content, token) || strings.Contains(content, key) {
		t.Fatalf("%s\n%s", stdout, content)
	}
	r := gatewaytest.Start(t, content)
	if got := r.Do("GET", "/v1/models", "").Status; got != 401 {
		t.Errorf("without a key: %d", got)
	}
	r.Do("GET", "/v1/models", "", "Authorization", "Bearer "+key).Succeeds(t)
	r.Do("GET", "/api/config/type", "", "Authorization", "Bearer "+token).Succeeds(t)
}

func TestInitAsks(t *testing.T) {
	t.Parallel()
	b := modelServer(t, "m")
	address, err := url.Parse(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	flags := &initFlags{file: file, listen: "127.0.0.1:8080", ports: []int{}, env: []string{"KEY=k"}}
	ask, asked := askingPerson(simulator.DownURL+"\n\n"+b.URL()+"\nKEY\n\n127.0.0.1:9000\nn\n"), new(bytes.Buffer)
	ask.out = asked
	var out, errs bytes.Buffer
	if err := flags.run(t.Context(), ask, &out, &errs); err != nil {
		t.Fatal(err)
	}
	content := string(gatewaytest.ReadFile(t, file))
	for _, part := range []string{`listen: "127.0.0.1:9000"`, `name: m, base-url: "http://127.0.0.1:` + address.Port(), `api-key: "${KEY}"`, "# security:"} {
		if !strings.Contains(content, part) {
			t.Errorf("%q is missing in\n%s", part, content)
		}
	}
	if !strings.Contains(errs.String(), "no list of models") || !strings.Contains(asked.String(), "Address of another backend") {
		t.Errorf("%s\n%s", errs.String(), asked.String())
	}
}
