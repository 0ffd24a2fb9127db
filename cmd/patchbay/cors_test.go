package main

import (
	"net/http"
	"strings"
	"testing"
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
		b := startBackend(t)
		r := startGateway(t, poolYAML(b)+"server: {cors-origins: "+test.setting+"}\n")
		var header []string
		if test.origin != "" {
			header = []string{"Origin", test.origin}
		}
		for name, got := range map[string]reply{
			"preflight": r.do(http.MethodOptions, "/v1/chat/completions", "", append(header, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-custom")...),
			"chat":      r.chat(plainHi, header...).succeeds(t),
			"error":     r.chat("{}", header...),
		} {
			if allowed := got.header.Get("Access-Control-Allow-Origin"); allowed != test.want || (got.header.Get("Access-Control-Expose-Headers") != "") != (test.want != "") {
				t.Errorf("%s of %s with %s: %q", name, test.origin, test.setting, allowed)
			}
			vary := strings.Join(got.header.Values("Vary"), ", ")
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
