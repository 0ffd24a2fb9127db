package main

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const keyedYAML = "api-key: '${file:key}', headers: {X-Team: 'team ${TEAM:blue}'}"

// keyed starts the binary with a file whose secrets are references.
func keyed(t *testing.T, backend *simulator.Backend) (c *child, dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "patchbay.yaml")
	gatewaytest.WriteFile(t, filepath.Join(dir, "key"), "sk-first-secret\n")
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", backend.URL(), keyedYAML)))
	return serving(t, "--config", file, "--data-dir", filepath.Join(dir, "data")), dir, file
}

// usedKey makes a call and returns the credential that the backend got.
func usedKey(t *testing.T, c *child, b *simulator.Backend) string {
	t.Helper()
	before := len(b.Requests())
	if answer := c.ask(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi); answer.Status != 200 {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	return b.Requests()[before].Header.Get("Authorization")
}

// A key that was rotated is used after SIGHUP and after a restart without a new
// version, a rollback uses it too, and no file of the gateway has either key.
func TestRotatedKeysTakeEffectAndAreNowhereStored(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	c, dir, file := keyed(t, b)
	if got := usedKey(t, c, b); got != "Bearer sk-first-secret" {
		t.Errorf("sent: %s", got)
	}
	if answer := c.ask(http.MethodPost, gatewaytest.AddInstancePath+"tts", `{"name":"x","baseUrl":"http://127.0.0.1:1"}`); answer.Status != 201 {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	gatewaytest.WriteFile(t, filepath.Join(dir, "key"), "sk-second-secret\n")
	c.signal(syscall.SIGHUP)
	c.waitFor("secrets to which it refers changed and are in force")
	if got := usedKey(t, c, b); got != "Bearer sk-second-secret" {
		t.Errorf("sent after SIGHUP: %s", got)
	}
	if answer := c.ask(http.MethodPost, "/api/config/version/rollback/1", ""); answer.Status != 200 {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	if got := usedKey(t, c, b); got != "Bearer sk-second-secret" {
		t.Errorf("sent after a rollback: %s", got)
	}
	c.ask(http.MethodPost, "/api/config/merge/backup", "")
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	gatewaytest.WriteFile(t, filepath.Join(dir, "key"), "sk-third-secret\n")
	c = serving(t, "--config", file, "--data-dir", filepath.Join(dir, "data"))
	if got := usedKey(t, c, b); got != "Bearer sk-third-secret" {
		t.Errorf("sent after a restart: %s", got)
	}
	if answer := c.ask(http.MethodGet, "/api/config/version", ""); !strings.Contains(answer.Body, `"data":[1,2]`) {
		t.Errorf("versions: %s", answer.Body)
	}
	if strings.Contains(c.stderr.String(), "-secret") {
		t.Error("the log has a key")
	}
	_ = filepath.WalkDir(filepath.Join(dir, "data"), func(path string, entry fs.DirEntry, err error) error {
		if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), "-secret") {
			t.Errorf("%s has a key", entry.Name())
		}
		return err
	})
}

// An instance whose secret is missing on a gateway is out there, which operators
// are told; callers are told that it is.
func TestAMissingSecretIsSaidWhereOperatorsLook(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	c, dir, _ := keyed(t, b)
	if err := os.Rename(filepath.Join(dir, "key"), filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	c.ask(http.MethodPost, gatewaytest.AddInstancePath+"tts", `{"name":"x","baseUrl":"http://127.0.0.1:1"}`) // any change compiles anew
	const reason = "api-key: cannot read the file"
	for _, path := range []string{
		"/api/route/explain?service=chat&model=m", gatewaytest.InstanceInfoPath + "chat?modelName=m&baseUrl=" + b.URL(), "/actuator/health/detailed", "/api/monitoring/instances",
	} {
		if answer := c.ask(http.MethodGet, path, ""); !strings.Contains(answer.Body, reason) {
			t.Errorf("%s does not say it: %s", path, answer.Body)
		}
	}
	answer := c.ask(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi)
	if answer.Status != 503 || strings.Contains(answer.Body, dir) || !strings.Contains(answer.Body, "a secret of the instance cannot be used on this gateway") {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	c.waitFor("an instance is out on this gateway")
}
