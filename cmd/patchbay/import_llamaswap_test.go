// This file belongs to the wing processes.

//go:build unix

package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// TestUsersOfLlamaSwapAreServed imports a configuration of llama-swap with servers that need no
// model, and asks for its models by all the names that their clients know.
func TestUsersOfLlamaSwapAreServed(t *testing.T) {
	dir := t.TempDir()
	source, file := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "patchbay.yaml")
	gatewaytest.WriteFile(t, source, fmt.Sprintf(`
healthCheckTimeout: 120
macros:
  data: %q
  server: |
    %q demo
    --listen 127.0.0.1:${PORT} --data-dir '${data}/${MODEL_ID}'
models:
  llama3:
    cmd: ${server}
    checkEndpoint: /actuator/health
    useModelName: demo-chat
    aliases: [gpt-4o]
    ttl: 300
  small:
    cmd: |
      # the same server, with another name for its model
      ${server} \
      --set server.shutdown-grace=1s
    checkEndpoint: /actuator/health
    useModelName: demo-chat
    cmdStop: sh -c 'kill "$0"' ${PID}
  helper:
    cmd: ${server}
    checkEndpoint: /actuator/health
    useModelName: demo-chat
groups:
  ever: { persistent: true, swap: false, exclusive: false, members: [helper] }
hooks: { on_startup: { preload: [helper] } }
`, t.TempDir(), binary))
	if code, stdout, stderr := runFor(t, "import", source, "-o", file); code != exitOK {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := runFor(t, "check", file); code != exitOK || strings.Contains(stdout, "warning") {
		t.Errorf("check: %d %s%s", code, stdout, stderr)
	}
	c := serving(t, "--config", file, "--data-dir", t.TempDir())
	gatewaytest.Eventually(t, "the helper is there", func() bool { return c.process("helper").State == "ready" })
	for _, ask := range []struct{ model, runs, rests string }{
		{"llama3", "llama3", "small"}, {"small", "small", "llama3"}, {"gpt-4o", "llama3", "small"}, {"helper", "llama3", "small"},
	} {
		got := c.ask(http.MethodPost, "/v1/chat/completions", `{"model":"`+ask.model+`","messages":[{"role":"user","content":"Hello"}]}`)
		if got.Status != http.StatusOK || !strings.Contains(got.Body, `"model":"`+ask.model+`"`) {
			t.Errorf("%s: %d %s", ask.model, got.Status, got.Body)
		}
		if c.process(ask.runs).State != "ready" || c.process(ask.rests).State != "stopped" || c.process("helper").State != "ready" {
			t.Errorf("after %s: %+v", ask.model, c.ask(http.MethodGet, "/api/processes", "").Body)
		}
	}
}
