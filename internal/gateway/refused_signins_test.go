package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Somebody who tries management tokens is counted, and a webhook is told once.
func TestWrongManagementTokensAreTold(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "alerts")
	told := make(chan string, 64)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		told <- string(body)
	}))
	t.Cleanup(hook.Close)
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML()+"alerts: {webhooks: {ops: {url: '"+hook.URL+"', kinds: [sign-in]}}}\n")
	tried := 0
	gatewaytest.Eventually(t, "the webhook is told", func() bool {
		if reply := r.Do(http.MethodGet, "/api/alerts", "", as("guess")...); reply.Status != 401 && reply.Status != 429 {
			t.Fatalf("%d %s", reply.Status, reply.Body)
		}
		tried++
		return len(told) > 0
	})
	alert := <-told
	for _, part := range []string{`"kind":"sign-in"`, `"state":"firing"`, `"code":"alert.sign_in"`, `sign-ins to management were refused`} {
		if !strings.Contains(alert, part) {
			t.Errorf("the alert lacks %s: %s", part, alert)
		}
	}
	if strings.Contains(alert, "guess") {
		t.Errorf("the alert has the token: %s", alert)
	}
	r.API(http.MethodGet, "/api/alerts", "", as("admin-token")...).Is(t, 200, `"kind":"sign-in"`, `"sent":true`)
	counts := r.Do(http.MethodGet, "/actuator/prometheus", "", as("admin-token")...).Succeeds(t).Body
	if !strings.Contains(counts, `model_router_sign_ins_total{outcome="wrong_token"} `) || tried <= 20 {
		t.Errorf("after %d tries:\n%s", tried, linesWith(counts, "sign_ins"))
	}
	if len(told) != 0 {
		t.Errorf("it was told again: %s", <-told)
	}
}
