package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func as(token string) []string { return []string{"Authorization", "Bearer " + token} }

// Operators change the cache of answers, administrators everything, and viewers read with masks.
func TestWhoMayChangeSettings(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answercache", "callsearch", "alerts")
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	bodies := map[string]string{
		"answer-cache": `{"services":["embedding"]}`, "calls-file": `{"enabled":true}`,
		"alerts": `{"webhooks":{"ops":{"url":"http://127.0.0.1:1/hook?key=secret-of-a-hook"}}}`,
	}
	for section, body := range bodies {
		path := "/api/config/" + section
		for token, want := range map[string]int{"viewer-token": 403, "operator-token": 403, "admin-token": 200} {
			if token == "operator-token" && section == "answer-cache" {
				want = 200
			}
			r.API("PUT", path+"?dryRun=true", body, as(token)...).Is(t, want)
			if got := r.API("GET", path, "", as(token)...).Is(t, 200); strings.Contains(got.Body, "secret-of") {
				t.Errorf("%s sees %s", token, got.Body)
			}
		}
		if got := r.API("PUT", path, body, as("admin-token")...).Is(t, 200); strings.Contains(got.Body, "(none)→(none)") {
			t.Errorf("a change tells what stays: %s", got.Body)
		}
		r.API("PUT", path, body, as("admin-token")...).Is(t, 200, "Nothing changed")
	}
	for _, token := range []string{"viewer-token", "operator-token", "admin-token"} {
		r.API("GET", "/api/config/alerts", "", as(token)...).Is(t, 200, `"url":"****hook"`)
	}
	for token, want := range map[string]int{"viewer-token": 403, "operator-token": 403, "admin-token": 404} {
		r.API("POST", "/api/config/alerts/test", `{"webhook":"none"}`, as(token)...).Is(t, want)
	}
}

// What is wrong is refused with the place in the body, and changes nothing.
func TestSettingsThatCannotBeSet(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answercache", "callsearch", "alerts")
	r := gatewaytest.Start(t, "")
	for _, wrong := range []struct{ section, body, part string }{
		{"answer-cache", `{"ttl":"0s"}`, "ttl"},
		{"answer-cache", `{"services":["tts"]}`, "services[0]"},
		{"answer-cache", `{"folder":"/tmp"}`, "folder"},
		{"calls-file", `{"days":0}`, "days"},
		{"calls-file", `{"folder":"/etc"}`, "folder"},
		{"alerts", `{"quiet":"1s"}`, "quiet"},
		{"alerts", `{"webhooks":{"ops":{}}}`, `webhooks[\"ops\"].url`},
		{"alerts", `{"webhooks":{"ops":{"url":"****abcd"}}}`, "mask"},
		{"alerts", `{"webhooks":{"ops":{"url":"file:///etc/passwd"}}}`, "http"},
		{"alerts", `{"webhooks":{"ops":{"url":"http://user:pw@a.example/"}}}`, "user"},
		{"alerts", `{"webhooks":{"ops":{"url":"http://169.254.169.254/latest"}}}`, "url"},
		{"alerts", `{"webhooks":{"o p":{"url":"http://a.example/"}}}`, "letters"},
		{"alerts", `{"webhooks":{"ops":{"url":"http://a.example/","format":"mail"}}}`, "teams"},
		{"alerts", `{"webhooks":{"ops":{"url":"http://a.example/","kinds":["noise"]}}}`, "breaker"},
	} {
		r.API("PUT", "/api/config/"+wrong.section, wrong.body).Is(t, 400, wrong.part)
	}
	if r.Control.Version() != 1 {
		t.Errorf("version %d", r.Control.Version())
	}
}

// A section that was set by management and the file hold together; the later edit of the file wins
// at the same place, also where it was made while the gateway was stopped. A section that nobody
// set is that of the file.
func TestSettingsAndTheFileHoldTogether(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answercache", "callsearch", "alerts")
	const before = "answer-cache: { ttl: 10m, max-answer: 2MiB }\nmonitoring: { calls-file: { days: 3 } }\n" +
		"alerts: { webhooks: { file: { url: \"http://127.0.0.1:1/file\" } } }\n"
	const after = "answer-cache: { ttl: 20m, max-answer: 2MiB }\nmonitoring: { calls-file: { days: 4 } }\n" +
		"alerts: { webhooks: { file: { url: \"http://127.0.0.1:1/other\" } } }\n"
	for name, isStopped := range map[string]bool{"while it runs": false, "while it is stopped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: before, DataDir: dir})
			r.API("PUT", "/api/config/answer-cache", `{"ttl":"30m","services":["rerank"],"maxBytes":"32MiB"}`).Is(t, 200)
			r.API("PUT", "/api/config/alerts", `{"webhooks":{"file":{"format":"teams"},"own":{"url":"http://127.0.0.1:1/own"}}}`).Is(t, 200)
			if isStopped {
				r.Halt()
				r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: after, DataDir: dir})
			} else {
				r.ReloadWith(after)
			}
			r.API("GET", "/api/config/answer-cache", "").Is(t, 200, `"ttl":1200000`, `"services":["rerank"]`, `"maxAnswer":"2MiB"`, `"maxBytes":"32MiB"`)
			r.API("GET", "/api/config/calls-file", "").Is(t, 200, `"days":4`)
			r.API("GET", "/api/config/alerts", "").Is(t, 200, `"file":{"url":"****ther","format":"teams"`, `"own":{"url":"****`) //nolint:misspell // the end of a masked address
			r.API("GET", "/api/answer-cache", "").Is(t, 200, `"enabled":true`)
			if r.Control.Version() != 4 {
				t.Errorf("version %d", r.Control.Version())
			}
			r.API("GET", "/api/config/version/4", "").Is(t, 200, "the configuration file changed", `"answerCache"`)
			r.API("POST", "/api/config/type/reset", "").Is(t, 200)
			r.API("GET", "/api/config/alerts", "").Is(t, 200, `"webhooks":{"file":{"url":"****ther","format":"json"`) //nolint:misspell // the end of a masked address
			r.API("GET", "/api/config/answer-cache", "").Is(t, 200, `"services":[]`)
		})
	}
}

// Versions have the sections: they are compared, applied and rolled back. Whoever may not change a
// section keeps it.
func TestRollbacksKeepWhatTheirAuthorMayNotChange(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answercache", "callsearch", "alerts")
	dir := t.TempDir()
	yaml := gatewaytest.SecuredYAML()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	admin, operator := as("admin-token"), as("operator-token")
	r.API("PUT", "/api/config/answer-cache", `{"services":["embedding"]}`, operator...).Is(t, 200) // 2
	r.API("PUT", "/api/config/alerts", `{"webhooks":{"ops":{"url":"http://127.0.0.1:1/hook-secret"}}}`, admin...).Is(t, 200)
	r.API("PUT", "/api/config/calls-file", `{"enabled":true}`, admin...).Is(t, 200) // 4
	diff := r.API("GET", "/api/config/version/diff?from=1", "", operator...).Is(t, 200, `"service":"answerCache"`, `"field":"webhooks.ops.url"`, `"service":"callsFile"`)
	if strings.Contains(diff.Body, "hook-secret") || strings.Contains(diff.Body, "cret\"") {
		t.Errorf("the difference shows a secret: %s", diff.Body)
	}
	for i, path := range []string{"/api/config/version/rollback/1", "/api/config/version/apply/2", "/api/config/type/reset"} {
		r.API("POST", path, "", operator...).Is(t, 200, fmt.Sprintf(`"version":%d`, 5+i))
		r.API("GET", "/api/config/alerts", "", admin...).Is(t, 200, `"ops":{"url":"****cret"`)
		r.API("GET", "/api/config/calls-file", "", admin...).Is(t, 200, `"enabled":true`)
		r.API("GET", "/api/config/answer-cache", "", admin...).Is(t, 200, map[bool]string{true: `"services":["embedding"]`, false: `"services":[]`}[i == 1])
	}
	// What differs only in such sections leaves nothing to apply.
	r.API("POST", "/api/config/version/apply/1", "", operator...).Is(t, 200, `"changed":false`, `"version":7`, "Nothing changed")
	r.Halt() // the version in force has all of it
	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	r.API("GET", "/api/config/alerts", "", admin...).Is(t, 200, `"ops":{"url":"****cret"`)
	r.API("POST", "/api/config/version/rollback/1", "", admin...).Is(t, 200, `"version":1`)
	r.API("GET", "/api/config/alerts", "", admin...).Is(t, 200, `"webhooks":{}`)
	r.API("GET", "/api/config/calls-file", "", admin...).Is(t, 200, `"enabled":false`)
	r.API("POST", "/api/config/version/rollback/3", "", admin...).Is(t, 200, `"version":3`)
	r.API("GET", "/api/config/alerts", "", admin...).Is(t, 200, `"ops":{"url":"****cret"`)
}

// The address of a webhook is a secret: no reply, log, scrape or page of the actuator shows it, and
// with a master key no file has it. A mask that is sent back keeps it.
func TestAddressesOfWebhooksAreNeverShown(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "alerts")
	got := make(chan string, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.RequestURI() }))
	defer receiver.Close()
	dir := t.TempDir()
	const secret, other = "very-secret-path", "secret-of-the-file"
	yaml := "security: { master-key: \"0123456789012345678901234567890123456789\" }\n" +
		"alerts: { webhooks: { file: { url: \"${HOOK}\" } } }\n"
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir, Env: []string{"HOOK=" + receiver.URL + "/" + other}})
	r.API("PUT", "/api/config/alerts", `{"webhooks":{"file":{},"own":{"url":"`+receiver.URL+`/`+secret+`?sig=abcdefgh"}}}`).Is(t, 200)
	r.API("PUT", "/api/config/alerts", `{"webhooks":{"file":{"url":"****"},"own":{"url":"****efgh","format":"slack"}},"quiet":"5m"}`).Is(t, 200)
	for name, want := range map[string]string{"own": "/" + secret + "?sig=abcdefgh", "file": "/" + other} {
		r.API("POST", "/api/config/alerts/test", `{"webhook":"`+name+`"}`).Is(t, 200, `"delivered":true`)
		if uri := <-got; uri != want {
			t.Errorf("%s is posted to %s", name, uri)
		}
	}
	shown := []string{r.Logs.String()}
	for _, path := range []string{
		"/api/config/alerts", "/api/alerts", "/api/config/version/2", "/api/config/version/3", "/api/config/version/diff?from=1",
		"/api/config/version?details=true", "/actuator/env", "/actuator/prometheus", "/actuator/health/detailed", "/api/config/backup", "/api/config/type",
	} {
		shown = append(shown, r.Do("GET", path, "").Body)
	}
	for number := 1; number <= 3; number++ {
		content, err := os.ReadFile(gatewaytest.VersionFile(dir, number))
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, string(content))
	}
	for _, text := range shown {
		if strings.Contains(text, secret) || strings.Contains(text, other) || strings.Contains(text, "abcdefgh") {
			t.Errorf("an address is shown: %s", text)
		}
	}
	r.Halt() // what is encrypted and signed is read again
	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir, Env: []string{"HOOK=" + receiver.URL + "/" + other}})
	r.API("POST", "/api/config/alerts/test", `{"webhook":"own"}`).Is(t, 200, `"delivered":true`)
	if uri := <-got; !strings.Contains(uri, secret) {
		t.Errorf("after a restart it is posted to %s", uri)
	}
}

// A webhook is told of an open breaker and of a spent budget at once when it is set, and the page
// of alerts says so.
func TestWebhooksAreTold(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "alerts")
	got := make(chan string, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	defer receiver.Close()
	backend := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services: { chat: { circuit-breaker: { failure-threshold: 1 }, instances: ["+
		"{ name: good, base-url: \""+backend.URL()+"\" }, { name: bad, base-url: \""+simulator.DownURL+"\" } ] } }\n"+
		fmt.Sprintf("security: { enabled: true, tokens: [{ name: a, role: ADMIN, token-sha256: %s }], keys: [{ id: k, key-sha256: %s, "+
			"budgets: { day: { requests: 2 } } }] }\n", gatewaytest.HashOf("admin-token"), gatewaytest.HashOf("sk-of-a-key")))
	const chat = `{"model":"%s","messages":[{"role":"user","content":"hi"}]}`
	r.Chat(fmt.Sprintf(chat, "good"), as("sk-of-a-key")...).Succeeds(t)
	r.Chat(fmt.Sprintf(chat, "bad"), as("sk-of-a-key")...)
	r.Chat(fmt.Sprintf(chat, "good"), as("sk-of-a-key")...).Succeeds(t)
	r.API("PUT", "/api/config/alerts", `{"webhooks":{"ops":{"url":"`+receiver.URL+`/"}}}`, as("admin-token")...).Is(t, 200)
	for range 2 {
		body := <-got
		if !strings.Contains(body, `"text":"key k has used 100 % of its budget of requests (day)"`) &&
			!strings.Contains(body, `"subject":"chat/bad@`) || !strings.Contains(body, `"severity":"critical"`) {
			t.Errorf("got %s", body)
		}
	}
	r.API("GET", "/api/alerts", "", as("admin-token")...).Is(t, 200, `"subject":"key/k/requests/day"`, `"kind":"breaker"`, `"sent":true`, `"name":"ops"`)
}

// Somebody who can write the data directory chooses neither where alerts go nor where a secret of
// the file goes.
func TestSectionsOfUntrustedVersionsAreNotUsed(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "alerts")
	const file = "alerts: { webhooks: { file: { url: \"${HOOK}\" } } }\n"
	env := []string{"HOOK=http://127.0.0.1:1/secret-of-the-file"}
	for name, attack := range map[string]struct{ yaml, from, to string }{
		"with a fault":           {file, `"quiet": 300000`, `"quiet": 1`},
		"with another use of it": {file, `"reference": "${HOOK}"`, `"reference": "http://127.0.0.1:2/?${HOOK}"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			setup := gatewaytest.Setup{YAML: attack.yaml, DataDir: dir, Env: env}
			r := gatewaytest.StartWith(t, setup)
			r.API("PUT", "/api/config/alerts", `{"quiet":"5m"}`).Is(t, 200)
			r.Halt()
			r = gatewaytest.StartWith(t, setup)
			r.API("GET", "/api/config/alerts", "").Is(t, 200, `"quiet":300000`)
			r.Halt()
			path := gatewaytest.VersionFile(dir, 2)
			content, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(content), attack.from) {
				t.Fatalf("%v: %s", err, content)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(content), attack.from, attack.to, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			r = gatewaytest.StartWith(t, setup)
			r.API("GET", "/api/config/alerts", "").Is(t, 200, `"quiet":900000`, `"webhooks":{"file":{"url":"****"`)
			r.API("GET", "/api/config/version/2", "").Is(t, 200)
		})
	}
}
