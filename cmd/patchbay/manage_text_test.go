package main

import (
	"testing"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// Bytes that are no text are a name like any other that nobody has.
func TestManagementAnswersBytesThatAreNoText(t *testing.T) {
	r := startGateway(t, chatYAML(instance("m", simulator.DownURL)))
	for _, test := range []struct {
		method, path string
		status       int
	}{
		{"DELETE", "/api/auth/keys/%ff", 404}, {"GET", "/api/route/explain?service=chat&model=%ff", 200},
		{"GET", "/api/route/explain?service=%ff&model=m", 400}, {"GET", "/api/route/explain?service=chat&model=m&clientIp=%ff", 400},
		{"GET", types + "%ff", 404}, {"DELETE", types + "%ff", 404}, {"POST", types + "%ff", 400}, {"GET", "/api/config/type/%ff/models", 404},
		{"GET", "/api/config/instance/info/chat?modelName=%ff&baseUrl=%fe", 404}, {"DELETE", "/api/config/instance/del/chat?modelName=%ff&baseUrl=%fe", 404},
		{"GET", vers + "/%ff", 400}, {"GET", vers + "/diff?from=%ff", 400}, {"POST", vers + "/apply/%ff", 400}, {"GET", vers + "?details=%ff", 400},
		{"GET", vers + "?page=%ff", 400}, {"DELETE", "/api/auth/keys/a?dryRun=%ff", 400}, {"GET", "/api/%ff", 404}, {"PATCH", types + "%ff", 405},
		{"GET", "/api/monitoring/quota/usage?tenantId=%ff&model=%fe", 200},
	} {
		a := r.api(test.method, test.path, "").is(t, test.status)
		if !utf8.ValidString(a.body) {
			t.Errorf("%s %s answers bytes that are no text: %q", test.method, test.path, a.body)
		}
	}
	if body := r.do("GET", "/api/monitoring/quota/usage?window=%ff", "").body; !utf8.ValidString(body) {
		t.Errorf("%q", body)
	}
	if !utf8.ValidString(r.logs.String()) {
		t.Error("the log has bytes that are no text")
	}
}

// A length of time that would be lost on the disk is refused, not rounded.
func TestManagementRefusesLengthsOfTimeThatCannotBeStored(t *testing.T) {
	dir := t.TempDir()
	r := startWith(t, setup{dataDir: dir})
	for field, body := range map[string]string{
		"circuitBreaker.recoveryTimeout": `{"circuitBreaker":{"recoveryTimeout":"500us"}}`,
		"healthCheck.timeout":            `{"healthCheck":{"timeout":"100us"}}`,
		"queue.timeout":                  `{"queue":{"timeout":"1ns"}}`,
		"rateLimit.warmUpPeriod":         `{"rateLimit":{"warmUpPeriod":"0.9ms"}}`,
		"instances[0].timeouts.total":    `{"instances":[{"name":"n","baseUrl":"http://10.0.0.1","timeouts":{"total":"1.0001s"}}]}`,
	} {
		r.api("PUT", types+"chat", body).is(t, 400, field, "whole number of milliseconds")
	}
	r.api("PUT", types+"chat", `{"circuitBreaker":{"recoveryTimeout":"2000us"},"queue":{"timeout":"0.5s"}}`).is(t, 200, `"version":2`)
	r.halt()
	r = startWith(t, setup{dataDir: dir})
	r.api("GET", types+"chat", "").is(t, 200, `"recoveryTimeout":2,`, `"timeout":500`)
	r.api("GET", vers+"/current", "").is(t, 200, `"data":2`)
}

// A mask that was read and is sent back keeps the key, whatever the key is
// written in.
func TestMasksOfKeysInAnyScriptKeepTheKey(t *testing.T) {
	const key = "schlüssel-für-日本語のキー"
	r := startGateway(t, chatYAML(instance("m", simulator.DownURL, "api-key: "+key, "headers: {X-H: "+key+"}"))+securedYAML())
	operator := []string{"Authorization", "Bearer operator-token"}
	whole := r.api("GET", types+"chat", "", operator...).is(t, 200, `"apiKey":"****語のキー"`, `"X-H":"****語のキー"`).data
	r.api("PUT", types+"chat", string(whole), operator...).is(t, 200, "Nothing changed")
	r.api("PUT", instUp+"chat", `{"instanceId":"m@`+simulator.DownURL+`","instance":{"apiKey":"****語のキー","weight":7}}`, operator...).is(t, 200, `"changed":true`)
	r.api("GET", instList+"chat", "", "Authorization", "Bearer admin-token").is(t, 200, `"apiKey":"`+key+`"`, `"X-H":"`+key+`"`, `"weight":7`)
}
