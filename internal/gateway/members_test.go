package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// TestABackendGetsTheMembersOfItsInstance sends requests by doors that are passed on and doors
// that are translated. Two instances of one server differ in nothing but such members.
func TestABackendGetsTheMembersOfItsInstance(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(
		gatewaytest.Instance("m", b.URL()),
		gatewaytest.Instance("m:think", b.URL(), "upstream-model: m", `body: '{"chat_template_kwargs": {"enable_thinking": true}, "temperature": null, "top_k": 20}'`),
	))
	last := func() string {
		for _, request := range slices.Backward(b.Requests()) {
			if request.Method == http.MethodPost {
				return string(request.Body)
			}
		}
		return ""
	}
	const members = `"chat_template_kwargs":{"enable_thinking": true}`
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"MODEL","temperature":0.5,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/completions":      `{"model":"MODEL","temperature":0.5,"prompt":"hi"}`,
		"/v1/messages":         `{"model":"MODEL","temperature":0.5,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/responses":        `{"model":"MODEL","temperature":0.5,"input":"hi"}`,
	} {
		r.Do(http.MethodPost, path, strings.Replace(body, "MODEL", "m:think", 1)).Succeeds(t)
		if got := last(); !strings.Contains(got, members) || !strings.Contains(got, `"top_k":20`) || strings.Contains(got, "temperature") || !strings.Contains(got, `"model":"m"`) {
			t.Errorf("%s: the backend got %s", path, got)
		}
		r.Do(http.MethodPost, path, strings.Replace(body, "MODEL", "m", 1)).Succeeds(t)
		if got := last(); strings.Contains(got, "chat_template_kwargs") || !strings.Contains(got, `"temperature":0.5`) {
			t.Errorf("%s: without members the backend got %s", path, got)
		}
	}
	bad := `{"name":"x","baseUrl":"http://127.0.0.1:1","body":"{\"model\": \"other\"}"}`
	if got := r.Do(http.MethodPost, "/api/config/instance/add/chat", bad); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "must not have model") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}
