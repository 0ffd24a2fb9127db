package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestCORSCanBeNarrowed(t *testing.T) {
	const page = "https://app.example"
	for _, test := range []struct {
		setting, origin, want string
	}{
		{"[https://app.example, 'http://localhost:3000']", page, page},
		{"[HTTPS://App.Example]", page, page},
		{"[https://app.example]", "https://evil.example", ""},
		{"[https://app.example]", "https://app.example.evil.example", ""},
		{"[https://app.example]", "null", ""},
		{"[https://app.example]", "", ""},
		{"[]", page, ""},
		{"[https://app.example, '*']", "https://other.example", "*"},
	} {
		b := gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"server: {cors-origins: "+test.setting+"}\n")
		var header []string
		if test.origin != "" {
			header = []string{"Origin", test.origin}
		}
		for name, got := range map[string]gatewaytest.Reply{
			"preflight": r.Do(http.MethodOptions, "/v1/chat/completions", "", append(header, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-custom")...),
			"chat":      r.Chat(gatewaytest.PlainHi, header...).Succeeds(t),
			"error":     r.Chat("{}", header...),
		} {
			if allowed := got.Header.Get("Access-Control-Allow-Origin"); allowed != test.want || (got.Header.Get("Access-Control-Expose-Headers") != "") != (test.want != "") {
				t.Errorf("%s of %s with %s: %q", name, test.origin, test.setting, allowed)
			}
			vary := strings.Join(got.Header.Values("Vary"), ", ")
			if strings.Contains(vary, "Origin") == (test.want == "*") || strings.Contains(vary, "Request-Headers") != (name == "preflight") {
				t.Errorf("%s with %s: Vary %q", name, test.setting, vary)
			}
		}
	}
	for _, wrong := range []string{"app.example", "https://app.example/", "https://*.example", "https://u@app.example", "''"} {
		code, _, stderr := runHere(t, "check", "--config", writeConfig(t, "server: {cors-origins: ['"+strings.Trim(wrong, "'")+"']}\n"))
		if code != exitConfig || !strings.Contains(stderr, "cors-origins") {
			t.Errorf("%s: %d %s", wrong, code, stderr)
		}
	}
}
