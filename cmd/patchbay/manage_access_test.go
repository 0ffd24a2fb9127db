package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestKeysVerb(t *testing.T) {
	dir := t.TempDir()
	verb := func(args ...string) (int, string, string) {
		return runHere(t, append([]string{"keys"}, args...)...)
	}
	code, stdout, stderr := verb("create", "--data-dir", dir, "--id", "team-a", "--service", "chat", "--expires", "24h")
	key := regexp.MustCompile(`pb-[\w-]{43}`).FindString(stdout)
	if code != exitOK || key == "" {
		t.Fatalf("%d %s %s", code, stdout, stderr)
	}
	r := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir, YAML: gatewaytest.SecuredYAML()})
	if code, _, stderr := verb("list", "--data-dir", dir); code != exitFailed || !strings.Contains(stderr, "in use by another process: "+dir) {
		t.Errorf("while the gateway runs: %d %s", code, stderr)
	}
	remote := []string{"--url", r.URL, "--token", "admin-token"}
	if code, stdout, stderr := verb(append([]string{"list"}, remote...)...); code != exitOK || !strings.Contains(stdout, "team-a") || !strings.Contains(stdout, "ACTIVE") {
		t.Errorf("list: %d %s %s", code, stdout, stderr)
	}
	if code, stdout, stderr := verb(append([]string{"create", "--id", "team-b"}, remote...)...); code != exitOK || !strings.Contains(stdout, "pb-") {
		t.Errorf("create: %d %s %s", code, stdout, stderr)
	}
	if code, _, stderr := verb(append([]string{"revoke", "team-a"}, remote...)...); code != exitOK {
		t.Errorf("revoke: %d %s", code, stderr)
	}
	if code, _, stderr := verb("revoke", "team-b", "--url", r.URL, "--token", "viewer-token"); code != exitFailed || !strings.Contains(stderr, "403") {
		t.Errorf("revoke by a viewer: %d %s", code, stderr)
	}
	if code, _, stderr := verb("create", "--expires", "soon"); code != exitUsage || !strings.Contains(stderr, "--expires") {
		t.Errorf("bad expiry: %d %s", code, stderr)
	}
	if code, _, stderr := verb("revoke", "nobody", "--data-dir", t.TempDir()); code != exitFailed || !strings.Contains(stderr, "does not exist") {
		t.Errorf("revoke nobody: %d %s", code, stderr)
	}
	if code, stdout, _ := verb("--help"); code != exitOK || !strings.Contains(stdout, "Examples:\n  patchbay keys") {
		t.Errorf("help: %d %s", code, stdout)
	}
}
