package main

import (
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestTokensIssuedAtRunTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.SecuredYAML(), DataDir: dir})
	as := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	const tokens = "/api/auth/tokens"
	for _, weak := range []string{"operator-token", "viewer-token"} {
		r.API("GET", tokens, "", as(weak)...).Is(t, 403)
		r.API("POST", tokens, `{"role":"ADMIN"}`, as(weak)...).Is(t, 403)
		r.API("POST", tokens+"/a/rotate", "", as(weak)...).Is(t, 403)
		r.API("DELETE", tokens+"/a", "", as(weak)...).Is(t, 403)
	}
	for _, wrong := range []string{`{}`, `{"role":"KING"}`, `{"name":"a/b","role":"ADMIN"}`, `{"role":"ADMIN","expiresAt":"soon"}`, `{"role":"ADMIN","expiresAt":"2001-01-01T00:00:00Z"}`, `{"name":"a","role":"ADMIN"}`, `{"role":"ADMIN","more":1}`} {
		r.API("POST", tokens, wrong, as("admin-token")...).Is(t, 400)
	}
	r.API("POST", tokens+"?dryRun=true", `{"name":"boss","role":"ADMIN"}`, as("admin-token")...).Is(t, 200, `"dryRun":true`)
	first := gatewaytest.DataOf[newCredential](t, r.API("POST", tokens, `{"name":"boss","role":"ADMIN"}`, as("admin-token")...).Is(t, 201)).Token
	listed := r.API("GET", tokens, "", as(first)...).Is(t, 200, `"name":"boss"`, `"role":"ADMIN"`, `"status":"ACTIVE"`, `"createdBy":"a"`)
	gatewaytest.ContainsNone(t, listed.Body+r.Logs.String()+string(gatewaytest.ReadFile(t, dir+"/keys.json")), first)
	gatewaytest.ContainsNone(t, listed.Body, gatewaytest.HashOf(first), gatewaytest.HashOf("admin-token"))
	second := gatewaytest.DataOf[newCredential](t, r.API("POST", tokens+"/boss/rotate", "", as(first)...).Is(t, 200)).Token
	r.API("GET", tokens, "", as(first)...).Is(t, 401)
	r.API("POST", tokens+"/a/rotate", "", as(second)...).Is(t, 400, "configuration file")
	r.API("POST", tokens+"/nobody/rotate", "", as(second)...).Is(t, 404)
	r.API("DELETE", tokens+"/nobody", "", as(second)...).Is(t, 404)
	// The token of the file leaked: it is dead at once, and after a restart.
	r.API("DELETE", tokens+"/a", "", as(second)...).Is(t, 200, `"changed":true`)
	r.API("GET", tokens, "", as("admin-token")...).Is(t, 401)
	r.Halt()
	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.SecuredYAML(), DataDir: dir})
	r.API("GET", tokens, "", as("admin-token")...).Is(t, 401)
	r.API("GET", tokens, "", as(second)...).Is(t, 200, `"status":"REVOKED"`)
	r.API("DELETE", tokens+"/boss", "", as(second)...).Is(t, 200, "last one of the role ADMIN")
	r.API("GET", tokens, "", as(second)...).Is(t, 401)
	for _, line := range []string{`"change":"token boss revoked"`, `"who":"boss"`} {
		if !strings.Contains(r.Logs.String(), line) {
			t.Errorf("no %s in the audit log", line)
		}
	}
}

// A token that anybody may issue would be a back door for the day on which
// security is turned on.
func TestTokensAreNotIssuedByAnybody(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	r.API(http.MethodPost, "/api/auth/tokens", `{"role":"ADMIN"}`).Is(t, 403, "security")
	r.API(http.MethodPost, "/api/auth/tokens/x/rotate", "").Is(t, 403, "security")
	r.API(http.MethodGet, "/api/auth/tokens", "").Is(t, 200)
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
	first := gatewaytest.DecodeObject(t, verb(exitOK, "issue", "--name", "boss", "--role", "admin", "--json", "--data-dir", dir))["token"].(string)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir, YAML: gatewaytest.SecuredYAML()})
	second := gatewaytest.DecodeObject(t, verb(exitOK, "rotate", "boss", "--json", "--url", r.URL, "--token", first))["token"].(string)
	if out := verb(exitOK, "list", "--url", r.URL, "--token", second); !strings.Contains(out, "boss") || !strings.Contains(out, "config") {
		t.Error(out)
	}
	if out := verb(exitFailed, "list", "--url", r.URL, "--token", first); !strings.Contains(out, "401") {
		t.Error(out)
	}
	if out := verb(exitOK, "list", "--json", "--url", r.URL, "--token", second); !strings.HasPrefix(out, "[") || !strings.Contains(out, `"source": "config"`) {
		t.Error(out)
	}
	if out := verb(exitOK, "revoke", "boss", "--url", r.URL, "--token", "admin-token"); out != "revoked boss\n" {
		t.Error(out)
	}
	verb(exitUsage, "issue", "--role", "king", "--data-dir", dir)
	verb(exitUsage, "issue", "--data-dir", dir)
	verb(exitUsage, "rotate", "--data-dir", dir)
	if code, stdout, _ := runHere(t, "keys", "list", "--json", "--url", r.URL, "--token", "admin-token"); code != exitOK || strings.TrimSpace(stdout) != "[]" {
		t.Errorf("keys list --json: %d %q", code, stdout)
	}
}

func TestHashOfAToken(t *testing.T) {
	for input, want := range map[string]string{"secret": gatewaytest.HashOf("secret"), "secret\n": gatewaytest.HashOf("secret"), "secret\r\n": gatewaytest.HashOf("secret"), "": "", "\n": "", "\u0020x": "", "a\nb": ""} {
		command := exec.CommandContext(t.Context(), binary, "tokens", "hash")
		command.Stdin = strings.NewReader(input)
		out, err := command.Output()
		if strings.TrimSpace(string(out)) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", input, out, err)
		}
	}
	if code, _, stderr := runHere(t, "check", "--config", writeConfig(t, "security: {tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("")+"}]}\n")); code != exitConfig || !strings.Contains(stderr, "empty text") {
		t.Errorf("check takes the hash of an empty token: %d %s", code, stderr)
	}
}

func writeConfig(t *testing.T, content string) string {
	t.Helper()
	path := t.TempDir() + "/patchbay.yaml"
	gatewaytest.WriteFile(t, path, content)
	return path
}

// TestVerbsBesideAGatewayNameItsAddress issues keys in a data directory that others use.
func TestVerbsBesideAGatewayNameItsAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := func(parts string, absent ...string) {
		t.Helper()
		code, _, stderr := runFor(t, "keys", "create", "x", "--data-dir", dir)
		if code != exitFailed || !strings.HasSuffix(stderr, parts+"\n") || slices.ContainsFunc(absent, func(part string) bool { return strings.Contains(stderr, part) }) {
			t.Errorf("got %d %s, want %s and none of %q", code, stderr, parts, absent)
		}
	}
	c := serving(t, "--data-dir", dir)
	want(dir + ": the gateway runs, so ask it: --url " + c.url())
	c.kill()
	c = serving(t, "--data-dir", dir, "--set", "server.management-listen=unix:"+filepath.Join(t.TempDir(), "s"))
	want("the gateway runs; add a port to server.management-listen, because --url takes no socket")
	c.kill()
	store, err := files.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	want(dir, "the gateway runs", "--url")
}

// TestKeysAndTokensHaveTheSameVerbs goes through the life of both with the same words.
func TestKeysAndTokensHaveTheSameVerbs(t *testing.T) {
	t.Parallel()
	verbs := map[string][]string{}
	for _, verb := range verbsBelow(newRoot(nil, io.Discard, io.Discard)) {
		if word := verb.Parent().Name(); word == "keys" || word == "tokens" {
			verbs[word] = append(verbs[word], verb.Name()+" "+strings.Join(verb.Aliases, " "))
		}
	}
	if !slices.Equal(verbs["keys"], verbs["tokens"]) || len(verbs["keys"]) != 7 {
		t.Errorf("%q and %q", verbs["keys"], verbs["tokens"])
	}
	dir := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"tokens create --id b --role VIEWER --expires 720h", "name   b\ntoken  "},
		{"tokens edit b --role OPERATOR --expires=", "changed b: role=OPERATOR expires=never"},
		{"tokens list", "b     OPERATOR  ACTIVE"},
		{"tokens delete b", "revoked b"},
		{"keys issue --name b --tenant t", "id   b\nkey  pb-"},
		{"keys edit b --model m", "changed b: model=m"},
		{"keys remove b", "revoked b"},
	} {
		code, stdout, stderr := runFor(t, append(strings.Fields(c.args), "--data-dir", dir)...)
		if code != exitOK || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: %d %s%s", c.args, code, stdout, stderr)
		}
	}
	for args, want := range map[string]string{
		"tokens edit b --role VIEWER": "revoked", "tokens edit c --role VIEWER": "does not exist", "tokens edit b": "nothing to change",
		"tokens edit b --role king": "--role",
	} {
		if code, stdout, stderr := runFor(t, append(strings.Fields(args), "--data-dir", dir)...); code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s%s", args, code, stdout, stderr)
		}
	}
}

// TestTokensAreChangedAtOnce takes a role away while the gateway runs.
func TestTokensAreChangedAtOnce(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	as := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	const tokens = "/api/auth/tokens"
	made := gatewaytest.DataOf[newCredential](t, r.API("POST", tokens, `{"name":"boss","role":"ADMIN"}`, as("admin-token")...).Is(t, 201)).Token
	r.API("PUT", tokens+"/boss?dryRun=true", `{"role":"VIEWER"}`, as("admin-token")...).Is(t, 200, `"dryRun":true`)
	r.API("PUT", tokens+"/boss", `{"expiresAt":"2036-01-01T00:00:00Z"}`, as(made)...).Is(t, 200, `"role":"ADMIN"`)
	for body, want := range map[string]string{
		`{"role":"KING"}`: "role", `{"expiresAt":"2001-01-01T00:00:00Z"}`: "expiresAt", `{"name":"x"}`: "name",
	} {
		r.API("PUT", tokens+"/boss", body, as(made)...).Is(t, 400, want)
	}
	r.API("PUT", tokens+"/a", `{"role":"VIEWER"}`, as(made)...).Is(t, 400, "configuration file")
	r.API("PUT", tokens+"/boss", `{"role":"VIEWER"}`, as("operator-token")...).Is(t, 403)
	r.API("PUT", tokens+"/boss", `{"role":"VIEWER"}`, as(made)...).Is(t, 200, `"expiresAt":"2036-01-01T00:00:00Z"`)
	r.API("GET", tokens, "", as(made)...).Is(t, 403)
	gatewaytest.Start(t, "").API("PUT", tokens+"/boss", `{"role":"ADMIN"}`).Is(t, 403, "security")
}
