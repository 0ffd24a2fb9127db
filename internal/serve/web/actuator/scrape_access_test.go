package actuator_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// securedMetrics is SecuredYAML with a value of security.metrics.
func securedMetrics(value string) string {
	return strings.Replace(gatewaytest.SecuredYAML(), "{enabled: true,", "{enabled: true, metrics: "+value+",", 1)
}

func TestMetricsForBearersOfATokenOnly(t *testing.T) {
	t.Parallel()
	closed, open := gatewaytest.Start(t, securedMetrics("token")), gatewaytest.Start(t, securedMetrics("OPEN"))
	unsecured := gatewaytest.Start(t, "security: {metrics: token}\n")
	for _, path := range []string{"/actuator/prometheus", "/metrics"} {
		for _, test := range []struct {
			name    string
			r       *gatewaytest.Gateway
			headers []string
			want    int
		}{
			{"nobody", closed, nil, 401},
			{"a wrong token", closed, []string{"Authorization", "Bearer wrong"}, 401},
			{"VIEWER", closed, []string{"Authorization", "Bearer viewer-token"}, 200},
			{"ADMIN", closed, []string{"Authorization", "Bearer admin-token"}, 200},
			{"a page of another site", closed, []string{"Authorization", "Bearer viewer-token", "Sec-Fetch-Site", "cross-site"}, 403},
			{"nobody, open", open, nil, 200},
			{"a page of another site, open", open, []string{"Sec-Fetch-Site", "cross-site"}, 200},
			{"nobody, without security", unsecured, nil, 200},
			{"a page of another site, without security", unsecured, []string{"Origin", "https://page.example"}, 200},
		} {
			got := test.r.Do(http.MethodGet, path, "", test.headers...)
			if got.Status != test.want || strings.Contains(got.Body, "process_cpu_seconds_total") != (test.want == 200) {
				t.Errorf("%s, %s: %d, want %d", path, test.name, got.Status, test.want)
			}
		}
	}
	closed.Do(http.MethodGet, "/actuator/health/readiness", "").Succeeds(t)
	closed.Do(http.MethodGet, "/actuator/info", "").Succeeds(t)
}

func TestOpenMetricsAreWarnedOf(t *testing.T) {
	t.Parallel()
	for yaml, warned := range map[string]bool{
		"": false, "security: {metrics: token}\n": false, gatewaytest.SecuredYAML(): true, securedMetrics("open"): true, securedMetrics("token"): false,
	} {
		if logged := gatewaytest.Start(t, yaml).Logs.String(); strings.Contains(logged, "security.metrics: token") != warned {
			t.Errorf("%s: %s", yaml, logged)
		}
	}
}
