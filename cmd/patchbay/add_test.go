package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
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
	if code, stdout, stderr := add("--model", "m", "--model", "bge-m3"); code != exitOK || !strings.Contains(stdout, "added 2 instances; the configuration is version 2\nThe configuration file is unchanged") {
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
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(locked.Close)
	for name, test := range map[string]struct {
		code int
		says string
		args []string
	}{
		"key missing":      {exitFailed, "--key-env NAME", []string{locked.URL, "--url", r.URL}},
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

// TestAddKnowsProviders names providers in place of addresses.
func TestAddKnowsProviders(t *testing.T) {
	t.Parallel()
	for _, p := range providers.All() {
		flags := addFlags{backend: strings.ToUpper(p.Name)}
		if err := flags.complete(); err != nil || flags.backend != p.BaseURL || flags.adapter != p.Adapter || flags.keyVariable != p.Variable || flags.path != p.Path {
			t.Errorf("%s: %v %+v", p.Name, err, flags)
		}
	}
	r := gatewaytest.Start(t, "")
	for want, args := range map[string][]string{
		"DEEPSEEK_API_KEY has no key": {"deepseek"}, `did you mean "deepseek"`: {"deepsek"}, "HOUSE_KEY has no key": {"deepseek", "--key-env", "HOUSE_KEY"},
	} {
		if code, _, stderr := runFor(t, append([]string{"add", "--url", r.URL}, args...)...); code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	// One without a list of models where others have it: its own path is in the instance.
	b := modelServer(t, "m")
	flags := addFlags{backend: b.URL(), path: "/v1/chat/completions"}
	if list := flags.additions([]addedModel{{Model: "m", ServiceType: "chat"}, {Model: "e", ServiceType: "embedding"}}, "openai", "")["instances"]; !strings.Contains(fmt.Sprint(list), "path:/v1/chat/completions") || strings.Count(fmt.Sprint(list), "path:") != 1 {
		t.Error(list)
	}
	r.API("GET", "/api/config/providers", "").Is(t, 200, `"name":"deepseek"`, `"baseUrl":"https://api.deepseek.com"`, `"keyVariable":"DEEPSEEK_API_KEY"`, `"path":"/chat/completions"`)
}
