package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// What has no versions does not even read If-Match.
func TestIfMatchIsNotReadWhereNothingHasVersions(t *testing.T) {
	r := startGateway(t, chatYAML(instance("m", simulator.DownURL)))
	for _, tag := range []string{"first", `"abc"`, "0", `"77"`} {
		r.api("POST", "/api/auth/keys?dryRun", `{"id":"k"}`, "If-Match", tag).is(t, 200)
		r.api("POST", "/api/config/merge/backup?dryRun", "", "If-Match", tag).is(t, 200)
		r.api("POST", "/api/config/instance/circuit-breaker/chat", `{"instanceId":"m@`+simulator.DownURL+`","state":"AUTO"}`, "If-Match", tag).is(t, 200)
		r.api("PUT", "/api/config/quota?dryRun", `{"failOpen":false}`, "If-Match", tag).is(t, 200)
	}
}

func TestIfMatchTakesSeveralVersions(t *testing.T) {
	r := startGateway(t, chatYAML(instance("m", simulator.DownURL)))
	for tag, want := range map[string]int{
		`"1", "14"`: 200, `"14","1"`: 200, "14, 1": 200, `W/"1" , "2"`: 200, `"1",`: 200, "*": 200, " * ": 200, "": 200,
		`"2", "14"`: 409, "2,3": 409, `"1", "abc"`: 400, `"1", *`: 400, `"1" "2"`: 400,
	} {
		if answer := r.do("PUT", types+"chat?dryRun", `{"loadBalancer":"random"}`, "If-Match", tag); answer.status != want {
			t.Errorf("%s: %d %s, want %d", tag, answer.status, answer.body, want)
		}
	}
	r.api("PUT", types+"chat", `{"loadBalancer":"random"}`, "If-Match", "2, 3").is(t, 409, "version 1 is current, not 2 3")
}

// A dry run is never taken for a change: it is one, or it is refused.
func TestDryRunsOfMonitoringAndLoggersAreRefused(t *testing.T) {
	r := startGateway(t, "")
	writes := map[string]string{
		"PUT /api/monitoring/config/enabled": `{"enabled":false}`, "PUT /api/monitoring/config/prefix": `{"prefix":"other"}`,
		"PUT /api/monitoring/config/collection-interval": `{"interval":"PT77S"}`, "PUT /api/monitoring/config/categories": `{"categories":[]}`,
		"PUT /api/monitoring/config/custom-tags": `{"customTags":{"a":"b"}}`, "POST /api/monitoring/errors/reset": `{"component":"a","operation":"b"}`,
		"POST /api/monitoring/degradation/level": `{"level":"DISABLED"}`, "POST /api/monitoring/degradation/auto-mode": `{"enabled":false}`,
		"POST /api/monitoring/degradation/force-recovery": "", "POST /api/monitoring/cache/clear": "",
		"POST /api/monitoring/circuit-breaker/force-open": "", "POST /api/monitoring/circuit-breaker/force-close": "",
		"POST /actuator/loggers/some": `{"configuredLevel":"DEBUG"}`,
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
		text := r.do("GET", "/api/monitoring/config", "").body + r.do("GET", "/api/monitoring/overview", "").body
		return text + r.do("GET", "/actuator/loggers/some", "").body
	}
	before := state()
	for route, body := range writes {
		method, path, _ := strings.Cut(route, " ")
		for _, query := range []string{"?dryRun=true", "?dryRun", "?DryRun=1", "?dryrun=perhaps", "?dryRun=false&DRYRUN=true"} {
			if answer := r.do(method, path+query, body); answer.status != 400 || !strings.Contains(answer.body, "dryRun") {
				t.Errorf("%s%s: %d %s", route, query, answer.status, answer.body)
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("%s became %s", before, after)
	}
	for route, body := range writes {
		method, path, _ := strings.Cut(route, " ")
		if answer := r.do(method, path+"?dryRun=false", body); answer.status/100 != 2 {
			t.Errorf("%s: %d %s", route, answer.status, answer.body)
		}
	}
}

func TestDryRunIsReadInAnyCase(t *testing.T) {
	r := startGateway(t, chatYAML(instance("m", simulator.DownURL)))
	for _, query := range []string{"dryrun=true", "DryRun=true", "DRYRUN", "dryRun=false&dryrun=true", "dryRun=true&dryRun=false"} {
		r.api("PUT", types+"chat?"+query, `{"loadBalancer":"random"}`).is(t, 200, `"dryRun":true`)
	}
	r.api("PUT", types+"chat?dryrun=perhaps", `{"loadBalancer":"random"}`).is(t, 400, "dryRun")
	if r.Control.Version() != 1 {
		t.Error("a dry run changed something")
	}
}

func TestHeadersStayInAListOfInstancesLikeTheKey(t *testing.T) {
	const home, key, secret = "http://127.0.0.1:9", "sk-the-stored-key", "the-header-12345"
	r := startGateway(t, chatYAML(instance("m", home, "api-key: "+key, "headers: {X-Key: "+secret+", X-B: other-5678}"))+securedYAML())
	operator, admin := []string{"Authorization", "Bearer operator-token"}, []string{"Authorization", "Bearer admin-token"}
	put := func(more string) answer {
		return r.api("PUT", types+"chat", `{"instances":[{"name":"m","baseUrl":"`+home+`"`+more+`}]}`, operator...)
	}
	stored := func(wanted ...string) {
		t.Helper()
		r.api("GET", types+"chat", "", admin...).is(t, 200, wanted...)
	}
	for _, more := range []string{`,"weight":2`, `,"weight":3,"headers":null`} {
		put(more).is(t, 200, `"changed":true`)
		stored(`"apiKey":"`+key+`"`, `"X-Key":"`+secret+`"`, `"X-B":"other-5678"`)
	}
	put(`,"headers":{"x-key":"****2345"}`).is(t, 200)
	stored(`"headers":{"x-key":"` + secret + `"}`)
	put(`,"headers":{"x-other":"****2345"}`).is(t, 400, `headers[\"x-other\"]`)
	put(`,"headers":{}`).is(t, 200)
	stored(`"headers":{}`, `"apiKey":"`+key+`"`)
}

func TestAVersionThatCannotBeIsNamedAsItWasAsked(t *testing.T) {
	r := startGateway(t, "")
	for _, number := range []string{"-1", "0", "99999999999999999999"} {
		r.api("GET", vers+"/"+number, "").is(t, 404, "there is no such version: "+number)
		r.api("DELETE", vers+"/"+number, "").is(t, 404, "there is no such version: "+number)
	}
}
