// This file belongs to the wing runs.

package main

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A run is stopped at its limit, found, raised by the command that its refusal names, goes on, and is
// ended.
func TestRunsFromTheCommandLine(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.PoolYAML(b)+`
runs: {enabled: true, limits: {requests: 1, time: 4h}}
security: {enabled: true, tokens: [{name: v, role: VIEWER, token-sha256: "${sha256:V}"}, {name: o, role: OPERATOR, token-sha256: "${sha256:O}"}], keys: [{id: k, key-sha256: "${sha256:K}"}]}
`)
	c := startChildWith(t, []string{"V=viewer", "O=operator", "K=key"}, "serve", "--listen", "127.0.0.1:0", "--config", file, "--data-dir", t.TempDir())
	c.waitFor(`"msg":"listening"`)
	verb := func(code int, line string, more ...string) string {
		t.Helper()
		if !strings.Contains(line, "--token") {
			more = append(more, "--token", "operator")
		}
		got, stdout, stderr := runFor(t, append(append(strings.Fields(line), more...), "--url", c.url())...)
		if got != code {
			t.Fatalf("%s: %d %s%s", line, got, stdout, stderr)
		}
		return stdout + stderr
	}
	turn := func(name string) gatewaytest.Reply {
		return c.askAs("key", http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, "X-Router-Run", name)
	}
	if got := turn("first"); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	refused := turn("first")
	command := regexp.MustCompile(`patchbay (runs raise (\w+) --requests 1)\b`).FindStringSubmatch(refused.Body)
	if refused.Status != http.StatusBadRequest || command == nil {
		t.Fatalf("%d %s", refused.Status, refused.Body)
	}
	id := command[2]
	turn("second")
	for _, test := range []struct {
		line string
		code int
		want []string
		lack string
	}{
		{"runs", exitOK, []string{"ID ", "REQUESTS", id, "STOPPED", "1 of 1", "first", "second", "WAITING", "of 4h0m0s"}, ""},
		{"runs list --state stopped --sort cost", exitOK, []string{id}, "second"},
		{"runs list --search SECOND --since 24h", exitOK, []string{"second"}, id},
		{"runs list --owner-key nobody --json", exitOK, []string{"[]"}, id},
		{"runs list --json --state stopped", exitOK, []string{`"state": "STOPPED"`, `"requests": 1`}, "second"},
		{"runs list --page 2", exitOK, []string{"ID "}, id},
		{"runs list --sort size", exitFailed, []string{"400", "started, cost"}, ""},
		{"runs list --state asleep", exitFailed, []string{"400", "STOPPED"}, ""},
		{"runs list --since yesterday", exitUsage, []string{"--since", "24h"}, ""},
		{"runs show " + id, exitOK, []string{"first", "x-router-run", "STOPPED", "1 of 1 requests", "OUTCOME", "run_limit_reached"}, ""},
		{"runs show " + id + " --token viewer", exitOK, []string{"STOPPED"}, ""},
		{"runs show nobody", exitFailed, []string{"404", "nobody"}, ""},
		{"runs show", exitUsage, []string{"the id of the run is missing"}, ""},
		{"runs raise " + id + " --token viewer", exitFailed, []string{"403"}, ""},
		{"runs raise " + id + " --cost much", exitFailed, []string{"400", "cost"}, ""},
		{"runs raise " + id + " --requests -1", exitFailed, []string{"400", "requests"}, ""},
		{"runs raise " + id + " --time 30", exitUsage, []string{"time"}, ""},
	} {
		out := verb(test.code, test.line)
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", test.line, want, out)
			}
		}
		if test.lack != "" && strings.Contains(out, test.lack) {
			t.Errorf("%s shows %q:\n%s", test.line, test.lack, out)
		}
	}
	if got := turn("first"); got.Status != http.StatusBadRequest {
		t.Errorf("before a raise: %d %s", got.Status, got.Body)
	}
	if out := verb(exitOK, command[1], "--time", "1h"); out != id+" is WAITING: used 0 USD, "+tokensOf(t, verb(exitOK, "runs show "+id+" --json"))+" tokens, 1 of 2 requests\n" {
		t.Error(out)
	}
	if out := verb(exitOK, "runs show "+id); !strings.Contains(out, "of 5h0m0s") {
		t.Error(out)
	}
	if got := turn("first"); got.Status != http.StatusOK {
		t.Errorf("after a raise: %d %s", got.Status, got.Body)
	}
	if out := verb(exitOK, "runs end "+id+" --now"); !strings.HasPrefix(out, id+" is ENDED: ") || !strings.Contains(out, "2 of 2 requests") {
		t.Error(out)
	}
	if got := turn("first"); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "run_ended") {
		t.Errorf("after the end: %d %s", got.Status, got.Body)
	}
	if out := verb(exitOK, "runs raise "+id+" --requests 1 --json"); !strings.Contains(out, `"state": "WAITING"`) {
		t.Error(out)
	}
	if got := turn("first"); got.Status != http.StatusOK {
		t.Errorf("an ended run that was raised: %d %s", got.Status, got.Body)
	}
}

// tokensOf returns how many tokens a run used.
func tokensOf(t *testing.T, shown string) string {
	t.Helper()
	var line runLine
	if err := json.Unmarshal([]byte(shown), &line); err != nil {
		t.Fatal(err)
	}
	return line.tokens()
}
