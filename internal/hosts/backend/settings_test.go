package backend_test

import (
	"math"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

func faultsOf(s backend.Settings) string {
	var lines []string
	s.Check(func(path string, fault say.Sentence) { lines = append(lines, path+": "+fault.String()) })
	return strings.Join(lines, "\n")
}

func goodInstance() backend.Settings {
	s := backend.DefaultSettings()
	s.Name, s.BaseURL = "m", "http://127.0.0.1:11434"
	return s
}

func TestInstanceIDIsNameAndBaseURLAsWritten(t *testing.T) {
	t.Parallel()
	s := backend.Settings{Name: "qwen2:7b", BaseURL: "HTTP://Host:80/"}
	if s.ID() != "qwen2:7b@HTTP://Host:80/" {
		t.Error(s.ID())
	}
}

func TestBaseURLRules(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"http://h", "https://h:8443/api/v1", "http://[::1]:80", "HTTP://h", "http://h/a%20b", "http://xn--e1afmkfd.example/",
	} {
		s := goodInstance()
		s.BaseURL = good
		if got := faultsOf(s); got != "" {
			t.Errorf("%s: %s", good, got)
		}
	}
	for bad, want := range map[string]string{
		"":                        "is required",
		"h:80":                    "must begin with http:// or https://",
		"ftp://h":                 "must begin with http:// or https://",
		"//h":                     "must begin with http:// or https://",
		"http://":                 "has no host",
		"http://:80":              "has no host",
		"http:///path":            "has no host",
		"http://h:0":              "has a port outside 1..65535",
		"http://h:65536":          "has a port outside 1..65535",
		"http://h:http":           "is not a valid URL",
		"http://u@h":              "must not contain a user name or password; use api-key or headers",
		"http://u:p@h":            "must not contain a user name or password; use api-key or headers",
		"http://@h":               "must not contain a user name or password; use api-key or headers",
		"http://h?":               "must not have a query",
		"http://h/?a=b":           "must not have a query",
		"http://h/#":              "must not have a fragment",
		"http://h/a b":            "must not contain spaces or control characters",
		" http://h":               "must not contain spaces or control characters",
		"http://h\n":              "must not contain spaces or control characters",
		"http://h/\u00a0":         "must not contain spaces or control characters",
		"http://h/a/../b":         `must not contain a ".." segment`,
		"http://h/a/%2e%2e/b":     `must not contain a ".." segment`,
		"http://h/%zz":            "is not a valid URL",
		"http://h/a\\..\\b":       `must not contain a ".." segment`,
		"http://user:pass@/path?": "must not contain a user name or password; use api-key or headers",
	} {
		s := goodInstance()
		s.BaseURL = bad
		if got := faultsOf(s); got != "baseUrl: "+want {
			t.Errorf("%q: %s", bad, got)
		}
	}
}

func TestPathRules(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", "/", "/v1/chat/completions", "/openai?api-version=2024-10-21", "/a/..b/c.."} {
		s := goodInstance()
		s.Path = good
		if got := faultsOf(s); got != "" {
			t.Errorf("%s: %s", good, got)
		}
	}
	for _, bad := range []string{"v1", "/..", "/a/../b", "/a/%2E%2e/b", "/a\x00", "/a b", "/a#b", "/%", "/a\r\nHost: x"} {
		s := goodInstance()
		s.Path = bad
		if got := faultsOf(s); !strings.HasPrefix(got, "path: ") {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

func TestOtherInstanceRules(t *testing.T) {
	t.Parallel()
	for _, weight := range []float64{0, 0.001, 1, 1e6} {
		s := goodInstance()
		s.Weight = weight
		if got := faultsOf(s); got != "" {
			t.Errorf("weight %v: %s", weight, got)
		}
	}
	for want, change := range map[string]func(*backend.Settings){
		"name: is required":                                                                                                    func(s *backend.Settings) { s.Name = "" },
		"name: must not begin or end with a space":                                                                             func(s *backend.Settings) { s.Name = " m" },
		"name: must not contain control characters":                                                                            func(s *backend.Settings) { s.Name = "m\x01m" },
		"name: must not be longer than 256 bytes":                                                                              func(s *backend.Settings) { s.Name = strings.Repeat("m", 257) },
		"upstreamModel: must not contain control characters":                                                                   func(s *backend.Settings) { s.UpstreamModel = "a\tb" },
		"apiKey: must not contain control characters or line breaks":                                                           func(s *backend.Settings) { s.APIKey = backend.Literal("k\n") },
		"weight: must be between 0 (no traffic) and 1000000, not -0.5":                                                         func(s *backend.Settings) { s.Weight = -0.5 },
		"weight: must be between 0 (no traffic) and 1000000, not 1e+07":                                                        func(s *backend.Settings) { s.Weight = 1e7 },
		"weight: must be between 0 (no traffic) and 1000000, not NaN":                                                          func(s *backend.Settings) { s.Weight = math.NaN() },
		"weight: must be between 0 (no traffic) and 1000000, not +Inf":                                                         func(s *backend.Settings) { s.Weight = math.Inf(1) },
		`headers["a b"]: is not a valid header name`:                                                                           func(s *backend.Settings) { s.Headers = map[string]backend.Secret{"a b": backend.Literal("")} },
		`headers[""]: is not a valid header name`:                                                                              func(s *backend.Settings) { s.Headers = map[string]backend.Secret{"": backend.Literal("")} },
		`headers["Host"]: is a header that the gateway itself decides`:                                                         func(s *backend.Settings) { s.Headers = map[string]backend.Secret{"Host": backend.Literal("x")} },
		"name: must not be *: an instance serves the model that it is named after; models: discover serves all of the backend": func(s *backend.Settings) { s.Name = "*" },
		"path: must be ASCII; write other characters as %-escapes, such as %C3%A9 for é":                                       func(s *backend.Settings) { s.Path = "/v1/é" },
		`headers["accept-encoding"]: is a header that the gateway itself decides`: func(s *backend.Settings) {
			s.Headers = map[string]backend.Secret{"accept-encoding": backend.Literal("gzip")}
		},
		`headers["Content-Encoding"]: is a header that the gateway itself decides`: func(s *backend.Settings) {
			s.Headers = map[string]backend.Secret{"Content-Encoding": backend.Literal("gzip")}
		},
		`headers["Expect"]: is a header that the gateway itself decides`: func(s *backend.Settings) {
			s.Headers = map[string]backend.Secret{"Expect": backend.Literal("100-continue")}
		},
		`headers["Accept"]: is a header that the gateway itself decides`:   func(s *backend.Settings) { s.Headers = map[string]backend.Secret{"Accept": backend.Literal("x")} },
		`headers["x-a"]: is the same header as "X-A"`:                      func(s *backend.Settings) { s.Headers = map[string]backend.Secret{"X-A": {}, "x-a": {}} },
		`headers["A"]: must not contain control characters or line breaks`: func(s *backend.Settings) { s.Headers = map[string]backend.Secret{"A": backend.Literal("v\r\n")} },
	} {
		s := goodInstance()
		change(&s)
		if got := faultsOf(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHealthRules(t *testing.T) {
	t.Parallel()
	var paths []string
	collect := func(path string, _ say.Sentence) { paths = append(paths, path) }
	if backend.DefaultHealthSettings().Check(collect); paths != nil {
		t.Errorf("the defaults break rules of %v", paths)
	}
	backend.HealthSettings{}.Check(collect)
	if len(paths) != 4 {
		t.Errorf("broken rules of %v", paths)
	}
}
