//go:build unix

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
)

// TestProcessesFromTheCommandLine has one process that works and one that ends with an error.
func TestProcessesFromTheCommandLine(t *testing.T) {
	t.Parallel()
	file, mend := filepath.Join(t.TempDir(), "patchbay.yaml"), filepath.Join(t.TempDir(), "mended")
	gatewaytest.WriteFile(t, file, `
security: {enabled: true, tokens: [{name: v, role: VIEWER, token-sha256: "${sha256:V}"}, {name: a, role: ADMIN, token-sha256: "${sha256:A}"}], keys: [{id: k, key-sha256: "${sha256:K}"}]}
processes:
  breaks: {command: [sh, -c, "echo loading; echo 'error: out of memory' >&2; exit 3"], ready: "http://127.0.0.1:1/", restarts: 0}
  mended: {command: [sh, -c, "test -f `+mend+` || exit 3; exec `+binary+` demo --listen 127.0.0.1:$PORT --data-dir `+t.TempDir()+`"], ready: "http://127.0.0.1:$PORT/actuator/health", restarts: 0, start-timeout: 2m}
  works: `+demoProcess(t, "")+`
services: {chat: {instances: [{name: m, process: breaks}]}}
`)
	c := startChildWith(t, []string{"V=viewer", "A=administrator", "K=key"}, "serve", "--listen", "127.0.0.1:0", "--config", file, "--data-dir", t.TempDir())
	c.waitFor(`"msg":"listening"`)
	verb := func(code int, args ...string) string {
		t.Helper()
		got, stdout, stderr := runFor(t, append(args, "--url", c.url())...)
		if got != code {
			t.Fatalf("%v: %d %s%s", args, got, stdout, stderr)
		}
		return stdout + stderr
	}
	if out := verb(exitOK, "models", "list", "--token", "viewer"); strings.Contains(out, "failed") {
		t.Errorf("before the first request:\n%s", out)
	}
	if got := c.askAs("key", http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi); got.Status < 500 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	for _, test := range []struct {
		args   string
		code   int
		want   []string
		hidden string
	}{
		{"models list --token administrator", exitOK, []string{"failed for ", "exited with status 3: error: out of memory"}, ""},
		{"models list --token viewer", exitOK, []string{"failed for ", "status 3"}, "out of memory"},
		{"models list --json --token administrator", exitOK, []string{`"state": "failed"`, `"lastLine": "error: out of memory"`, `"since": "20`}, ""},
		{"processes --token administrator", exitOK, []string{"NAME ", "breaks", "failed", "status 3: error: out of memory", "works", "stopped"}, ""},
		{"processes list --token viewer", exitOK, []string{"failed", "status 3"}, "out of memory"},
		{"processes log breaks --token administrator", exitOK, []string{" loading\n", " error: out of memory\n"}, ""},
		{"processes log breaks --token viewer", exitFailed, []string{"role ADMIN"}, "out of memory"},
		{"processes log nobody --token administrator", exitFailed, []string{`no process "nobody"`}, ""},
		{"processes log", exitUsage, []string{"the name of the process is missing"}, ""},
		{"processes start breaks --token administrator", exitFailed, []string{"breaks failed", "error: out of memory", "processes log breaks"}, ""},
		{"processes start works --token viewer", exitFailed, []string{"403"}, ""},
		{"processes start works --token administrator", exitOK, []string{"works is ready"}, ""},
	} {
		out := verb(test.code, strings.Fields(test.args)...)
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", test.args, want, out)
			}
		}
		if test.hidden != "" && strings.Contains(out, test.hidden) {
			t.Errorf("%s shows the output:\n%s", test.args, out)
		}
	}
	verb(exitFailed, "processes", "start", "mended", "--token", "administrator")
	gatewaytest.WriteFile(t, mend, "")
	if out := verb(exitOK, "processes", "start", "mended", "--token", "administrator"); out != "mended is ready\n" {
		t.Error(out)
	}
	for _, block := range commandsOf(t, "docs/processes.md", "test=TestProcessesFromTheCommandLine") {
		for line := range strings.Lines(block) {
			command, _, _ := strings.Cut(line, "#")
			verb(exitOK, append(strings.Fields(command)[1:], "--token", "administrator")...)
		}
	}
	verb(exitOK, "processes", "start", "works", "--token", "administrator")
	works := func() processes.View {
		var line processLine
		if err := json.Unmarshal([]byte(verb(exitOK, "processes", "log", "works", "--json", "--token", "administrator")), &line); err != nil {
			t.Fatal(err)
		}
		return line.View
	}
	before := works()
	if out := verb(exitOK, "processes", "restart", "works", "--token", "administrator"); out != "works is ready\n" || works().PID == before.PID || works().Starts != before.Starts+1 {
		t.Errorf("%s%+v, then %+v", out, before, works())
	}
	if out := verb(exitOK, "processes", "stop", "works", "--token", "administrator"); out != "works is stopped\n" || works().State != processes.Stopped {
		t.Errorf("%s%+v", out, works())
	}
	if out := verb(exitOK, "processes", "start", "works", "--wait", "0", "--token", "administrator"); works().State == processes.Stopped && !strings.Contains(out, "works is") {
		t.Error(out)
	}
}
