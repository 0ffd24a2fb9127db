package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// The configuration of a data directory without a gateway has the changes of management, and
// serve with it makes no new version.
func TestExportOfADataDirectory(t *testing.T) {
	b := gatewaytest.StartBackend(t)
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), ""))+"limits: {max-attempts: 4}\n")
	if code, stdout, _ := runHere(t, "export", "--config", file, "--data-dir", data); code == exitOK || stdout != "" {
		t.Errorf("without a directory: got code %d and %q, want a failure", code, stdout)
	}
	start := func(file string) *gatewaytest.Gateway {
		return gatewaytest.StartWith(t, gatewaytest.Setup{YAML: string(gatewaytest.ReadFile(t, file)), DataDir: data, FromFile: true})
	}
	g := start(file)
	added := g.Do(http.MethodPost, gatewaytest.AddInstancePath+"chat", `{"name":"n","baseUrl":"`+b.URL()+`","apiKey":"sk-literal"}`)
	if added.Status != http.StatusCreated {
		t.Fatalf("got %d %s", added.Status, added.Body)
	}
	version := g.Control.Version()
	g.Halt()
	code, text, stderr := runHere(t, "export", "--config", file, "--data-dir", data)
	if code != exitOK || strings.Contains(text, "sk-literal") || !strings.Contains(text, "API_KEY}") || !strings.Contains(text, "max-attempts: 4") {
		t.Errorf("got code %d, %s\n%s\nwant the settings, with a variable for the secret", code, stderr, text)
	}
	code, text, stderr = runHere(t, "export", "--config", file, "--data-dir", data, "--secrets")
	if code != exitOK || !strings.Contains(text, "sk-literal") {
		t.Fatalf("with --secrets: got code %d, %s\n%s", code, stderr, text)
	}
	exported := filepath.Join(dir, "exported.yaml")
	gatewaytest.WriteFile(t, exported, text)
	g = start(exported)
	if got := g.Control.Version(); got != version {
		t.Errorf("with the export: got version %d, want %d", got, version)
	}
}
