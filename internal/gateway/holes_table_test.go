package gateway_test

import (
	"strings"
)

// holes are the published holes of other gateways and similar programs, each with payloads as
// their reports have them, for the interface of this gateway. docs/holes.md lists the same.
// trap is an address of the attacker and host that of the gateway.
func holes(trap, host string) map[string][]attack {
	chat := func(member string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + member + `}`
	}
	refused, bad, missing := []int{401}, []int{400}, []int{404}
	kept := []int{200, 400} // the backend of the configuration answered, or nobody did
	found := map[string][]attack{
		"LiteLLM CVE-2026-42208": each([]string{
			"Bearer ' OR '1'='1", "Bearer sk-x' UNION SELECT api_key FROM litellm_verificationtoken--", "Bearer x'; DROP TABLE keys; --",
			"Bearer sk-x'||(SELECT pg_sleep(5))||'", "Bearer %27%20OR%201%3D1--",
		}, func(payload string) attack {
			return attack{request: "POST /v1/chat/completions", headers: []string{"Authorization", payload}, body: chat(""), want: refused}
		}),
		"LiteLLM CVE-2024-5225": each([]string{
			"/api/monitoring/calls?q=%27%20UNION%20SELECT%20*%20FROM%20keys--", "/api/monitoring/calls?key=k%27%20OR%201=1--",
			"/api/monitoring/spend?from=2026-01-01%27;DROP%20TABLE%20x--", "/api/monitoring/quota/usage?tenant=%27%20OR%20%271%27=%271",
		}, func(payload string) attack {
			return attack{as: "viewer", request: "GET " + payload, want: []int{200, 400, 403, 404, 503}}
		}),
		"LiteLLM CVE-2026-59822": each([]string{
			"Bearer x", "Bearer ", "Bearer null", "Bearer undefined", "bearer", "Basic eDp4", "Bearer  " + callerKey[:5],
		}, func(payload string) attack {
			return attack{request: "POST /v1/chat/completions", headers: []string{"Authorization", payload}, body: chat(""), want: refused}
		}),
		"LiteLLM CVE-2026-49468": each([]string{
			host + "/#@attacker.example", host + "/v1/models?", host + "/docs#", "x/actuator/health?", "attacker.example", host + "@attacker.example",
		}, func(payload string) attack {
			return attack{request: "POST /api/auth/keys", headers: []string{"Host", payload}, body: `{"id":"mine"}`, want: []int{400, 401, 403}}
		}),
		"Authentication by path": each([]string{
			"//api/auth/keys", "/v1/../api/auth/keys", "/v1/%2e%2e/api/auth/keys", "/docs/..%2fapi/auth/keys", "/API/auth/keys",
			"/api/auth/keys;/docs", "/api/auth/keys%00", "/api/auth/keys/", "/actuator/health/..;/env", "/actuator/health/%2e%2e/env",
			"/api%2fauth%2fkeys", "/./api/auth/keys", "/api/auth/keys?/docs", "/api\\auth\\keys", "http://" + host + "/api/auth/keys",
		}, func(payload string) attack {
			return attack{request: "GET " + payload, want: []int{301, 307, 308, 400, 401, 403, 404}}
		}),
		"Headers that rename a request": each([]string{
			"X-Original-URL: /docs", "X-Rewrite-URL: /docs", "X-HTTP-Method-Override: OPTIONS", "X-Forwarded-For: 127.0.0.1",
			"X-Forwarded-Host: localhost", "X-Forwarded-Prefix: /docs", "X-Real-IP: 127.0.0.1", "Forwarded: for=127.0.0.1;host=localhost",
			"X-Middleware-Subrequest: middleware", "X-Remote-User: admin", "X-Auth-Request-User: admin",
		}, func(payload string) attack {
			name, value, _ := strings.Cut(payload, ": ")
			return attack{request: "POST /api/auth/tokens", headers: []string{name, value}, body: `{"name":"x","role":"ADMIN"}`, want: refused}
		}),
		"LiteLLM CVE-2024-6587": each([]string{
			`,"api_base":"` + trap + `"`, `,"base_url":"` + trap + `"`, `,"extra_body":{"api_base":"` + trap + `"}`,
			`,"user_config":{"model_list":[{"model_name":"m","litellm_params":{"api_base":"` + trap + `"}}]}`,
			`,"metadata":{"api_base":"` + trap + `"}`, `,"custom_llm_provider":"` + trap + `"`,
		}, func(payload string) attack {
			return attack{as: "caller", request: "POST /v1/chat/completions", body: chat(payload), want: kept}
		}),
		"Portkey CVE-2025-66405": each([]string{
			"x-portkey-custom-host", "x-portkey-config", "x-custom-host", "helicone-target-url", "x-upstream-url", "x-forwarded-host",
		}, func(payload string) attack {
			return attack{as: "caller", request: "POST /v1/chat/completions", headers: []string{payload, trap}, body: chat(""), want: []int{200}}
		}),
		"new-api CVE-2025-59146, CVE-2025-62155, CVE-2026-42339; Bifrost GHSA-w98g-5w9p-p3rc": each([]string{
			trap + "/a.png", "http://0.0.0.0:80/a.png", "http://169.254.169.254/latest/meta-data/", "http://[64:ff9b::a9fe:a9fe]/", "file:///etc/passwd",
		}, func(payload string) attack {
			return attack{as: "caller", request: "POST /v1/chat/completions", want: bad, body: `{"model":"o","messages":[{"role":"user","content":[` +
				`{"type":"image_url","image_url":{"url":"` + payload + `"}}]}]}`}
		}),
		"SSRF by an instance": each([]string{
			"http://169.254.169.254/latest", "http://metadata.google.internal", "http://[fe80::1]", "http://2852039166", "http://0xa9fea9fe",
			"http://[::ffff:169.254.169.254]", "file:///etc/passwd", "gopher://127.0.0.1:6379/_x", "http://user:pass@127.0.0.1", "http://100.100.100.200",
		}, func(payload string) attack {
			return attack{as: "operator", request: "POST /api/config/instance/add/chat", body: `{"name":"x","baseUrl":"` + payload + `"}`, want: bad}
		}),
		"LiteLLM CVE-2024-2952, CVE-2026-42203": each([]string{
			`{{7*7}}`, `{% for c in ().__class__.__base__.__subclasses__() %}{{c}}{% endfor %}`, `${BACKEND_KEY}`, `${file:/etc/passwd}`,
			`${jndi:ldap://127.0.0.1/a}`, `os.environ/BACKEND_KEY`, `$(cat /etc/passwd)`,
		}, func(payload string) attack {
			return attack{as: "caller", request: "POST /v1/chat/completions", want: kept,
				body: `{"model":"m","chat_template":"` + payload + `","messages":[{"role":"user","content":"` + payload + `"}]}`}
		}),
		"LiteLLM CVE-2026-42271, CVE-2024-6825": {
			{as: "operator", request: "POST /mcp-rest/test/connection", body: `{"transport":"stdio","command":"sh","args":["-c","id"]}`, want: missing},
			{as: "operator", request: "POST /api/config/instance/add/chat", body: `{"name":"x","process":"p","command":["sh","-c","id"]}`, want: bad},
			{as: "operator", request: "POST /api/config/instance/add/chat", body: `{"name":"x","process":"p"}`, want: bad},
			{as: "admin", request: "PUT /api/config/type/services/chat", body: `{"post_call_rules":"os.system","processes":{"x":{"command":["id"]}}}`, want: bad},
		},
		"LiteLLM CVE-2025-0628, CVE-2026-47101, CVE-2026-47102": {
			{as: "caller", request: "GET /api/auth/keys", want: refused},
			{as: "caller", request: "POST /api/auth/tokens", body: `{"name":"x","role":"ADMIN"}`, want: refused},
			{as: "viewer", request: "POST /api/auth/tokens", body: `{"name":"x","role":"ADMIN"}`, want: []int{403}},
			{as: "operator", request: "POST /api/auth/tokens", body: `{"name":"x","role":"ADMIN"}`, want: []int{403}},
			{as: "viewer", request: "POST /api/config/instance/add/chat", body: `{"name":"x","baseUrl":"http://127.0.0.1:1"}`, want: []int{403}},
			{as: "admin", request: "POST /api/auth/keys", body: `{"id":"x","role":"ADMIN"}`, want: bad},
			{as: "admin", request: "PUT /api/auth/keys/k", body: `{"isAdmin":true}`, want: bad},
			{as: "caller", request: "POST /v1/chat/completions", headers: []string{"Authorization", "Bearer viewer-token"}, body: chat(""), want: refused},
		},
		"Prototype pollution": each([]string{
			`{"__proto__":{"role":"ADMIN"},"id":"x"}`, `{"constructor":{"prototype":{"role":"ADMIN"}},"id":"x"}`, `{"id":"x","ID":"y"}`, `{"id":"x","id":"y"}`,
		}, func(payload string) attack {
			return attack{as: "admin", request: "POST /api/auth/keys", body: payload, want: bad}
		}),
	}
	for name, attacks := range holesOfHTTP(host) {
		found[name] = attacks
	}
	return found
}

// holesOfHTTP are holes in how requests, files and credentials are read.
func holesOfHTTP(host string) map[string][]attack {
	const hi = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + callerKey + "\r\n"
	inner := "GET /api/auth/keys HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer admin-token\r\n\r\n"
	form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; " +
		"filename=\"../../../../keys.json\"\r\n\r\nRIFF\r\n--b--\r\n"
	return map[string][]attack{
		"LiteLLM CVE-2024-4888, issue 21266": append(each([]string{
			"/docs/../../../../etc/passwd", "/docs/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/docs/..%2f..%2f..%2fetc%2fpasswd", "/assets/..%5c..%5cetc%5cpasswd",
			"/v1/files/..%2f..%2fkeys.json/content", "/v1/files/%2e%2e%2fkeys.json", "/v1/models/..%2f..%2fapi%2fauth%2fkeys",
			"/actuator/loggers/..%2f..%2f..%2fetc%2fpasswd",
		}, func(payload string) attack {
			return attack{as: "caller", request: "GET " + payload, want: []int{301, 307, 308, 400, 401, 403, 404}}
		}), attack{as: "caller", request: "POST /v1/audio/transcriptions", headers: []string{"Content-Type", "multipart/form-data; boundary=b"},
			body: form, want: []int{400, 503}}),
		"Request smuggling": each([]string{
			head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
			head + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n" + inner,
			head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
			head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + inner,
			head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + inner,
			head + "X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
			head + "Content-Length: +0\r\n\r\n" + inner,
			head + "X: a\x00b\r\nContent-Length: 0\r\n\r\n" + inner,
		}, func(payload string) attack { return attack{raw: payload, want: []int{400, 501}} }),
		"Log injection": append(each([]string{
			`m\n{\"msg\":\"forged\"}`, `m\u0000`, `m\u001b[2J`, `m\r\nlevel=error`,
		}, func(payload string) attack {
			return attack{as: "caller", request: "POST /v1/chat/completions", want: []int{400, 503},
				body: `{"model":"` + payload + `","messages":[{"role":"user","content":"hi"}]}`}
		}), each([]string{`x"} {"msg":"forged"}`, "%0a%7b%22msg%22:%22forged%22%7d", "\x1b[31m"}, func(payload string) attack {
			return attack{as: "caller", request: "POST /v1/chat/completions", headers: []string{"x-request-id", payload, "User-Agent", payload},
				body: hi, want: []int{200, 400}}
		})...),
		"Decompression bombs": each([]string{"gzip", "zstd", "br", "gzip, gzip", "deflate"}, func(payload string) attack {
			return attack{as: "caller", request: "POST /v1/chat/completions", headers: []string{"Content-Encoding", payload}, body: hi, want: []int{400, 415}}
		}),
		"golang-jwt CVE-2025-30204, unsigned tokens": each([]string{
			"Bearer eyJhbGciOiJub25lIn0.eyJyb2xlIjoiQURNSU4ifQ.", "Bearer " + strings.Repeat(".", 4000), "Bearer " + strings.Repeat("a.", 20000),
		}, func(payload string) attack {
			return attack{request: "GET /api/auth/keys", headers: []string{"Authorization", payload}, want: []int{400, 401, 431}}
		}),
		"Default credentials": each([]string{
			"Bearer sk-1234", "Basic cm9vdDoxMjM0NTY=", "Basic YWRtaW46YWRtaW4=", "Bearer admin", "Bearer EMPTY", "Bearer any",
		}, func(payload string) attack {
			return attack{request: "GET /api/auth/keys", headers: []string{"Authorization", payload}, want: []int{401}}
		}),
	}
}

// each makes an attack of every payload.
func each(payloads []string, of func(string) attack) []attack {
	var attacks []attack
	for _, payload := range payloads {
		attacks = append(attacks, of(payload))
	}
	return attacks
}
