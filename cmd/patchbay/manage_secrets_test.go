package main

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

const instInfo = "/api/config/instance/info/"

const keyedYAML = "api-key: '${file:key}', headers: {X-Team: 'team ${TEAM:blue}'}"

// keyed starts the binary with a file whose secrets are references.
func keyed(t *testing.T, backend *simulator.Backend) (c *child, dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "patchbay.yaml")
	mustWrite(t, filepath.Join(dir, "key"), "sk-first-secret\n")
	mustWrite(t, file, chatYAML(instance("m", backend.URL(), keyedYAML)))
	return serving(t, "--config", file, "--data-dir", filepath.Join(dir, "data")), dir, file
}

// usedKey makes a call and returns the credential that the backend got.
func usedKey(t *testing.T, c *child, b *simulator.Backend) string {
	t.Helper()
	before := len(b.Requests())
	if answer := c.ask(http.MethodPost, "/v1/chat/completions", plainHi); answer.status != 200 {
		t.Fatalf("%d %s", answer.status, answer.body)
	}
	return b.Requests()[before].Header.Get("Authorization")
}

// A key that was rotated is used after SIGHUP and after a restart without a new
// version, a rollback uses it too, and no file of the gateway has either key.
func TestRotatedKeysTakeEffectAndAreNowhereStored(t *testing.T) {
	b := startBackend(t)
	c, dir, file := keyed(t, b)
	if got := usedKey(t, c, b); got != "Bearer sk-first-secret" {
		t.Errorf("sent: %s", got)
	}
	if answer := c.ask(http.MethodPost, instAdd+"tts", `{"name":"x","baseUrl":"http://127.0.0.1:1"}`); answer.status != 201 {
		t.Fatalf("%d %s", answer.status, answer.body)
	}
	mustWrite(t, filepath.Join(dir, "key"), "sk-second-secret\n")
	c.signal(syscall.SIGHUP)
	c.waitFor("secrets to which it refers changed and are in force")
	if got := usedKey(t, c, b); got != "Bearer sk-second-secret" {
		t.Errorf("sent after SIGHUP: %s", got)
	}
	if answer := c.ask(http.MethodPost, "/api/config/version/rollback/1", ""); answer.status != 200 {
		t.Fatalf("%d %s", answer.status, answer.body)
	}
	if got := usedKey(t, c, b); got != "Bearer sk-second-secret" {
		t.Errorf("sent after a rollback: %s", got)
	}
	c.ask(http.MethodPost, "/api/config/merge/backup", "")
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	mustWrite(t, filepath.Join(dir, "key"), "sk-third-secret\n")
	c = serving(t, "--config", file, "--data-dir", filepath.Join(dir, "data"))
	if got := usedKey(t, c, b); got != "Bearer sk-third-secret" {
		t.Errorf("sent after a restart: %s", got)
	}
	if answer := c.ask(http.MethodGet, "/api/config/version", ""); !strings.Contains(answer.body, `"data":[1,2]`) {
		t.Errorf("versions: %s", answer.body)
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

// ADMIN reads a reference as it was written, others a mask. What was read may be
// sent back; any other text is a literal.
func TestReferencesInTheManagementAPI(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, chatYAML(instance("m", b.URL(), "api-key: '${NO_SUCH_VARIABLE:sk-default}'"))+securedYAML())
	if document := r.do("GET", "/openapi.json", "").succeeds(t).body; !strings.Contains(document, `"apiKey":{"type":"string"}`) {
		t.Error("the document does not say that a key is a text")
	}
	admin, operator := []string{"Authorization", "Bearer admin-token"}, []string{"Authorization", "Bearer operator-token"}
	const shown = `"apiKey":"${NO_SUCH_VARIABLE:sk-default}"`
	whole := r.api("GET", types+"chat", "", admin...).is(t, 200, shown, `"references":["apiKey"]`).data
	r.api("PUT", types+"chat", string(whole), admin...).is(t, 200, "Nothing changed")
	masked := r.api("GET", types+"chat", "", operator...).is(t, 200, `"apiKey":"****"`)
	if strings.Contains(masked.body, "sk-default") {
		t.Errorf("an operator sees %s", masked.body)
	}
	r.api("PUT", types+"chat", string(masked.data), operator...).is(t, 200, "Nothing changed")
	id := `{"instanceId":"m@` + b.URL() + `","instance":`
	r.api("PUT", instUp+"chat", id+`{"apiKey":"${NO_SUCH_VARIABLE:sk-default}","weight":2}}`, admin...).is(t, 200)
	r.api("GET", instInfo+"chat?modelName=m&baseUrl="+b.URL(), "", admin...).is(t, 200, shown, `"references":["apiKey"]`)
	r.api("PUT", instUp+"chat", id+`{"baseUrl":"http://127.0.0.2:1","apiKey":"${NO_SUCH_VARIABLE:sk-default}"}}`, operator...).is(t, 400, "must be given again")

	r.api("PUT", instUp+"chat", id+`{"apiKey":"${file:/etc/hostname}"}}`, operator...).is(t, 200)
	literal := r.api("GET", instInfo+"chat?modelName=m&baseUrl="+b.URL(), "", admin...).is(t, 200, `"apiKey":"${file:/etc/hostname}"`)
	if strings.Contains(literal.body, "references") {
		t.Errorf("text of the API became a reference: %s", literal.body)
	}
	r.chat(plainHi).succeeds(t)
	if got := onlyRequest(t, b).Header.Get("Authorization"); got != "Bearer ${file:/etc/hostname}" {
		t.Errorf("sent: %s", got)
	}
}

// An instance whose secret is missing on a gateway is out there, which operators
// are told; callers are told that it is.
func TestAMissingSecretIsSaidWhereOperatorsLook(t *testing.T) {
	b := startBackend(t)
	c, dir, _ := keyed(t, b)
	if err := os.Rename(filepath.Join(dir, "key"), filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	c.ask(http.MethodPost, instAdd+"tts", `{"name":"x","baseUrl":"http://127.0.0.1:1"}`) // any change compiles anew
	const reason = "api-key: cannot read the file"
	for _, path := range []string{
		"/api/route/explain?service=chat&model=m", instInfo + "chat?modelName=m&baseUrl=" + b.URL(), "/actuator/health/detailed", "/api/monitoring/instances",
	} {
		if answer := c.ask(http.MethodGet, path, ""); !strings.Contains(answer.body, reason) {
			t.Errorf("%s does not say it: %s", path, answer.body)
		}
	}
	answer := c.ask(http.MethodPost, "/v1/chat/completions", plainHi)
	if answer.status != 503 || strings.Contains(answer.body, dir) || !strings.Contains(answer.body, "a secret of the instance cannot be used on this gateway") {
		t.Errorf("%d %s", answer.status, answer.body)
	}
	c.waitFor("an instance is out on this gateway")
}

// Reads show the adapter that is in force; sending it back does not fix it.
func TestInheritedAdaptersAreShown(t *testing.T) {
	r := startGateway(t, "services: {chat: {adapter: vllm, instances: [{name: m, base-url: 'http://127.0.0.1:1'}]}}\n")
	info := r.api("GET", instInfo+"chat?modelName=m&baseUrl=http://127.0.0.1:1", "").is(t, 200, `"adapter":"vllm"`)
	r.api("GET", instList+"chat", "").is(t, 200, `"adapter":"vllm"`)
	r.api("GET", vers+"/1", "").is(t, 200, `"adapter":"vllm"`)
	whole := r.api("GET", types+"chat", "").is(t, 200).data
	r.api("PUT", types+"chat", string(whole)).is(t, 200, "Nothing changed")
	r.api("PUT", instUp+"chat", `{"instanceId":"m@http://127.0.0.1:1","instance":`+string(info.data)+`}`).is(t, 200, "Nothing changed")
	r.api("PUT", types+"chat", `{"adapter":"ollama"}`).is(t, 200)
	r.api("GET", instList+"chat", "").is(t, 200, `"adapter":"ollama"`)
	r.api("PUT", instUp+"chat", `{"instanceId":"m@http://127.0.0.1:1","instance":{"adapter":"vllm"}}`).is(t, 200, `"changed":true`)
	r.api("GET", instList+"chat", "").is(t, 200, `"adapter":"vllm"`)
}

// What would make every request fail is refused when it is saved.
func TestInstancesThatCannotBeCalledAreNotSaved(t *testing.T) {
	r := startGateway(t, "")
	for _, header := range []string{"Accept-Encoding", "connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Host", "Content-Length", "content-encoding", "Expect"} {
		r.api("POST", instAdd+"chat", `{"name":"m","baseUrl":"http://127.0.0.1:1","headers":{"`+header+`":"x"}}`).is(t, 400, header, "the gateway itself decides")
	}
	r.api("POST", instAdd+"chat", `{"name":"m","baseUrl":"http://127.0.0.1:1","path":"/größe"}`).is(t, 400, "path: must be ASCII")
	r.api("POST", instAdd+"chat", `{"name":"*","baseUrl":"http://127.0.0.1:1"}`).is(t, 400, "name: must not be *")
	r.api("PUT", types+"chat", `{"instances":[{"name":"m","baseUrl":"http://127.0.0.1:1","path":"/é"}]}`).is(t, 400, "instances[0].path")
	r.api("GET", vers+"/current", "").is(t, 200, `"data":1`)
}
