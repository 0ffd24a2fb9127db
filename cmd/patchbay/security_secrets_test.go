package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// Who may not see the key of a backend can neither read it nor have the gateway
// send it to a place of their own, whatever they write.
func TestOperatorsCannotHaveAKeyTheyMayNotSeeSentElsewhere(t *testing.T) {
	const key, header, home = "sk-the-stored-key", "a-secret-header", "http://127.0.0.1:9"
	trap := startBackend(t)
	there := trap.URL()
	r := startGateway(t, chatYAML(instance("m", home, "api-key: "+key, `headers: {X-H: `+header+`}`), instance("f", home, "forward-authorization: true"))+securedYAML())
	operator := []string{"Authorization", "Bearer operator-token"}
	write := func(method, path, body string, args ...any) answer {
		return r.api(method, path, fmt.Sprintf(body, args...), operator...)
	}
	ask := func(model string) {
		r.do(http.MethodPost, "/v1/chat/completions", fmt.Sprintf(`{"model":%q,%s}`, model, someMessages), "Authorization", "Bearer the-key-of-a-caller")
	}

	// The two halves of an identifier are not what they were.
	write("PUT", instUp+"chat", `{"instanceId":"m@%s","instance":{"name":"m@%s/p"}}`, home, there).is(t, 200)
	for _, more := range []string{"", `,"headers":{"X-H":"****ader"}`, `,"apiKey":"****-key"`, `,"apiKey":null`} {
		for _, method := range []string{"PUT", "POST"} {
			write(method, types+"chat", `{"instances":[{"name":"m","baseUrl":"%s/p@%s"%s}]}`, there, home, more).is(t, 400, "instances[0].")
		}
	}
	write("POST", instAdd+"chat", `{"name":"m","baseUrl":"%s/p@%s"}`, there, home).is(t, 400, "baseUrl")
	write("PUT", instUp+"chat", `{"instanceId":"m@%s/p@%s","instance":{"name":"m"}}`, there, home).is(t, 200)

	// A list, an update, another service type, another scheme, another port.
	write("PUT", types+"chat", `{"instances":[{"name":"m","baseUrl":"%s","apiKey":"****-key"}]}`, there).is(t, 400, "instances[0].apiKey")
	write("PUT", types+"chat", `{"instances":[{"name":"m","baseUrl":"%s","headers":{"X-H":"****ader"}}]}`, there).is(t, 400, "instances[0].headers")
	write("POST", types+"tts", `{"instances":[{"name":"m","baseUrl":"%s","apiKey":"****-key"}]}`, home).is(t, 400, "instances[0].apiKey")
	for _, address := range []string{there, "https://127.0.0.1:9", "http://127.0.0.1", "http://localhost:9", "HTTP://127.0.0.1:09" + "0"} {
		write("PUT", instUp+"chat", `{"instanceId":"m@%s","instance":{"baseUrl":"%s"}}`, home, address).is(t, 400, "instance.apiKey")
		write("PUT", instUp+"chat", `{"instanceId":"m@%s","instance":{"baseUrl":"%s","apiKey":"mine"}}`, home, address).is(t, 400, "instance.headers")
		write("PUT", instUp+"chat", `{"instanceId":"m@%s","instance":{"baseUrl":"%s","apiKey":"mine","headers":{"X-H":"****ader"}}}`, home, address).is(t, 400, "instance.headers")
	}
	for _, path := range []string{there, "@127.0.0.1", "\\\\\\\\h"} {
		write("PUT", instUp+"chat", `{"instanceId":"m@%s","instance":{"path":"%s"}}`, home, path).is(t, 400, "instance.path")
	}

	// The keys of callers are no more theirs than those of backends.
	write("PUT", instUp+"chat", `{"instanceId":"m@%s","instance":{"forwardAuthorization":true}}`, home).is(t, 400, "instance.forwardAuthorization")
	write("PUT", instUp+"chat", `{"instanceId":"f@%s","instance":{"baseUrl":"%s"}}`, home, there).is(t, 400, "instance.forwardAuthorization")
	write("POST", instAdd+"chat", `{"name":"m","baseUrl":"%s","forwardAuthorization":true}`, there).is(t, 400, "forwardAuthorization")
	write("PUT", types+"chat", `{"instances":[{"name":"m","baseUrl":"%s","forward-authorization":true}]}`, there).is(t, 400, "instances[0].forwardAuthorization")

	// What is theirs to do still works.
	write("PUT", types+"chat", "%s", r.api("GET", types+"chat", "", operator...).data).is(t, 200, "Nothing changed")
	write("PUT", instUp+"chat", `{"instanceId":"f@%s","instance":{"weight":2,"baseUrl":"%s/sub"}}`, home, home).is(t, 200)
	write("POST", instAdd+"chat", `{"name":"own","baseUrl":"%s","apiKey":"own-key-of-mine"}`, there).is(t, 201)
	for _, model := range []string{"m", "f", "own"} {
		ask(model)
	}
	write("PUT", instUp+"chat", `{"instanceId":"m@%s","instance":{"baseUrl":"%s","apiKey":"mine","headers":{}}}`, home, there).is(t, 200)
	ask("m")
	write("POST", vers+"/apply/1", "").is(t, 200)
	write("POST", vers+"/rollback/4", "").is(t, 200)
	ask("m")

	var seen strings.Builder
	for _, request := range trap.Requests() {
		fmt.Fprint(&seen, request.Header)
	}
	noneOf(t, seen.String(), key, header, "the-key-of-a-caller")
	for _, path := range []string{vers + "/1", vers + "/2", vers + "/diff?from=1&to=4", vers + "/diff?from=4&to=1", vers + "?details=true", "/api/config/type"} {
		noneOf(t, r.api("GET", path, "", operator...).is(t, 200).body, key, header)
	}
	noneOf(t, r.do("GET", "/actuator/env", "", operator...).body+r.logs.String(), key, header, "the-key-of-a-caller")
}

func TestAdministratorsMayMoveKeysAndForwardThoseOfCallers(t *testing.T) {
	r := startGateway(t, chatYAML(instance("m", simulator.DownURL, "api-key: sk-the-stored-key"))+securedYAML())
	admin := []string{"Authorization", "Bearer admin-token"}
	r.api("PUT", instUp+"chat", `{"instanceId":"m@`+simulator.DownURL+`","instance":{"baseUrl":"http://10.0.0.1","forwardAuthorization":true}}`, admin...).is(t, 200)
	r.api("GET", instList+"chat", "", admin...).is(t, 200, `"apiKey":"sk-the-stored-key"`, `"forwardAuthorization":true`)
}
