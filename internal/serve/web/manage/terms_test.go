package manage_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// What has no versions does not even read If-Match.
func TestIfMatchIsNotReadWhereNothingHasVersions(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
	for _, tag := range []string{"first", `"abc"`, "0", `"77"`} {
		r.API("POST", "/api/auth/keys?dryRun", `{"id":"k"}`, "If-Match", tag).Is(t, 200)
		r.API("POST", "/api/config/merge/backup?dryRun", "", "If-Match", tag).Is(t, 200)
		r.API("POST", "/api/config/instance/circuit-breaker/chat", `{"instanceId":"m@`+simulator.DownURL+`","state":"AUTO"}`, "If-Match", tag).Is(t, 200)
		r.API("PUT", "/api/config/quota?dryRun", `{"failOpen":false}`, "If-Match", tag).Is(t, 200)
	}
}

func TestIfMatchTakesSeveralVersions(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
	for tag, want := range map[string]int{
		`"1", "14"`: 200, `"14","1"`: 200, "14, 1": 200, `W/"1" , "2"`: 200, `"1",`: 200, "*": 200, " * ": 200, "": 200, ",": 200, `,"1" ,`: 200,
		`"2", "14"`: 409, "2,3": 409, `"1", "abc"`: 400, `"1", *`: 400, `"1" "2"`: 400, `"1`: 400, `W/1`: 400, "+1": 400, "01": 400, "-1": 400, "0": 400,
	} {
		if answer := r.Do("PUT", gatewaytest.TypesPath+"chat?dryRun", `{"loadBalancer":"random"}`, "If-Match", tag); answer.Status != want {
			t.Errorf("%s: %d %s, want %d", tag, answer.Status, answer.Body, want)
		}
	}
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`, "If-Match", "2, 3").Is(t, 409, "version 1 is current, not 2 3")
}

// A dry run is never taken for a change: it is one, or it is refused.
func TestDryRunsOfMonitoringAndLoggersAreRefused(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	writes := map[string]string{
		"PUT /api/monitoring/config/enabled": `{"enabled":false}`, "PUT /api/monitoring/config/prefix": `{"prefix":"other"}`,
		"PUT /api/monitoring/config/collection-interval": `{"interval":"PT77S"}`, "PUT /api/monitoring/config/categories": `{"categories":[]}`,
		"PUT /api/monitoring/config/custom-tags": `{"customTags":{"a":"b"}}`, "POST /api/monitoring/errors/reset": `{"component":"a","operation":"b"}`,
		"POST /api/monitoring/degradation/level": `{"level":"DISABLED"}`, "POST /api/monitoring/degradation/auto-mode": `{"enabled":false}`,
		"POST /api/monitoring/degradation/force-recovery": "", "POST /api/monitoring/cache/clear": "",
		"POST /api/monitoring/circuit-breaker/force-open": "", "POST /api/monitoring/circuit-breaker/force-close": "",
		"POST /actuator/loggers/some": `{"configuredLevel":"DEBUG"}`, "PUT /api/monitoring/config/capture": `{"capture":"headers"}`,
		"POST /api/monitoring/running/req_none/stop": "",
	}
	described := 0
	for _, route := range r.Routes {
		method, path, _ := strings.Cut(route.Pattern, " ")
		if method != http.MethodGet && (strings.HasPrefix(path, "/api/monitoring/") || strings.HasPrefix(path, "/actuator/")) {
			described++
		}
	}
	if described != len(writes) {
		t.Errorf("%d writes are tried, there are %d", len(writes), described)
	}
	state := func() string {
		text := r.Do("GET", "/api/monitoring/config", "").Body + r.Do("GET", "/api/monitoring/overview", "").Body
		return text + r.Do("GET", "/actuator/loggers/some", "").Body
	}
	before := state()
	for route, body := range writes {
		method, path, _ := strings.Cut(route, " ")
		for _, query := range []string{"?dryRun=true", "?dryRun", "?DryRun=1", "?dryrun=perhaps", "?dryRun=false&DRYRUN=true"} {
			if answer := r.Do(method, path+query, body); answer.Status != 400 || !strings.Contains(answer.Body, "dryRun") {
				t.Errorf("%s%s: %d %s", route, query, answer.Status, answer.Body)
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("%s became %s", before, after)
	}
	for route, body := range writes {
		method, path, _ := strings.Cut(route, " ")
		isThere := !strings.Contains(path, "req_none")
		if answer := r.Do(method, path+"?dryRun=false", body); (answer.Status/100 == 2) != isThere || !isThere && answer.Status != 404 {
			t.Errorf("%s: %d %s", route, answer.Status, answer.Body)
		}
	}
}

func TestDryRunIsReadInAnyCase(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
	for _, query := range []string{"dryrun=true", "DryRun=true", "DRYRUN", "dryRun=false&dryrun=true", "dryRun=true&dryRun=false"} {
		r.API("PUT", gatewaytest.TypesPath+"chat?"+query, `{"loadBalancer":"random"}`).Is(t, 200, `"dryRun":true`)
	}
	r.API("PUT", gatewaytest.TypesPath+"chat?dryrun=perhaps", `{"loadBalancer":"random"}`).Is(t, 400, "dryRun")
	if r.Control.Version() != 1 {
		t.Error("a dry run changed something")
	}
}

func TestHeadersStayInAListOfInstancesLikeTheKey(t *testing.T) {
	t.Parallel()
	const home, key, secret = "http://127.0.0.1:9", "sk-the-stored-key", "the-header-12345"
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", home, "api-key: "+key, "headers: {X-Key: "+secret+", X-B: other-5678}"))+gatewaytest.SecuredYAML())
	operator, admin := []string{"Authorization", "Bearer operator-token"}, []string{"Authorization", "Bearer admin-token"}
	put := func(more string) gatewaytest.ManagementReply {
		return r.API("PUT", gatewaytest.TypesPath+"chat", `{"instances":[{"name":"m","baseUrl":"`+home+`"`+more+`}]}`, operator...)
	}
	stored := func(wanted ...string) {
		t.Helper()
		r.API("GET", gatewaytest.TypesPath+"chat", "", admin...).Is(t, 200, wanted...)
	}
	for _, more := range []string{`,"weight":2`, `,"weight":3,"headers":null`} {
		put(more).Is(t, 200, `"changed":true`)
		stored(`"apiKey":"`+key+`"`, `"X-Key":"`+secret+`"`, `"X-B":"other-5678"`)
	}
	put(`,"headers":{"x-key":"****2345"}`).Is(t, 200)
	stored(`"headers":{"x-key":"` + secret + `"}`)
	put(`,"headers":{"x-other":"****2345"}`).Is(t, 400, `headers[\"x-other\"]`)
	put(`,"headers":{}`).Is(t, 200)
	stored(`"headers":{}`, `"apiKey":"`+key+`"`)
}

func TestAnImpossibleVersionNumberIsReportedUnchanged(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	for _, number := range []string{"-1", "0", "99999999999999999999"} {
		r.API("GET", gatewaytest.VersionsPath+"/"+number, "").Is(t, 404, "there is no such version: "+number)
		r.API("DELETE", gatewaytest.VersionsPath+"/"+number, "").Is(t, 404, "there is no such version: "+number)
	}
}
