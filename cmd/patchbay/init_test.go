// This file belongs to the wing starter.

package main

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

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
	taken := []string{"init", file, "--force", "--ports", address.Port(), "--listen", "127.0.0.1:" + address.Port()}
	if code, _, stderr := runFor(t, taken...); code != exitFailed || !strings.Contains(stderr, "has the port of the backend "+b.URL()) || string(gatewaytest.ReadFile(t, file)) != content {
		t.Errorf("%v: %d %s", taken, code, stderr)
	}
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
	if code, stdout, stderr := runFor(t, "init", file, "--ports", "0"); code != exitOK || !strings.Contains(stdout, "0 instances") ||
		!strings.Contains(stdout, "then the gateway listens on 127.0.0.1:8080\n") {
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
	if !strings.Contains(errs.String(), "no list of models was found at "+simulator.DownURL+" (GET /") || !strings.Contains(asked.String(), "Address of another backend") {
		t.Errorf("%s\n%s", errs.String(), asked.String())
	}
}
