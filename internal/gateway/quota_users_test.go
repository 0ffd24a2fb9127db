package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestUsageIsCountedByTheUserOfATrustedHeader(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.QuotaOn+fmt.Sprintf(`security:
  enabled: true
  tokens: [{name: admin, role: ADMIN, token-sha256: %s}]
  keys:
    - {id: webui, key-sha256: %s, user-header: X-OpenWebUI-User-Email}
    - {id: plain, key-sha256: %s}
`, access.HashOf("admin"), access.HashOf("webui"), access.HashOf("plain")))
	const header = "X-OpenWebUI-User-Email"
	byBob := strings.Replace(gatewaytest.PlainHi, `"model"`, `"user":"bob","model"`, 1)
	send := func(id, key, path, body string, headers ...string) gatewaytest.Reply {
		return r.Do(http.MethodPost, path, body, append([]string{"Authorization", "Bearer " + key, "X-Request-Id", id}, headers...)...)
	}
	const chat, messages = "/v1/chat/completions", "/v1/messages"
	send("both", "webui", chat, byBob, header, "ann@example.com").Succeeds(t)
	send("header", "webui", messages, `{"max_tokens":9,`+gatewaytest.PlainHi[1:], header, "ann@example.com").Succeeds(t)
	send("body", "webui", chat, byBob).Succeeds(t)
	send("empty", "webui", chat, byBob, header, "").Succeeds(t)
	send("none", "webui", chat, gatewaytest.PlainHi).Succeeds(t)
	long := strings.Repeat("x", 5000)
	send("long", "webui", chat, gatewaytest.PlainHi, header, long).Succeeds(t)
	send("untrusted", "plain", chat, byBob, header, "ann@example.com").Succeeds(t)

	for query, want := range map[string]int64{"": 7, "&userId=ann@example.com": 2, "&userId=bob": 3, "&userId=" + long: 1, "&userId=eve": 0} {
		requests, _ := gatewaytest.Counted(t, func() gatewaytest.Reply {
			return r.Do(http.MethodGet, gatewaytest.LongAgo+query, "", "Authorization", "Bearer admin")
		})
		if requests != want {
			t.Errorf("%.40s: %d requests, want %d", query, requests, want)
		}
	}
	for query, want := range map[string]string{"user=ann@example.com": "header both", "user=bob": "untrusted empty body", "q=EXAMPLE.COM": "header both"} {
		var ids []string
		list := r.Do(http.MethodGet, "/api/monitoring/calls?"+query, "", "Authorization", "Bearer admin").Succeeds(t)
		for _, call := range gatewaytest.At(t, gatewaytest.DecodeObject(t, list.Body), "calls").([]any) {
			ids = append(ids, call.(map[string]any)["requestId"].(string))
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, seen := range b.Requests() {
		if seen.Header.Get(header) != "" {
			t.Errorf("a backend was sent the header of the user")
		}
	}
}
