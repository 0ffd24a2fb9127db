package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// An edit of the file while the gateway runs, and one while it is stopped, change
// what they say and keep what was added over the API.
func TestEditsOfTheFileKeepInstancesOfTheAPI(t *testing.T) {
	dir := t.TempDir()
	file, data := filepath.Join(dir, "patchbay.yaml"), filepath.Join(dir, "data")
	yaml := func(interval string) string {
		return gatewaytest.PolicyYAML("health-check: {interval: "+interval+"}", gatewaytest.Instance("of-the-file", simulator.DownURL))
	}
	gatewaytest.WriteFile(t, file, yaml("30s"))
	start := func() *child { return serving(t, "--config", file, "--data-dir", data) }
	c := start()
	for _, name := range []string{"a", "b", "c"} {
		if answer := c.ask(http.MethodPost, gatewaytest.AddInstancePath+"chat", `{"name":"`+name+`","baseUrl":"`+simulator.DownURL+`"}`); answer.Status != 201 {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
	}
	has := func(interval string) {
		t.Helper()
		answer := c.ask(http.MethodGet, "/api/config/type/services/chat", "")
		for _, part := range []string{`"name":"of-the-file"`, `"name":"a"`, `"name":"b"`, `"name":"c"`, `"interval":` + interval} {
			if !strings.Contains(answer.Body, part) {
				t.Errorf("%s is not in %s", part, answer.Body)
			}
		}
	}
	replaceFile(t, file, yaml("20s"))
	c.waitFor("configuration reloaded: added nothing; changed 1 (chat healthCheck.interval 30000→20000); removed nothing")
	has("20000")
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	gatewaytest.WriteFile(t, file, yaml("10s"))
	c = start()
	c.waitFor("the configuration file changed since it was last read: added nothing; changed 1 (chat healthCheck.interval 20000→10000); removed nothing")
	has("10000")
	if answer := c.ask(http.MethodGet, "/api/config/version?details=true", ""); !strings.Contains(answer.Body, "the configuration file changed: 0 added, 1 changed, 0 removed; chat: healthCheck.interval 20000→10000") {
		t.Errorf("%s", answer.Body)
	}
}
