package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// uncountedDoor is a kind of request that takes time of a backend and is no use of a model.
type uncountedDoor struct {
	path, body string
	// plain is the same for a model whose backend cannot answer it, empty where nobody else
	// can.
	plainPath, plain string
	answer           simulator.Step
}

// uncountedDoors returns a request of every door whose requests are no use of a model.
func uncountedDoors(t *testing.T) map[schema.Door]uncountedDoor {
	t.Helper()
	messages := `"messages":[{"role":"user","content":"` + text100 + `"}]`
	contents := `{"contents":[{"role":"user","parts":[{"text":"` + text100 + `"}]}]}`
	counted := func(body string) simulator.Step { return simulator.Step{Body: body} }
	all := map[schema.Door]uncountedDoor{
		schema.DoorCountTokens: {
			"/v1/messages/count_tokens", `{"model":"messages",` + messages + `}`,
			"/v1/messages/count_tokens", `{"model":"m",` + messages + `}`, counted(`{"input_tokens":7}`),
		},
		schema.DoorInputTokens: {
			"/v1/responses/input_tokens", `{"model":"gemini","input":"` + text100 + `"}`,
			"/v1/responses/input_tokens", `{"model":"ollama","input":"` + text100 + `"}`, counted(`{"totalTokens":7}`),
		},
		schema.DoorGeminiCount: {
			"/v1beta/models/gemini:countTokens", contents, "/v1beta/models/m:countTokens", contents, counted(`{"totalTokens":7}`),
		},
		schema.DoorTokenize:   {path: "/tokenize", body: `{"model":"infill","prompt":"` + text100 + `"}`},
		schema.DoorDetokenize: {path: "/detokenize", body: `{"model":"infill","tokens":[104,105]}`},
	}
	for _, door := range schema.Doors() {
		if _, there := all[door]; there != (isUncounted(door) && door != schema.DoorRealtime) {
			t.Fatalf("a request for the door %s is there: %t", door, there)
		}
	}
	return all
}

// Requests that are no use of a model take time of a backend all the same: limits of requests
// count them, and nothing that counts tokens or money does. What no backend can answer is
// estimated, however many were asked for.
func TestLimitsOfRequestsCountWhatIsNoUseOfAModel(t *testing.T) {
	t.Parallel()
	for door, d := range uncountedDoors(t) {
		t.Run(door.String(), func(t *testing.T) {
			t.Parallel()
			limits := serialLimits(cost{1, 1}, cost{1, 1})
			b := gatewaytest.StartBackend(t)
			b.ScriptForever(d.answer)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: limitedYAML(b, limits), AnswerTokens: 50})
			for _, l := range limits {
				keys := l.keys()
				for n := range 4 {
					key := bearer(keys[n%len(keys)])
					reply := r.Do(http.MethodPost, d.path, d.body, key...)
					if isCounted := strings.HasSuffix(l.name, "-requests") && strings.Contains(l.members, "per-minute"); isCounted && n >= 2 {
						l.refuses(t, reply)
					} else if reply.Succeeds(t); reply.Header.Get("X-Router-Estimated") != "" {
						t.Errorf("%s: request %d is estimated: %s", l.name, n+1, reply.Body)
					}
					if d.plain == "" {
						continue
					}
					if plain := r.Do(http.MethodPost, d.plainPath, d.plain, key...).Succeeds(t); plain.Header.Get("X-Router-Estimated") == "" {
						t.Errorf("%s: %s", l.name, plain.Body)
					}
				}
			}
			if requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply {
				return r.Do(http.MethodGet, gatewaytest.LongAgo, "", bearer("admin-token")...)
			}); requests+tokens != 0 {
				t.Errorf("the ledger counts %d requests and %d tokens", requests, tokens)
			}
		})
	}
}

// Tokens are counted for every name that the chat doors serve, also if only a fallback of an
// absent model does.
func TestTokensAreCountedForTheFallbackOfAnAbsentModel(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "server: {unknown-model: 404}\n"+gatewaytest.PolicyYAML(
		"aliases: {a: gone}, fallbacks: {gone: [m]}", gatewaytest.Instance("m", b.URL()),
		"{models: discover, base-url: '"+simulator.DownURL+"'}"))
	for path, body := range map[string]string{
		"/v1/chat/completions":            `{"model":"a","messages":[{"role":"user","content":"hi"}]}`,
		"/v1/messages/count_tokens":       `{"model":"a","messages":[{"role":"user","content":"hi"}]}`,
		"/v1/responses/input_tokens":      `{"model":"a","input":"hi"}`,
		"/v1beta/models/a:countTokens":    `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
		"/v1beta/models/gone:countTokens": `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
	} {
		r.Do(http.MethodPost, path, body).Succeeds(t)
		absent := strings.NewReplacer(`"model":"a"`, `"model":"b"`, "/a:", "/b:", "/gone:", "/b:")
		if reply := r.Do(http.MethodPost, absent.Replace(path), absent.Replace(body)); reply.Status != http.StatusNotFound {
			t.Errorf("%s of an unknown model: got %d, want 404", path, reply.Status)
		}
	}
}

// The rate limit of a service type counts them as well.
func TestRateLimitsCountWhatIsNoUseOfAModel(t *testing.T) {
	t.Parallel()
	const capacity = 25 // in as many seconds, which is long for so few requests
	for door, d := range uncountedDoors(t) {
		t.Run(door.String(), func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			b.ScriptForever(d.answer)
			limit := fmt.Sprintf("chat: {rate-limit: {algorithm: sliding-window, capacity: %d, refill-rate: 1}, ", capacity)
			r := gatewaytest.Start(t, strings.Replace(everyDoor(b), "chat: {", limit, 1))
			for range capacity {
				r.Do(http.MethodPost, d.path, d.body).Succeeds(t)
			}
			limited := doorLimit{name: door.String(), code: "rate_limit_exceeded"}
			limited.refuses(t, r.Do(http.MethodPost, d.path, d.body))
		})
	}
}

// A header by which a request says how it is to be handled has a value that it may have, at
// every door, also where it has no effect.
func TestHeadersOfTheGatewayAreCheckedAtEveryDoor(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, everyDoor(b))
	requests := doorRequests(t)
	for door, d := range uncountedDoors(t) {
		requests[door] = doorRequest{d.path, d.body, "application/json"}
		if d.plain != "" {
			requests[door] = doorRequest{d.plainPath, d.plain, "application/json"}
		}
	}
	for door, d := range requests {
		for _, header := range []string{"X-Router-Resume", "X-Router-Priority", "X-Router-Ttft-Target"} {
			reply := r.Do(http.MethodPost, d.path, d.body, "Content-Type", d.contentType, header, "perhaps")
			if reply.Status != http.StatusBadRequest || d.code(t, reply.Body) != "invalid_value" {
				t.Errorf("%s: %s: %d %s", door, header, reply.Status, reply.Body)
			}
		}
	}
	for _, path := range []string{"/ollama/api/chat", "/ollama/api/generate"} {
		if reply := r.Do(http.MethodPost, path, `{"model":"m"}`, "X-Router-Resume", "perhaps"); reply.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, reply.Status, reply.Body)
		}
	}
	if got := len(b.Requests()); got != 0 {
		t.Errorf("%d requests reached the backend", got)
	}
	gatewaytest.Needs(t, "realtime")
	s, reply := r.Dial("/v1/realtime?model=m", "X-Router-Resume", "perhaps")
	if got := len(b.Requests()); s != nil || reply.Status != http.StatusBadRequest || got != 0 {
		t.Errorf("%d %s; %d requests reached the backend", reply.Status, reply.Body, got)
	}
}
