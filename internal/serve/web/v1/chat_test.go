package v1_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestReplyPassesByteForByteExceptForTheModel(t *testing.T) {
	for name, test := range map[string]struct{ from, want string }{
		"odd formatting": {gatewaytest.RawBody, strings.Replace(gatewaytest.RawBody, `"their-name"`, `"m"`, 1)},
		"the caller's name already": {
			`{"id":"x","created":1,"object":"chat.completion","system_fingerprint":"f","model":"m","choices":[{}]}`,
			`{"id":"x","created":1,"object":"chat.completion","system_fingerprint":"f","model":"m","choices":[{}]}`,
		},
		"error null in front": {
			`{"error":null,"id":"x","created":1,"object":"chat.completion","model":"m","choices":[{}],"system_fingerprint":null}`,
			`{"id":"x","created":1,"object":"chat.completion","model":"m","choices":[{}],"system_fingerprint":null}`,
		},
		"error null in the middle": {
			`{"id":"x","created":1,"object":"chat.completion" , "error" : null , "model":"y","choices":[{}],"system_fingerprint":null}`,
			`{"id":"x","created":1,"object":"chat.completion" ,  "model":"m","choices":[{}],"system_fingerprint":null}`,
		},
		"error null at the end": {
			`{"id":"x","created":1,"object":"chat.completion","model":"y","choices":[{}],"system_fingerprint":null,"error":null}`,
			`{"id":"x","created":1,"object":"chat.completion","model":"m","choices":[{}],"system_fingerprint":null}`,
		},
		"a nested error null is data": {
			`{"id":"x","created":1,"object":"chat.completion","model":"m","choices":[{"error":null}],"system_fingerprint":null}`,
			`{"id":"x","created":1,"object":"chat.completion","model":"m","choices":[{"error":null}],"system_fingerprint":null}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := gatewaytest.StartOne(t, simulator.Step{Body: test.from})
			got := r.Chat(gatewaytest.PlainHi).Succeeds(t)
			if got.Body != test.want {
				t.Errorf("got  %s\nwant %s", got.Body, test.want)
			}
			if got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("Content-Type %q", got.Header.Get("Content-Type"))
			}
		})
	}
}

func TestReplyGetsTheMembersThatClientsRequire(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t, simulator.Step{Body: `{"choices":[{"index":0}]}`})
	body := r.Chat(gatewaytest.PlainHi).Succeeds(t).Body
	for _, member := range []string{`"id":"chatcmpl-`, `"object":"chat.completion"`, `"created":`, `"model":"m"`, `"system_fingerprint":"fp_unknown"`, `"choices":[{"index":0}]`} {
		if strings.Count(body, member) != 1 {
			t.Errorf("%s is not there once: %s", member, body)
		}
	}
}

func TestRequestPassesByteForByte(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	body := `{ "zeta" : 123456789012345678901234567890, "model":"m", "u":1.10,"v":1e2,"w":-0,"temperature":1.50, ` +
		`"messages":[ {"name":"n","role":"user","content":"h\u00e9 \/ \ud83d\ude00 \ud83d","x":1E+2} ],"\ude00":"\ud83d","__proto__":{"a":[]},"Modell":"other","max_tokens":100 }`
	r.Chat(body).Succeeds(t)
	if got := string(gatewaytest.OnlyRequest(t, b).Body); got != body {
		t.Errorf("the backend got %s\nwant            %s", got, body)
	}
	// A byte order mark is no part of the text behind it.
	r.Chat("\ufeff" + body).Succeeds(t)
	if got := b.Requests(); len(got) != 2 || string(got[1].Body) != body {
		t.Errorf("the backend got %s\nwant            %s", got[len(got)-1].Body, body)
	}
}

func TestExtraBodyJoinsTheUpstreamBody(t *testing.T) {
	const head = `{"model":"m","messages":[{"role":"user","content":"hi"}]`
	for name, test := range map[string]struct{ sent, want string }{
		"members move to the top":     {head + `,"extra_body":{"a":1.10,"b":{"c":[1e2]}}}`, head + `,"a":1.10,"b":{"c":[1e2]}}`},
		"the caller's own field wins": {head + `,"a":1,"extra_body":{"a":2,"b":3}}`, head + `,"a":1,"b":3}`},
		"only fields given already":   {head + `,"a":1,"extra_body":{"a":2}}`, head + `,"a":1}`},
		"a null field is not given":   {head + `,"a":null,"extra_body":{"a":2}}`, head + `,"a":2}`},
		"empty":                       {head + `,"extra_body":{}}`, head + `}`},
		"null":                        {head + `,"extra_body":null}`, head + `}`},
		"in front":                    {`{"extra_body":{"k":"v"},` + head[1:] + `}`, `{"k":"v",` + head[1:] + `}`},
		"in front and empty":          {`{"extra_body":{},` + head[1:] + `}`, head + `}`},
		"model and messages stay":     {head + `,"extra_body":{"model":"z","messages":[],"k":1}}`, head + `,"k":1}`},
		"a key with an escape":        {head + `,"extra_body":{"k\u00e9":1}}`, head + `,"k\u00e9":1}`},
		"itself inside itself":        {head + `,"extra_body":{"extra_body":{"x":1},"k":1}}`, head + `,"k":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, b := gatewaytest.StartOne(t)
			r.Chat(test.sent).Succeeds(t)
			if got := string(gatewaytest.OnlyRequest(t, b).Body); got != test.want {
				t.Errorf("the backend got %s\nwant            %s", got, test.want)
			}
		})
	}
}

func TestExtraBodyCountsAsGiven(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	answer := r.Chat(`{"model":"m","messages":[{"role":"user","content":"hi"}],"extra_body":{"stream":true,"stream_options":{"include_usage":true}}}`).Succeeds(t)
	events := gatewaytest.EventsOf(t, answer.Body)
	if events[len(events)-1] != "[DONE]" || gatewaytest.DecodeChunk(t, events[len(events)-2]).Usage == nil {
		t.Errorf("no stream with usage: %q", events)
	}
	if got := string(gatewaytest.OnlyRequest(t, b).Body); !strings.Contains(got, `"stream":true,"stream_options":{"include_usage":true}`) {
		t.Errorf("the backend got %s", got)
	}
}

// Usage is counted for every stream, so every backend is asked for it.
func TestUsageIsAskedInEveryStream(t *testing.T) {
	for name, member := range map[string]string{
		"no options":            ``,
		"options null":          `,"stream_options":null`,
		"options empty":         `,"stream_options":{}`,
		"other options":         `,"stream_options":{"include_obfuscation":false}`,
		"usage false":           `,"stream_options":{"include_usage":false}`,
		"usage null":            `,"stream_options":{"include_usage":null}`,
		"usage true":            `,"stream_options":{"include_usage":true}`,
		"extra_body false":      `,"extra_body":{"stream_options":{"include_usage":false}}`,
		"extra_body empty":      `,"extra_body":{"stream_options":{}}`,
		"extra_body over null":  `,"stream_options":null,"extra_body":{"stream_options":{"include_usage":false}}`,
		"extra_body beside own": `,"stream_options":{},"extra_body":{"stream_options":{"include_usage":false}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, b := gatewaytest.StartOne(t)
			answer := r.Chat(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]` + member + `}`).Succeeds(t)
			got := string(gatewaytest.OnlyRequest(t, b).Body)
			if strings.Count(got, `"include_usage":true`) != 1 || strings.Count(got, "stream_options") != 1 {
				t.Errorf("usage is not asked once: %s", got)
			}
			wanted := strings.Contains(member, `"include_usage":true`)
			if sent := strings.Contains(answer.Body, `"usage":{`); sent != wanted {
				t.Errorf("usage reached the caller: %t, asked: %t", sent, wanted)
			}
		})
	}
	t.Run("not in a plain request", func(t *testing.T) {
		r, b := gatewaytest.StartOne(t)
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
		if got := string(gatewaytest.OnlyRequest(t, b).Body); got != gatewaytest.PlainHi {
			t.Errorf("the backend got %s", got)
		}
	})
}

func TestUpstreamModelIsMappedBothWays(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), `upstream-model: 'their "name"'`)))
	plain := r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if !strings.Contains(plain.Body, `"model":"m"`) || strings.Contains(plain.Body, "their") {
		t.Errorf("the reply names another model: %s", plain.Body)
	}
	streamed := r.Chat(gatewaytest.StreamHi).Succeeds(t)
	for _, event := range gatewaytest.EventsOf(t, streamed.Body) {
		if event != "[DONE]" && gatewaytest.DecodeChunk(t, event).Model != "m" {
			t.Errorf("a chunk names another model: %s", event)
		}
	}
	for _, request := range b.Requests() {
		if strings.Count(string(request.Body), `"model":"their \"name\""`) != 1 || strings.Contains(string(request.Body), `"m"`) {
			t.Errorf("the backend got %s", request.Body)
		}
	}
}

func TestBaseURLAndPath(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ suffix, path, want string }{
		"without version":       {"", "", "/v1/chat/completions"},
		"trailing slash":        {"/", "", "/v1/chat/completions"},
		"with version":          {"/v1", "", "/v1/chat/completions"},
		"version and slash":     {"/v1/", "", "/v1/chat/completions"},
		"deeper, with version":  {"/openai/v1", "", "/openai/v1/chat/completions"},
		"deeper, without":       {"/openai", "", "/openai/v1/chat/completions"},
		"own path":              {"", "/x/chat?api-version=1", "/x/chat?api-version=1"},
		"own path under a base": {"/base/v1", "/chat", "/base/v1/chat"},
	} {
		t.Run(name, func(t *testing.T) {
			b := gatewaytest.StartBackend(t, simulator.Step{Body: gatewaytest.RawBody})
			var more []string
			if test.path != "" {
				more = append(more, "path: "+gatewaytest.Quote(test.path))
			}
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()+test.suffix, more...)))
			r.Chat(gatewaytest.PlainHi).Succeeds(t)
			if got := gatewaytest.OnlyRequest(t, b); got.Path != test.want || got.Method != http.MethodPost {
				t.Errorf("called %s %s, want %s", got.Method, got.Path, test.want)
			}
		})
	}
}

func TestHeadersToTheBackend(t *testing.T) {
	t.Parallel()
	const callers = "Bearer callers-own"
	for name, test := range map[string]struct {
		settings []string
		want     map[string]string // "" means absent
	}{
		"nothing configured": {nil, map[string]string{"Authorization": "", "Content-Type": "application/json"}},
		"key":                {[]string{"api-key: k1234"}, map[string]string{"Authorization": "Bearer k1234"}},
		"headers":            {[]string{"headers: {X-One: a b, x-two: '2'}"}, map[string]string{"X-One": "a b", "X-Two": "2", "Authorization": ""}},
		"own authorization wins over the key": {
			[]string{"api-key: k1234", "headers: {authorization: Basic abc}"}, map[string]string{"Authorization": "Basic abc"},
		},
		"forwarded":          {[]string{"forward-authorization: true"}, map[string]string{"Authorization": callers}},
		"forwarded over key": {[]string{"api-key: k1234", "forward-authorization: true"}, map[string]string{"Authorization": callers}},
	} {
		t.Run(name, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), test.settings...)))
			r.Chat(gatewaytest.PlainHi, "Authorization", callers, "X-Api-Key", "callers-key", "Cookie", "c=1", "X-Custom", "x", "Accept-Encoding", "gzip").Succeeds(t)
			got := gatewaytest.OnlyRequest(t, b).Header
			for name, value := range test.want {
				if strings.Join(got.Values(name), "|") != value {
					t.Errorf("%s: %q, want %q", name, got.Values(name), value)
				}
			}
			if got.Get("Accept-Encoding") != "identity" {
				t.Errorf("Accept-Encoding %q: a compressed answer could not be read", got.Get("Accept-Encoding"))
			}
			for _, name := range []string{"X-Api-Key", "Cookie", "X-Custom", "X-Forwarded-For"} {
				if got.Get(name) != "" {
					t.Errorf("%s was passed on: %q", name, got.Get(name))
				}
			}
		})
	}
	t.Run("the key stays when the caller has none to forward", func(t *testing.T) {
		b := gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: k1234", "forward-authorization: true")))
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
		if got := gatewaytest.OnlyRequest(t, b).Header.Get("Authorization"); got != "Bearer k1234" {
			t.Errorf("Authorization %q", got)
		}
	})
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`^req_[A-Z2-7]{20,}$`)
	taken := map[string]bool{"-": true, "trace-1_2.3:4": true, "AZaz09": true, strings.Repeat("x", 128): true}
	for _, given := range []string{
		"", "-", "trace-1_2.3:4", "AZaz09", strings.Repeat("x", 128),
		strings.Repeat("x", 129), "a b", "é", "a/b", "a;id", "$(id)", "`id`", "a'b", `a"b`, `a\b`, "a&b", "a|b", "a>b", "a<b", "a#b", "a%41", "a@b", "a[b", "a{b", "a,b", "a+b", "a=b", "a~b", "a!b", "a*b",
	} {
		t.Run(given, func(t *testing.T) {
			r, b := gatewaytest.StartOne(t)
			var headers []string
			if given != "" {
				headers = []string{"X-Request-Id", given}
			}
			id := r.Chat(gatewaytest.PlainHi, headers...).Succeeds(t).Header.Get("X-Request-Id")
			if taken[given] && id != given {
				t.Errorf("id %q, want the caller's", id)
			}
			if !taken[given] && !made.MatchString(id) {
				t.Errorf("id %q was not made here", id)
			}
			if got := gatewaytest.OnlyRequest(t, b).Header.Get("X-Request-Id"); got != id {
				t.Errorf("the backend got the id %q, the caller %q", got, id)
			}
			if !strings.Contains(r.Logs.String(), id) {
				t.Error("the log does not have the id")
			}
		})
	}
}

func TestRepliesNameInstanceAndAttempts(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	for _, body := range []string{gatewaytest.PlainHi, gatewaytest.StreamHi} {
		header := r.Chat(body).Succeeds(t).Header
		if header.Get("X-Router-Attempts") != "1" || !regexp.MustCompile(`^i-[0-9a-f]{10}$`).MatchString(header.Get("X-Router-Instance")) {
			t.Errorf("attempts %q, instance %q", header.Get("X-Router-Attempts"), header.Get("X-Router-Instance"))
		}
		for name, values := range header {
			if strings.Contains(strings.Join(values, " "), strings.TrimPrefix(b.URL(), "http://")) {
				t.Errorf("%s shows the backend's address: %q", name, values)
			}
		}
	}
}

func TestChatWithoutVersionInThePathAndAnyContentType(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	for _, contentType := range []string{"application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8", "nonsense"} {
		r.Do(http.MethodPost, "/chat/completions", gatewaytest.PlainHi, "Content-Type", contentType).Succeeds(t)
	}
	for _, request := range b.Requests() {
		if request.Header.Get("Content-Type") != "application/json" || string(request.Body) != gatewaytest.PlainHi {
			t.Errorf("the backend got %q %s", request.Header.Get("Content-Type"), request.Body)
		}
	}
}

func TestLargeRequestPasses(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("0123456789", 500_000) + `"}]}`
	r.Chat(body).Succeeds(t)
	if got := gatewaytest.OnlyRequest(t, b); got.BodyLength != len(body) || string(got.Body) != body {
		t.Errorf("%d bytes arrived of %d, or others", got.BodyLength, len(body))
	}
}

func TestAnyCredentialIsAcceptedWhenTheAPIIsOpen(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	for _, credential := range []string{"Bearer dummy", "Bearer ", "Bearer undefined", "nonsense"} {
		r.Chat(gatewaytest.PlainHi, "Authorization", credential).Succeeds(t)
	}
}
