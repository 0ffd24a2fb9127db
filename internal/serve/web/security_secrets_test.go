package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// Who may not see the key of a backend can neither read it nor have the gateway
// send it to a place of their own, whatever they write.
func TestOperatorsCannotHaveAKeyTheyMayNotSeeSentElsewhere(t *testing.T) {
	t.Parallel()
	const key, header, home = "sk-the-stored-key", "a-secret-header", "http://127.0.0.1:9"
	trap := gatewaytest.StartBackend(t)
	there := trap.URL()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", home, "api-key: "+key, `headers: {X-H: `+header+`}`), gatewaytest.Instance("f", home, "forward-authorization: true"))+gatewaytest.SecuredYAML())
	operator := []string{"Authorization", "Bearer operator-token"}
	write := func(method, path, body string, args ...any) gatewaytest.ManagementReply {
		return r.API(method, path, fmt.Sprintf(body, args...), operator...)
	}
	ask := func(model string) {
		r.Do(http.MethodPost, "/v1/chat/completions", fmt.Sprintf(`{"model":%q,%s}`, model, gatewaytest.SomeMessages), "Authorization", "Bearer the-key-of-a-caller")
	}

	// The two halves of an identifier are not what they were.
	write("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@%s","instance":{"name":"m@%s/p"}}`, home, there).Is(t, 200)
	for _, more := range []string{"", `,"headers":{"X-H":"****ader"}`, `,"apiKey":"****-key"`, `,"apiKey":null`} {
		for _, method := range []string{"PUT", "POST"} {
			write(method, gatewaytest.TypesPath+"chat", `{"instances":[{"name":"m","baseUrl":"%s/p@%s"%s}]}`, there, home, more).Is(t, 400, "instances[0].")
		}
	}
	write("POST", gatewaytest.AddInstancePath+"chat", `{"name":"m","baseUrl":"%s/p@%s"}`, there, home).Is(t, 400, "baseUrl")
	write("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@%s/p@%s","instance":{"name":"m"}}`, there, home).Is(t, 200)

	// A list, an update, another service type, another scheme, another port.
	write("PUT", gatewaytest.TypesPath+"chat", `{"instances":[{"name":"m","baseUrl":"%s","apiKey":"****-key"}]}`, there).Is(t, 400, "instances[0].apiKey")
	write("PUT", gatewaytest.TypesPath+"chat", `{"instances":[{"name":"m","baseUrl":"%s","headers":{"X-H":"****ader"}}]}`, there).Is(t, 400, "instances[0].headers")
	write("POST", gatewaytest.TypesPath+"tts", `{"instances":[{"name":"m","baseUrl":"%s","apiKey":"****-key"}]}`, home).Is(t, 400, "instances[0].apiKey")
	for _, address := range []string{there, "https://127.0.0.1:9", "http://127.0.0.1", "http://localhost:9", "HTTP://127.0.0.1:09" + "0"} {
		write("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@%s","instance":{"baseUrl":"%s"}}`, home, address).Is(t, 400, "instance.apiKey")
		write("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@%s","instance":{"baseUrl":"%s","apiKey":"mine"}}`, home, address).Is(t, 400, "instance.headers")
		write("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@%s","instance":{"baseUrl":"%s","apiKey":"mine","headers":{"X-H":"****ader"}}}`, home, address).Is(t, 400, "instance.headers")
	}
	for _, path := range []string{there, "@127.0.0.1", "\\\\\\\\h"} {
		write("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@%s","instance":{"path":"%s"}}`, home, path).Is(t, 400, "instance.path")
	}

	// The keys of callers are no more theirs than those of backends.
	write("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@%s","instance":{"forwardAuthorization":true}}`, home).Is(t, 400, "instance.forwardAuthorization")
	write("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"f@%s","instance":{"baseUrl":"%s"}}`, home, there).Is(t, 400, "instance.forwardAuthorization")
	write("POST", gatewaytest.AddInstancePath+"chat", `{"name":"m","baseUrl":"%s","forwardAuthorization":true}`, there).Is(t, 400, "forwardAuthorization")
	write("PUT", gatewaytest.TypesPath+"chat", `{"instances":[{"name":"m","baseUrl":"%s","forward-authorization":true}]}`, there).Is(t, 400, "instances[0].forwardAuthorization")

	// What is theirs to do still works.
	write("PUT", gatewaytest.TypesPath+"chat", "%s", r.API("GET", gatewaytest.TypesPath+"chat", "", operator...).Data).Is(t, 200, "Nothing changed")
	write("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"f@%s","instance":{"weight":2,"baseUrl":"%s/sub"}}`, home, home).Is(t, 200)
	write("POST", gatewaytest.AddInstancePath+"chat", `{"name":"own","baseUrl":"%s","apiKey":"own-key-of-mine"}`, there).Is(t, 201)
	for _, model := range []string{"m", "f", "own"} {
		ask(model)
	}
	write("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@%s","instance":{"baseUrl":"%s","apiKey":"mine","headers":{}}}`, home, there).Is(t, 200)
	ask("m")
	write("POST", gatewaytest.VersionsPath+"/apply/1", "").Is(t, 200)
	write("POST", gatewaytest.VersionsPath+"/rollback/4", "").Is(t, 200)
	ask("m")

	var seen strings.Builder
	for _, request := range trap.Requests() {
		fmt.Fprint(&seen, request.Header)
	}
	gatewaytest.ContainsNone(t, seen.String(), key, header, "the-key-of-a-caller")
	for _, path := range []string{gatewaytest.VersionsPath + "/1", gatewaytest.VersionsPath + "/2", gatewaytest.VersionsPath + "/diff?from=1&to=4", gatewaytest.VersionsPath + "/diff?from=4&to=1", gatewaytest.VersionsPath + "?details=true", "/api/config/type"} {
		gatewaytest.ContainsNone(t, r.API("GET", path, "", operator...).Is(t, 200).Body, key, header)
	}
	gatewaytest.ContainsNone(t, r.Do("GET", "/actuator/env", "", operator...).Body+r.Logs.String(), key, header, "the-key-of-a-caller")
}

func TestAdministratorsMayMoveKeysAndForwardThoseOfCallers(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL, "api-key: sk-the-stored-key"))+gatewaytest.SecuredYAML())
	admin := []string{"Authorization", "Bearer admin-token"}
	r.API("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@`+simulator.DownURL+`","instance":{"baseUrl":"http://10.0.0.1","forwardAuthorization":true}}`, admin...).Is(t, 200)
	r.API("GET", gatewaytest.InstancesPath+"chat", "", admin...).Is(t, 200, `"apiKey":"sk-the-stored-key"`, `"forwardAuthorization":true`)
}
