package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// The audit trail cannot be silenced, by whomever and by whichever way; the
// access log by administrators only.
func TestTheAuditTrailHasNoLevel(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	set := func(token, name, body string, want int) {
		t.Helper()
		got := r.Do(http.MethodPost, "/actuator/loggers/"+name, body, "Authorization", "Bearer "+token)
		if got.Status != want {
			t.Errorf("%s sets %s to %s: %d %s", token, name, body, got.Status, got.Body)
		}
	}
	audited := func() int { return gatewaytest.CountLines(r.Logs.String(), `"logger":"audit"`) }
	written := 0
	for _, token := range []string{"admin-token", "operator-token"} {
		for _, name := range []string{"audit", "AUDIT", "Audit"} {
			for _, body := range []string{`{"configuredLevel":"OFF"}`, `{"configuredLevel":"ERROR"}`, `{"configuredLevel":"TRACE"}`, `{"configuredLevel":null}`} {
				set(token, name, body, 400)
				written++
			}
		}
	}
	off := `{"configuredLevel":"OFF"}`
	set("operator-token", "access", off, 403)
	set("operator-token", "access.deeper", off, 403)
	set("operator-token", "ROOT", off, 204)
	set("operator-token", "other", off, 204)
	level := func(name string) string {
		got := r.Do(http.MethodGet, "/actuator/loggers/"+name, "", "Authorization", "Bearer viewer-token")
		return gatewaytest.DecodeObject(t, got.Body)["effectiveLevel"].(string)
	}
	if level("ROOT") != "OFF" || level("access") != "DEBUG" || level("audit") != "INFO" {
		t.Errorf("an operator set ROOT to OFF: ROOT %s, access %s, audit %s", level("ROOT"), level("access"), level("audit"))
	}
	set("admin-token", "access", off, 204)
	set("admin-token", "access", `{"configuredLevel":null}`, 204)
	if level("access") != "OFF" { // inherited, as an administrator wants
		t.Errorf("access is %s", level("access"))
	}
	r.Do(http.MethodPost, "/api/config/type/reset", "", "Authorization", "Bearer admin-token").Succeeds(t)
	gatewaytest.Eventually(t, "every change has its line", func() bool { return audited() == written+7 })
	if !strings.Contains(r.Logs.String(), `"what":"POST /api/config/type/reset"`) {
		t.Error("a change while ROOT is OFF left no line")
	}
}
