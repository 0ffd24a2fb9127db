package manage_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// The description of the API lists If-Match for those operations that obey it.
func TestIfMatchIsObeyedWhereItIsDescribed(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name string `json:"name"`
			} `json:"parameters"`
			Responses map[string]any `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal([]byte(r.Do("GET", "/openapi.json", "").Succeeds(t).Body), &document); err != nil {
		t.Fatal(err)
	}
	obeyed := 0
	for path, item := range document.Paths {
		for method, operation := range item {
			if !strings.HasPrefix(path, "/api/") || method == "get" {
				continue
			}
			described, hasDryRun := false, false
			for _, parameter := range operation.Parameters {
				described, hasDryRun = described || parameter.Name == "If-Match", hasDryRun || parameter.Name == "dryRun"
			}
			if _, conflicts := operation.Responses["409"]; conflicts != described {
				t.Errorf("%s %s: If-Match %t, but 409 %t", method, path, described, conflicts)
			}
			filled := strings.NewReplacer("{serviceType}", "chat", "{version}", "1", "{id}", "nobody").Replace(path)
			answer := r.Do(strings.ToUpper(method), filled+"?dryRun=true", "{}", "If-Match", "77")
			if described != (answer.Status == 409) {
				t.Errorf("%s %s: If-Match described %t, answered %d %s", method, path, described, answer.Status, answer.Body)
			}
			if hasDryRun && answer.Status == 400 && strings.Contains(answer.Body, "dryRun") {
				t.Errorf("%s %s: dryRun is described, answered %d %s", method, path, answer.Status, answer.Body)
			}
			if described {
				obeyed++
			}
		}
	}
	if obeyed < 10 || r.Control.Version() != 1 {
		t.Errorf("%d operations obey, version %d", obeyed, r.Control.Version())
	}
}

// A body is decoded before the configuration is locked and looked at, so that
// what is wrong with it is told first.
func TestABodyThatDoesNotDecodeIsReportedFirst(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
	for _, row := range []struct{ method, path, good, bad string }{
		{"POST", "/api/config/type/services/chat", `{"loadBalancer":"random"}`, `{"loadBalancer":7}`},
		{"PUT", "/api/config/type/services/chat", `{"loadBalancer":"random"}`, `{"loadBalancers":"random"}`},
		{"PUT", "/api/config/type/services/rerank", `{"loadBalancer":"random"}`, `{"loadBalancer":`},
		{"POST", "/api/config/instance/add/chat", `{"name":"n","baseUrl":"http://127.0.0.1:9"}`, `{"name":[]}`},
		{"PUT", "/api/config/instance/update/chat", `{"instanceId":"none@none","instance":{}}`, `{"instanceId":"none@none","instance":7}`},
	} {
		if answer := r.Do(row.method, row.path, row.bad, "If-Match", "77"); answer.Status != 400 {
			t.Errorf("%s %s %s, If-Match of another version: %d %s", row.method, row.path, row.bad, answer.Status, answer.Body)
		}
		if answer := r.Do(row.method, row.path, row.good, "If-Match", "77"); answer.Status != 409 {
			t.Errorf("%s %s %s, If-Match of another version: %d %s", row.method, row.path, row.good, answer.Status, answer.Body)
		}
	}
	for _, row := range []struct{ path, good, bad string }{
		{"/api/config/instance/update/rerank", `{"instanceId":"none@none","instance":{}}`, `{"instanceId":"none@none","instance":7}`},
		{"/api/config/instance/update/chat", `{"instanceId":"none@none","instance":{}}`, `{"instanceId":[]}`},
	} {
		if answer := r.Do("PUT", row.path, row.bad); answer.Status != 400 {
			t.Errorf("PUT %s %s: %d %s", row.path, row.bad, answer.Status, answer.Body)
		}
		if answer := r.Do("PUT", row.path, row.good); answer.Status != 404 {
			t.Errorf("PUT %s %s: %d %s", row.path, row.good, answer.Status, answer.Body)
		}
	}
	if r.Control.Version() != 1 {
		t.Errorf("version %d", r.Control.Version())
	}
}

func TestDryRunOfTheQuotaLedgerChangesNothing(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	before := r.API("GET", "/api/config/quota", "").Is(t, 200, `"enabled":false`).Body
	r.API("PUT", "/api/config/quota?dryRun=true", `{"enabled":true,"failOpen":false,"windows":["DAY"]}`).
		Is(t, 200, "Dry run", `"enabled":true`, `"failOpen":false`, `"windows":["DAY"]`)
	if answer := r.Do("PUT", "/api/config/quota?dryRun=perhaps", `{"enabled":true}`); answer.Status != 400 || !strings.Contains(answer.Body, "dryRun") {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	if after := r.API("GET", "/api/config/quota", "").Body; after != before {
		t.Errorf("%s became %s", before, after)
	}
	if gatewaytest.CountLines(r.Logs.String(), `"logger":"audit"`, `"dry_run":true`, "quota: enabled true") != 1 {
		t.Error("the audit log does not call it a dry run")
	}
}
