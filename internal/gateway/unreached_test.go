package gateway_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// doorRequest is a request of a door.
type doorRequest struct{ path, body, contentType string }

// code returns the code of an error at the door. Errors of Ollama's API are no objects, and
// Google's have a code of their own.
func (d doorRequest) code(t *testing.T, body string) string {
	at := "error/code"
	switch {
	case strings.HasPrefix(d.path, "/ollama/"):
		at = "code"
	case strings.HasPrefix(d.path, "/v1beta/"):
		at = "error/details/0/reason"
	}
	code, _ := gatewaytest.At(t, gatewaytest.DecodeObject(t, body), at).(string)
	return code
}

// doorRequests returns a request of every door whose requests are counted.
func doorRequests(t *testing.T) map[schema.Door]doorRequest {
	inJSON := func(path, body string) doorRequest { return doorRequest{path, body, "application/json"} }
	form := func(path string, parts ...gatewaytest.Part) doorRequest {
		body, contentType := gatewaytest.FormBody(append(parts, gatewaytest.Field("model", "m"))...)(t)
		return doorRequest{path, body, contentType}
	}
	all := map[schema.Door]doorRequest{
		schema.DoorChat:           inJSON("/v1/chat/completions", gatewaytest.With(`"max_tokens":9`)),
		schema.DoorEmbeddings:     inJSON("/v1/embeddings", `{"model":"m","input":"hi"}`),
		schema.DoorRerank:         inJSON("/v1/rerank", `{"model":"m","query":"q","documents":["a","b"]}`),
		schema.DoorSpeech:         inJSON("/v1/audio/speech", `{"model":"m","input":"hi","voice":"v"}`),
		schema.DoorTranscriptions: form(gatewaytest.Transcriptions, gatewaytest.Recording()),
		schema.DoorTranslations:   form("/v1/audio/translations", gatewaytest.Recording()),
		schema.DoorImages:         inJSON("/v1/images/generations", `{"model":"m","prompt":"x"}`),
		schema.DoorImageEdits:     form("/v1/images/edits", gatewaytest.Field("prompt", "x"), gatewaytest.Photo(t, "image")),
		schema.DoorMessages:       inJSON("/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`),
		schema.DoorResponses:      inJSON("/v1/responses", `{"model":"m","max_output_tokens":9,"input":"hi"}`),
		schema.DoorCompletions:    inJSON("/v1/completions", `{"model":"m","max_tokens":9,"prompt":"hi"}`),
		schema.DoorModerations:    inJSON("/v1/moderations", `{"model":"m","input":"hi"}`),
		schema.DoorCompact:        inJSON("/v1/responses/compact", `{"model":"m","input":"hi"}`),

		schema.DoorOllamaChat:       inJSON("/ollama/api/chat", `{"model":"m","options":{"num_predict":9},"messages":[{"role":"user","content":"hi"}]}`),
		schema.DoorOllamaGenerate:   inJSON("/ollama/api/generate", `{"model":"m","options":{"num_predict":9},"prompt":"hi"}`),
		schema.DoorOllamaEmbed:      inJSON("/ollama/api/embed", `{"model":"m","input":"hi"}`),
		schema.DoorOllamaEmbeddings: inJSON("/ollama/api/embeddings", `{"model":"m","prompt":"hi"}`),

		schema.DoorGemini:           inJSON("/v1beta/models/m:generateContent", `{"generationConfig":{"maxOutputTokens":9},"contents":[{"parts":[{"text":"hi"}]}]}`),
		schema.DoorGeminiEmbed:      inJSON("/v1beta/models/m:embedContent", `{"content":{"parts":[{"text":"hi"}]}}`),
		schema.DoorGeminiBatchEmbed: inJSON("/v1beta/models/m:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"hi"}]}}]}`),

		schema.DoorScore:    inJSON("/v1/score", `{"model":"engine","text_1":"a","text_2":"b"}`),
		schema.DoorClassify: inJSON("/classify", `{"model":"engine","input":"hi"}`),
		schema.DoorPooling:  inJSON("/pooling", `{"model":"engine","input":"hi"}`),
		schema.DoorInfill:   inJSON("/infill", `{"model":"infill","n_predict":9,"input_prefix":"a","input_suffix":"b"}`),
	}
	for _, door := range schema.Doors() {
		if _, there := all[door]; !there && !isUncounted(door) {
			t.Fatalf("there is no request for the door %s", door)
		}
	}
	return all
}

// withEngines returns an instance of the model m and the same as instances of inference
// engines, which some doors need.
func withEngines(service schema.ServiceType, instance string) string {
	as := func(name, adapter string) string {
		return ", " + strings.Replace(strings.TrimSuffix(instance, "}")+", adapter: "+adapter+"}", "name: "+gatewaytest.Quote("m"), "name: "+gatewaytest.Quote(name), 1)
	}
	switch {
	case !strings.Contains(instance, "name: "+gatewaytest.Quote("m")+","):
	case service == schema.Chat:
		return instance + as("infill", "llamacpp")
	case service == schema.Embedding, service == schema.Rerank:
		return instance + as("engine", "vllm")
	}
	return instance
}

// isUncounted tells whether the requests of a door use nothing that is counted, or come over
// connections that have tests of their own.
func isUncounted(door schema.Door) bool {
	switch door {
	case schema.DoorCountTokens, schema.DoorInputTokens, schema.DoorGeminiCount, schema.DoorTokenize, schema.DoorDetokenize, schema.DoorRealtime:
		return true
	}
	return false
}

// usedBudgets returns what is used of the budgets of a gateway whose administrator's token
// is admin-token, by their units; the windows are those of one key.
func usedBudgets(t *testing.T, r *gatewaytest.Gateway) map[string]int64 {
	t.Helper()
	var shown struct {
		Budgets []struct {
			Unit string `json:"unit"`
			Used int64  `json:"used"`
		} `json:"budgets"`
	}
	body := r.Do(http.MethodGet, "/api/monitoring/budgets", "", "Authorization", "Bearer admin-token").Succeeds(t).Body
	if err := json.Unmarshal([]byte(body), &shown); err != nil {
		t.Fatal(err)
	}
	used := map[string]int64{}
	for _, one := range shown.Budgets {
		used[one.Unit] = one.Used
	}
	return used
}

// What reaches no backend takes nothing from the limits and budgets of its key, nor from
// rate limits, at any door: because the backend refuses connections, its breaker is open,
// all slots are taken, or nothing serves the model.
func TestWhatReachesNoBackendIsGivenBack(t *testing.T) {
	t.Parallel()
	refusing := "http://" + waittest.Nobody(t)
	for name, test := range map[string]struct {
		policy, instance string
		codes            string
		isHeld           bool // the instance is a backend whose only slot is taken
	}{
		"connections are refused": {gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", refusing), "upstream_error", false},
		"rate limit of an instance": {
			gatewaytest.NoBreakerNoChecks + ", rate-limit: {scope: instance, algorithm: sliding-window, capacity: 9, refill-rate: 1}", gatewaytest.Instance("m", refusing), "upstream_error", false,
		},
		"the breaker opens":   {"circuit-breaker: {failure-threshold: 1, recovery-timeout: 1h}, " + gatewaytest.NoChecks, gatewaytest.Instance("m", refusing), "upstream_error circuit_breaker_open", false},
		"an instance is off":  {gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", refusing, "enabled: false"), "service_unavailable", false},
		"another model":       {gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("other", refusing), "service_unavailable model_not_found", false},
		"all slots are taken": {gatewaytest.NoBreakerNoChecks, "", "concurrency_limit_reached", true},
		"the wait is too long": {
			gatewaytest.NoBreakerNoChecks + ", queue: {size: 9, timeout: 1ms}", "", "concurrency_limit_reached", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 7 // more requests than that are refused in vain
			well, held := gatewaytest.StartBackend(t), gatewaytest.StartHeldBackend(t)
			well.ScriptForever(answer(1, 1))
			if test.isHeld {
				test.instance = gatewaytest.Instance("m", held.URL, "max-concurrency: 1")
			}
			if !strings.Contains(test.policy, "rate-limit") {
				test.policy += ", rate-limit: {algorithm: sliding-window, capacity: 9, refill-rate: 1}"
			}
			var services []string
			for _, service := range schema.ServiceTypes() {
				services = append(services, service.String()+": {"+test.policy+", instances: ["+withEngines(service, test.instance)+", "+gatewaytest.Instance("well", well.URL())+"]}")
			}
			setup := gatewaytest.Setup{DataDir: t.TempDir(), YAML: "services: {" + strings.Join(services, ",\n") + "}\nprices: {models: [{model: '*', input: 1, output: 1, image: 1, minute: 1, characters: 1}]}\n" +
				fmt.Sprintf("security: {enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: %s}], keys: [{id: k, key-sha256: %s, limits: {requests-per-minute: %d, tokens-per-minute: 90000, concurrent-requests: 2}, budgets: {day: {requests: %d, tokens: 90000, cost: 50}}}]}\n",
					gatewaytest.HashOf("admin-token"), gatewaytest.HashOf("secret"), most, most)}
			r := gatewaytest.StartWith(t, setup)
			left := most
			if test.isHeld {
				stream := r.Open(t.Context(), http.MethodPost, "/v1/chat/completions", gatewaytest.StreamHi, bearer("secret")...)
				defer stream.Body.Close()
				<-held.Entered
				left--
			}
			before := usedBudgets(t, r)
			for door, request := range doorRequests(t) {
				if test.isHeld && (door.Service() != schema.Chat || door == schema.DoorInfill) {
					continue // its slot is free
				}
				for range 3 {
					refused := r.Do(http.MethodPost, request.path, request.body, append(bearer("secret"), "Content-Type", request.contentType)...)
					if code := request.code(t, refused.Body); code == "" || !strings.Contains(test.codes, code) {
						t.Errorf("%s: %d %s", door, refused.Status, refused.Body)
					}
				}
				if used := usedBudgets(t, r); !maps.Equal(used, before) {
					t.Errorf("%s: %v are used, and %v were before", door, used, before)
				}
			}
			for n := range left + 1 {
				got := r.Chat(`{"model":"well","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, bearer("secret")...)
				if (got.Status == http.StatusOK) != (n < left) {
					t.Errorf("request %d of %d: %d %s", n+1, left, got.Status, got.Body)
				}
			}
			if test.isHeld {
				return
			}
			r.Halt()
			if used := usedBudgets(t, gatewaytest.StartWith(t, setup)); used["requests"] != most {
				t.Errorf("after a restart %v are used", used)
			}
		})
	}
}
