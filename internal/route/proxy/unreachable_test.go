package proxy_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// Why a backend cannot be reached is said in the reply, the access log, the call
// record and the detailed health, always by the same word; callers see no address.
func TestWhyABackendCannotBeReached(t *testing.T) {
	t.Parallel()
	unknown := httptest.NewUnstartedServer(http.NotFoundHandler())
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknown.StartTLS()
	t.Cleanup(unknown.Close)
	for _, c := range []struct{ url, cause, reason string }{
		{simulator.DownURL, "connection_refused", "connection refused"},
		{unknown.URL, "unknown_authority", "its certificate is signed by an unknown authority"},
	} {
		t.Run(c.cause, func(t *testing.T) {
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 50ms, unhealthy-threshold: 1000000}", gatewaytest.Instance("m", c.url)))
			said := r.Chat(gatewaytest.PlainHi)
			fault := said.FailsWith(t, 502, "api_error", "upstream_error", "")
			if fault.Message != "The backend could not be reached: "+c.reason+"." ||
				!strings.Contains(string(fault.Details), `"cause":"`+c.cause+`"`) || !strings.Contains(string(fault.Details), `"reason":"`+c.reason+`"`) {
				t.Errorf("the reply is %s", said.Body)
			}
			host := strings.TrimPrefix(strings.TrimPrefix(c.url, "https://"), "http://")
			gatewaytest.ContainsNone(t, said.Body, host)
			gatewaytest.Eventually(t, "the access log has its line", func() bool {
				return gatewaytest.CountLines(r.Logs.String(), `"logger":"access"`, `"cause":"`+c.cause+`"`, `"error_code":"upstream_error"`) == 1
			})
			if calls := r.Do("GET", "/api/monitoring/calls", "").Body; !strings.Contains(calls, `"errorCode":"upstream_error","cause":"`+c.cause+`"`) {
				t.Errorf("the record is %s", calls)
			}
			r.ChangeChat(func(s *config.Service) { s.HealthCheck.UnhealthyThreshold = 1 })
			gatewaytest.Eventually(t, "the checks have confirmed it", r.Instances("m")[0].Health.Out)
			gatewaytest.Eventually(t, "the detailed health says so", func() bool {
				return strings.Contains(r.Do("GET", "/actuator/health/detailed", "").Body, `"error":"unhealthy: `+c.reason+`","cause":"`+c.cause+`"`)
			})
			said = r.Chat(gatewaytest.PlainHi)
			fault = said.FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
			if !strings.Contains(string(fault.Details), `"reason":"unhealthy: `+c.reason+`","cause":"`+c.cause+`"`) {
				t.Errorf("the refusal is %s", said.Body)
			}
			gatewaytest.ContainsNone(t, said.Body, host)
		})
	}
}
