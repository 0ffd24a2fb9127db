package manage_test

import (
	"testing"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// A name that is not UTF-8 is treated like any other unknown name.
func TestNamesThatAreNotUTF8AreNotFound(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
	for _, test := range []struct {
		method, path string
		status       int
	}{
		{"DELETE", "/api/auth/keys/%ff", 404}, {"GET", "/api/route/explain?service=chat&model=%ff", 200},
		{"GET", "/api/route/explain?service=%ff&model=m", 400}, {"GET", "/api/route/explain?service=chat&model=m&clientIp=%ff", 400},
		{"GET", gatewaytest.TypesPath + "%ff", 404}, {"DELETE", gatewaytest.TypesPath + "%ff", 404}, {"POST", gatewaytest.TypesPath + "%ff", 400}, {"GET", "/api/config/type/%ff/models", 404},
		{"GET", "/api/config/instance/info/chat?modelName=%ff&baseUrl=%fe", 404}, {"DELETE", "/api/config/instance/del/chat?modelName=%ff&baseUrl=%fe", 404},
		{"GET", gatewaytest.VersionsPath + "/%ff", 400}, {"GET", gatewaytest.VersionsPath + "/diff?from=%ff", 400}, {"POST", gatewaytest.VersionsPath + "/apply/%ff", 400}, {"GET", gatewaytest.VersionsPath + "?details=%ff", 400},
		{"GET", gatewaytest.VersionsPath + "?page=%ff", 400}, {"DELETE", "/api/auth/keys/a?dryRun=%ff", 400}, {"GET", "/api/%ff", 404}, {"PATCH", gatewaytest.TypesPath + "%ff", 405},
		{"GET", "/api/monitoring/quota/usage?tenantId=%ff&model=%fe", 200},
	} {
		a := r.API(test.method, test.path, "").Is(t, test.status)
		if !utf8.ValidString(a.Body) {
			t.Errorf("%s %s answers bytes that are no text: %q", test.method, test.path, a.Body)
		}
	}
	if body := r.Do("GET", "/api/monitoring/quota/usage?window=%ff", "").Body; !utf8.ValidString(body) {
		t.Errorf("%q", body)
	}
	if !utf8.ValidString(r.Logs.String()) {
		t.Error("the log has bytes that are no text")
	}
}

// A length of time that would be lost on the disk is refused, not rounded.
func TestManagementRefusesLengthsOfTimeThatCannotBeStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir})
	for field, body := range map[string]string{
		"circuitBreaker.recoveryTimeout": `{"circuitBreaker":{"recoveryTimeout":"500us"}}`,
		"healthCheck.timeout":            `{"healthCheck":{"timeout":"100us"}}`,
		"queue.timeout":                  `{"queue":{"timeout":"1ns"}}`,
		"rateLimit.warmUpPeriod":         `{"rateLimit":{"warmUpPeriod":"0.9ms"}}`,
		"instances[0].timeouts.total":    `{"instances":[{"name":"n","baseUrl":"http://10.0.0.1","timeouts":{"total":"1.0001s"}}]}`,
	} {
		r.API("PUT", gatewaytest.TypesPath+"chat", body).Is(t, 400, field, "whole number of milliseconds")
	}
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"circuitBreaker":{"recoveryTimeout":"2000us"},"queue":{"timeout":"0.5s"}}`).Is(t, 200, `"version":2`)
	r.Halt()
	r = gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir})
	r.API("GET", gatewaytest.TypesPath+"chat", "").Is(t, 200, `"recoveryTimeout":2,`, `"timeout":500`)
	r.API("GET", gatewaytest.VersionsPath+"/current", "").Is(t, 200, `"data":2`)
}

// A mask that was read and is sent back keeps the key, whatever the key is
// written in.
func TestMasksOfKeysInAnyScriptKeepTheKey(t *testing.T) {
	t.Parallel()
	const key = "schlüssel-für-日本語のキー"
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL, "api-key: "+key, "headers: {X-H: "+key+"}"))+gatewaytest.SecuredYAML())
	operator := []string{"Authorization", "Bearer operator-token"}
	whole := r.API("GET", gatewaytest.TypesPath+"chat", "", operator...).Is(t, 200, `"apiKey":"****語のキー"`, `"X-H":"****語のキー"`).Data
	r.API("PUT", gatewaytest.TypesPath+"chat", string(whole), operator...).Is(t, 200, "Nothing changed")
	r.API("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@`+simulator.DownURL+`","instance":{"apiKey":"****語のキー","weight":7}}`, operator...).Is(t, 200, `"changed":true`)
	r.API("GET", gatewaytest.InstancesPath+"chat", "", "Authorization", "Bearer admin-token").Is(t, 200, `"apiKey":"`+key+`"`, `"X-H":"`+key+`"`, `"weight":7`)
}

// An instance whose models are found has no name, and keeps its key as any other one when
// its service type is sent back as it was read, or with the key left out.
func TestInstancesThatFindTheirModelsKeepTheKey(t *testing.T) {
	t.Parallel()
	const key = "key-of-the-backend"
	yaml := "services: {chat: {instances: [{base-url: \"" + simulator.DownURL + "\", models: discover, api-key: " + key + "}]}}\n"
	r := gatewaytest.Start(t, yaml+gatewaytest.SecuredYAML())
	operator := []string{"Authorization", "Bearer operator-token"}
	whole := r.API("GET", gatewaytest.TypesPath+"chat", "", operator...).Is(t, 200, `"apiKey":"****kend"`).Data
	r.API("PUT", gatewaytest.TypesPath+"chat", string(whole), operator...).Is(t, 200, "Nothing changed")
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"instances":[{"baseUrl":"`+simulator.DownURL+`","models":["discover"],"weight":7}]}`, operator...).Is(t, 200, `"changed":true`)
	r.API("GET", gatewaytest.InstancesPath+"chat", "", "Authorization", "Bearer admin-token").Is(t, 200, `"apiKey":"`+key+`"`, `"weight":7`)
}
