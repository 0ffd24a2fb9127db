package main

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

func TestTokensIssuedAtRunTime(t *testing.T) {
	dir := t.TempDir()
	r := startWith(t, setup{yaml: securedYAML(), dataDir: dir})
	as := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	const tokens = "/api/auth/tokens"
	for _, weak := range []string{"operator-token", "viewer-token"} {
		r.api("GET", tokens, "", as(weak)...).is(t, 403)
		r.api("POST", tokens, `{"role":"ADMIN"}`, as(weak)...).is(t, 403)
		r.api("POST", tokens+"/a/rotate", "", as(weak)...).is(t, 403)
		r.api("DELETE", tokens+"/a", "", as(weak)...).is(t, 403)
	}
	for _, wrong := range []string{`{}`, `{"role":"KING"}`, `{"name":"a/b","role":"ADMIN"}`, `{"role":"ADMIN","expiresAt":"soon"}`, `{"role":"ADMIN","expiresAt":"2001-01-01T00:00:00Z"}`, `{"name":"a","role":"ADMIN"}`, `{"role":"ADMIN","more":1}`} {
		r.api("POST", tokens, wrong, as("admin-token")...).is(t, 400)
	}
	r.api("POST", tokens+"?dryRun=true", `{"name":"boss","role":"ADMIN"}`, as("admin-token")...).is(t, 200, `"dryRun":true`)
	first := read[newCredential](t, r.api("POST", tokens, `{"name":"boss","role":"ADMIN"}`, as("admin-token")...).is(t, 201)).Token
	listed := r.api("GET", tokens, "", as(first)...).is(t, 200, `"name":"boss"`, `"role":"ADMIN"`, `"status":"ACTIVE"`, `"createdBy":"a"`)
	noneOf(t, listed.body+r.logs.String()+string(mustRead(t, dir+"/keys.json")), first)
	noneOf(t, listed.body, hashOf(first), hashOf("admin-token"))
	second := read[newCredential](t, r.api("POST", tokens+"/boss/rotate", "", as(first)...).is(t, 200)).Token
	r.api("GET", tokens, "", as(first)...).is(t, 401)
	r.api("POST", tokens+"/a/rotate", "", as(second)...).is(t, 400, "configuration file")
	r.api("POST", tokens+"/nobody/rotate", "", as(second)...).is(t, 404)
	r.api("DELETE", tokens+"/nobody", "", as(second)...).is(t, 404)
	// The token of the file leaked: it is dead at once, and after a restart.
	r.api("DELETE", tokens+"/a", "", as(second)...).is(t, 200, `"changed":true`)
	r.api("GET", tokens, "", as("admin-token")...).is(t, 401)
	r.halt()
	r = startWith(t, setup{yaml: securedYAML(), dataDir: dir})
	r.api("GET", tokens, "", as("admin-token")...).is(t, 401)
	r.api("GET", tokens, "", as(second)...).is(t, 200, `"status":"REVOKED"`)
	r.api("DELETE", tokens+"/boss", "", as(second)...).is(t, 200, "last one of the role ADMIN")
	r.api("GET", tokens, "", as(second)...).is(t, 401)
	for _, line := range []string{`"change":"token boss revoked"`, `"who":"boss"`} {
		if !strings.Contains(r.logs.String(), line) {
			t.Errorf("no %s in the audit log", line)
		}
	}
}

// A token that anybody may issue would be a back door for the day on which
// security is turned on.
func TestTokensAreNotIssuedByAnybody(t *testing.T) {
	r := startGateway(t, "")
	r.api(http.MethodPost, "/api/auth/tokens", `{"role":"ADMIN"}`).is(t, 400, "security")
	r.api(http.MethodPost, "/api/auth/tokens/x/rotate", "").is(t, 400, "security")
	r.api(http.MethodGet, "/api/auth/tokens", "").is(t, 200)
}

func TestTokensVerb(t *testing.T) {
	dir := t.TempDir()
	verb := func(code int, args ...string) string {
		t.Helper()
		got, stdout, stderr := runHere(t, append([]string{"tokens"}, args...)...)
		if got != code {
			t.Fatalf("%v: %d %s%s", args, got, stdout, stderr)
		}
		return stdout + stderr
	}
	first := decodeObject(t, verb(exitOK, "issue", "--name", "boss", "--role", "admin", "--json", "--data-dir", dir))["token"].(string)
	r := startWith(t, setup{dataDir: dir, yaml: securedYAML()})
	second := decodeObject(t, verb(exitOK, "rotate", "boss", "--json", "--url", r.url, "--token", first))["token"].(string)
	if out := verb(exitOK, "list", "--url", r.url, "--token", second); !strings.Contains(out, "boss") || !strings.Contains(out, "config") {
		t.Error(out)
	}
	if out := verb(exitFailed, "list", "--url", r.url, "--token", first); !strings.Contains(out, "401") {
		t.Error(out)
	}
	if out := verb(exitOK, "list", "--json", "--url", r.url, "--token", second); !strings.HasPrefix(out, "[") || !strings.Contains(out, `"source": "config"`) {
		t.Error(out)
	}
	if out := verb(exitOK, "revoke", "boss", "--url", r.url, "--token", "admin-token"); out != "revoked boss\n" {
		t.Error(out)
	}
	verb(exitUsage, "issue", "--role", "king", "--data-dir", dir)
	verb(exitUsage, "issue", "--data-dir", dir)
	verb(exitUsage, "rotate", "--data-dir", dir)
	if code, stdout, _ := runHere(t, "keys", "list", "--json", "--url", r.url, "--token", "admin-token"); code != exitOK || strings.TrimSpace(stdout) != "[]" {
		t.Errorf("keys list --json: %d %q", code, stdout)
	}
}

func TestHashOfAToken(t *testing.T) {
	for input, want := range map[string]string{"secret": hashOf("secret"), "secret\n": hashOf("secret"), "secret\r\n": hashOf("secret"), "": "", "\n": "", "\u0020x": "", "a\nb": ""} {
		command := exec.CommandContext(t.Context(), binary, "tokens", "hash")
		command.Stdin = strings.NewReader(input)
		out, err := command.Output()
		if strings.TrimSpace(string(out)) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", input, out, err)
		}
	}
	if code, _, stderr := runHere(t, "check", "--config", writeConfig(t, "security: {tokens: [{name: a, role: ADMIN, token-sha256: "+hashOf("")+"}]}\n")); code != exitConfig || !strings.Contains(stderr, "empty text") {
		t.Errorf("check takes the hash of an empty token: %d %s", code, stderr)
	}
}

func writeConfig(t *testing.T, content string) string {
	t.Helper()
	path := t.TempDir() + "/patchbay.yaml"
	mustWrite(t, path, content)
	return path
}
