package main

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// The terms of keys are said, changed and listed alike in a data directory and at a gateway.
func TestKeysVerbSaysAndShowsTheTermsOfKeys(t *testing.T) {
	dir := t.TempDir()
	here := []string{"--data-dir", dir}
	verb := func(at []string, wantCode int, args ...string) string {
		t.Helper()
		code, stdout, stderr := runHere(t, append(append([]string{"keys"}, args...), at...)...)
		if code != wantCode {
			t.Fatalf("%v: %d %s %s", args, code, stdout, stderr)
		}
		return stdout + stderr
	}
	try := func(at []string, id string) {
		t.Helper()
		verb(at, exitOK, "create", "--id", id, "--tenant", "acme", "--service", "chat", "--model", "llama*", "--address", "2001:db8::/32", "--expires", "2099-01-31T00:00:00Z",
			"--requests-per-minute", "60", "--budget", "day.tokens=100", "--budget", "month.cost=2.5")
		if got := verb(at, exitOK, "edit", id, "--tokens-per-minute", "-1", "--concurrent-requests", "4", "--budget", "day.requests=7", "--budget", "day.tokens=0", "--model", "", "--tenant", "other"); got !=
			"changed "+id+": service=chat address=2001:db8::/32 requests-per-minute=60 tokens-per-minute=-1 concurrent-requests=4 day.requests=7 month.cost=2.5\n" {
			t.Errorf("edit says %q", got)
		}
		listed := verb(at, exitOK, "list")
		for _, want := range []string{id + "  ", "other", "2099-01-31T00:00:00Z", "service=chat address=2001:db8::/32 requests-per-minute=60 tokens-per-minute=-1 concurrent-requests=4 day.requests=7 month.cost=2.5"} {
			if !strings.Contains(listed, want) {
				t.Errorf("no %q in\n%s", want, listed)
			}
		}
		shown := verb(at, exitOK, "list", "--json")
		for _, want := range []string{`"requestsPerMinute": 60`, `"cost": "2.5"`, `"2001:db8::/32"`} {
			if !strings.Contains(shown, want) {
				t.Errorf("no %s in %s", want, shown)
			}
		}
		rotated := verb(at, exitOK, "rotate", id, "--overlap", "1h")
		if !strings.Contains(rotated, "key  pb-") || !strings.Contains(rotated, "the old text is good until ") {
			t.Errorf("rotate says %s", rotated)
		}
		verb(at, exitUsage, "rotate", id, "--overlap", "9000h")
		verb(at, exitUsage, "edit", id)
		verb(at, exitUsage, "edit", id, "--budget", "week.tokens=1")
		verb(at, exitUsage, "edit", id, "--budget", "day.cost=-1")
		if got := verb(at, exitFailed, "edit", id, "--requests-per-minute", "-2"); !strings.Contains(got, "limits.requestsPerMinute") {
			t.Errorf("a wrong limit: %s", got)
		}
		verb(at, exitFailed, "edit", id, "--address", "300.0.0.1")
		verb(at, exitFailed, "edit", "nobody", "--tenant", "x")
	}
	try(here, "local")
	r := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir, YAML: gatewaytest.SecuredYAML()})
	try([]string{"--url", r.URL, "--token", "admin-token"}, "remote")
}

// Scripts read the list as JSON: members without a value are there or not, as they always were.
func TestAKeyWithoutTermsIsListedInJSONAsItWas(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := runHere(t, "keys", "create", "--id", "a", "--data-dir", dir); code != exitOK {
		t.Fatal(stderr)
	}
	const want = `[{"id":"a","tenant":"","services":[],"models":[],"addresses":[],"expiresAt":"","limits":{"requestsPerMinute":0,"tokensPerMinute":0,"concurrentRequests":0},"budgets":{},"status":"ACTIVE","source":"issued"}]`
	_, stdout, _ := runHere(t, "keys", "list", "--json", "--data-dir", dir)
	if got := strings.Join(strings.Fields(stdout), ""); got != want {
		t.Errorf("listed\n%s, want\n%s", got, want)
	}
}

// TestANewCredentialIsNamedByAnArgumentOrAFlag names one both ways, and not twice.
func TestANewCredentialIsNamedByAnArgumentOrAFlag(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"keys", "create", "team-a"}, exitOK, "team-a"},
		{[]string{"keys", "create", "team-b", "--id", "team-b"}, exitOK, "team-b"},
		{[]string{"keys", "create", "team-c", "--name", "team-d"}, exitUsage, "given twice: team-c, and --id team-d"},
		{[]string{"tokens", "create", "ci", "--role", "VIEWER"}, exitOK, "ci"},
		{[]string{"tokens", "create", "ci", "--id", "other", "--role", "VIEWER"}, exitUsage, "given twice: ci, and --name other"},
	} {
		code, stdout, stderr := runHere(t, append(c.args, "--data-dir", dir)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%v: %d %s %s", c.args, code, stdout, stderr)
		}
	}
}
