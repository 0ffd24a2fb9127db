package dialect

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// planted is an endpoint full of secrets, each of which can be told from
// everything else.
var planted = Endpoint{
	BaseURL: "http://user:canary-password@gpu-canary.internal:18443/canary/v1",
	APIKey:  "canary+key/0123456789==",
	Headers: map[string]string{
		"Authorization": "Basic canary-basic-token",
		"X-Short":       "canary+key",
		"X-Words":       "canary two  words",
		"X-Tiny":        "abc",
	},
}

// secrets are the texts that must not come through.
var secrets = map[string]string{
	"base address":            planted.BaseURL,
	"host and port":           "gpu-canary.internal:18443",
	"host":                    "gpu-canary.internal",
	"password":                "canary-password",
	"key":                     planted.APIKey,
	"key in a header":         "Bearer " + planted.APIKey,
	"header value":            "Basic canary-basic-token",
	"credential of a header":  "canary-basic-token",
	"header value with space": "canary two  words",
	"the same on one line":    "canary two words",
	"bearer token of another": "Bearer zanary.another-token",
	"key of another":          "sk-zanary0123456789",
	"address of another":      "https://zanary.example.com/a?b=c",
	"database of another":     "redis://:zanary@cache:6379/0",
	"IP address of another":   "10.20.30.40:5000",
	"bare IP address":         "10.20.30.40",
	"IPv6 address":            "2001:db8:ace::f00d",
	"IPv6 address and port":   "[2001:db8:ace::f00d]:5000",
	"IPv6 address of a link":  "fe80::ace:f00d%eth0",
	"IPv4 address in IPv6":    "::ffff:10.20.30.40",
	"name of another host":    "zanary-7.example.com",
	"name under a country":    "zanary.company.de",
	"name in a cluster":       "zanary.default.svc.cluster.local:8000",
	"short name and port":     "zanary-7:8000",
	"name that was looked up": "lookup zanary on 10.20.30.40:53",
	"host of a pool":          "HTTPConnectionPool(host='zanary', port=8000)",
}

func plantedTarget(t testing.TB) *Target {
	t.Helper()
	target, err := new(Kind).Target(schema.Chat, planted)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// leaks returns the secret that a text still shows, or "".
func leaks(text string) string {
	for _, bad := range []string{"canary", "zanary", "10.20.30.40", "18443", "f00d"} {
		if strings.Contains(text, bad) {
			return bad
		}
	}
	return ""
}

func TestCleanHidesSecrets(t *testing.T) {
	target := plantedTarget(t)
	for name, secret := range secrets {
		for _, around := range []struct{ before, after string }{
			{"", ""},
			{"Incorrect API key provided: ", ". You can find it elsewhere."},
			{"upstream (", ") refused"},
			{`{"url":"`, `","retry":true}`},
			{"dial\r\n\t", "\x00\x1b[31mfailed"},
			{strings.Repeat("a very long story ", 40), " at the end"},
			{strings.Repeat("x", maxMessage-len(secret)/2-8) + " ", " across the cut"},
			{"你好 ", " 🙂"},
			{strings.Repeat("https://"+strings.Repeat("x", 1015)+" ", 8<<10>>10)[:8<<10-len(secret)/2-1] + " ", " across what is read"},
		} {
			got := target.Clean(around.before + secret + around.after)
			if bad := leaks(got); bad != "" {
				t.Errorf("%s: %q shows %s", name, got, bad)
			}
		}
	}
}

func TestCleanKeepsWhatHelps(t *testing.T) {
	target := plantedTarget(t)
	for text, want := range map[string]string{
		"": "",
		"This model's maximum context length is 1024 tokens.":        "This model's maximum context length is 1024 tokens.",
		"model 'llama3.1:8b' not found, try pulling it first":        "model 'llama3.1:8b' not found, try pulling it first",
		"  several\n lines\tand\r\nspaces ":                          "several lines and spaces",
		"a\x00b\x1b[1mc\u0085d\u2028e":                               "a b [1mc d e",
		"key canary+key/0123456789== at gpu-canary.internal:18443!":  "key [hidden] at [hidden]!",
		"abc is too short to be looked for":                          "abc is too short to be looked for",
		"Überlänge: 你好 🙂":                                            "Überlänge: 你好 🙂",
		"loaded 4.2.1 in 1:30 with ratio 3:1, 99.5% of 10.5 GB used": "loaded 4.2.1 in 1:30 with ratio 3:1, 99.5% of 10.5 GB used",
		"bad \xff bytes": "bad \ufffd bytes",
		"<html><head><title>502 Bad Gateway</title></head><body bgcolor='white'>nginx</body></html>": "502 Bad Gateway nginx",
		"a<!-- note -->b <script>alert(1)</script> <<b>b>c</b>":                                      "a b alert(1) < b>c",
		"unexpected <|im_start|>, 3 < 4 and 5 > 4, ends with <":                                      "unexpected <|im_start|>, 3 < 4 and 5 > 4, ends with <",
		"got exception: std::bad_alloc in ggml::add at 12:30:45":                                     "got exception: std::bad_alloc in ggml::add at 12:30:45",
		"[json.exception.parse_error.101] parse error at line 1, column 10: syntax error":            "[json.exception.parse_error.101] parse error at line 1, column 10: syntax error",
		"messages.0.content of model.safetensors, status:500, e.g. v1.2.3 (llama.cpp)":               "messages.0.content of model.safetensors, status:500, e.g. v1.2.3 (llama.cpp)",
		"dial tcp [::1]:11434: connect: connection refused":                                          "dial tcp [hidden]: connect: connection refused",
		"cannot reach localhost:11434 or ::1, tried fe80::1%eth0.":                                   "cannot reach [hidden] or [hidden], tried [hidden].",
	} {
		if got := target.Clean(text); got != want {
			t.Errorf("Clean(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestCleanCutsLongTexts(t *testing.T) {
	target := plantedTarget(t)
	exact := strings.Repeat("你", maxMessage)
	if got := target.Clean(exact); got != exact {
		t.Errorf("a text of %d characters was changed", maxMessage)
	}
	want := strings.Repeat("你", maxMessage-1) + "…"
	if got := target.Clean(exact + "好"); got != want {
		t.Errorf("%d characters ending in %q, want %d ending in …", utf8.RuneCountInString(got), got[len(got)-6:], maxMessage)
	}
}

func FuzzClean(f *testing.F) {
	for _, secret := range secrets {
		f.Add("before ", secret, " after")
	}
	f.Add("canary", "", "\xff")
	f.Add("[hidden", "", "]")
	target := plantedTarget(f)
	f.Fuzz(func(t *testing.T, before, _, after string) {
		if leaks(before+after) != "" || strings.Contains(before+after, "ary") || strings.ContainsAny(before+after, "0123456789") {
			return // the surroundings say it already
		}
		for name, secret := range secrets {
			// A word of the surroundings that grows into the secret makes it
			// another one; a space keeps them apart.
			got := target.Clean(before + " " + secret + " " + after)
			if bad := leaks(got); bad != "" {
				t.Errorf("%s: %q shows %s", name, got, bad)
			}
			if strings.ContainsFunc(got, unicode.IsControl) || utf8.RuneCountInString(got) > maxMessage || !utf8.ValidString(got) {
				t.Errorf("%s: %q is not one short line", name, got)
			}
			if again := target.Clean(got); again != got {
				t.Errorf("%s: cleaned once more, %q becomes %q", name, got, again)
			}
		}
	})
}

func TestReasonIsShort(t *testing.T) {
	target := plantedTarget(t)
	if got := target.Reason(strings.Repeat("long ", 200) + planted.APIKey); utf8.RuneCountInString(got) != maxReason || !strings.HasSuffix(got, "…") {
		t.Errorf("%d characters: %q", utf8.RuneCountInString(got), got)
	}
	if got := target.Reason("key " + planted.APIKey); got != "key [hidden]" {
		t.Errorf("%q", got)
	}
}
