package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const list = `prices:
  currency: EUR
  models: [{model: "m*", input: 2, cached-input: 0.5, cache-write: 4, output: 10, image: 0.04, characters: 0.015, minute: 0.6}]
`

type usage struct {
	RequestCount, TokenCount, PromptTokens, CompletionTokens, Cost int64
}

// counted adds up what the ledger has counted in minutes.
func counted(t *testing.T, r *gatewaytest.Gateway, headers ...string) (sum usage) {
	t.Helper()
	var answer struct {
		Data []struct {
			RequestCount     int64 `json:"requestCount"`
			TokenCount       int64 `json:"tokenCount"`
			PromptTokens     int64 `json:"promptTokens"`
			CompletionTokens int64 `json:"completionTokens"`
			Cost             int64 `json:"cost"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(r.Do(http.MethodGet, gatewaytest.LongAgo, "", headers...).Succeeds(t).Body), &answer); err != nil {
		t.Fatal(err)
	}
	for _, u := range answer.Data {
		sum.RequestCount += u.RequestCount
		sum.TokenCount += u.TokenCount
		sum.PromptTokens += u.PromptTokens
		sum.CompletionTokens += u.CompletionTokens
		sum.Cost += u.Cost
	}
	return sum
}

func answerWith(usage, text string) simulator.Step {
	return simulator.Step{Body: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":"stop"}]` + usage + `}`}
}

func TestCostsAreCountedEverywhere(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("word ", 80) // 100 tokens
	for name, test := range map[string]struct {
		step       simulator.Step
		ask        func(*gatewaytest.Gateway) gatewaytest.Reply
		want       usage
		isEstimate bool
	}{
		"a report": {
			step: answerWith(`,"usage":{"prompt_tokens":1000,"completion_tokens":500,"total_tokens":1500}`, "hi"),
			want: usage{1, 1500, 1000, 500, 2000 + 5000},
		},
		"a cache": {
			step: answerWith(`,"usage":{"prompt_tokens":1000,"completion_tokens":500,"total_tokens":1500,"prompt_tokens_details":{"cached_tokens":400}}`, "hi"),
			want: usage{1, 1500, 1000, 500, 1200 + 200 + 5000},
		},
		"no report": {step: answerWith("", text), want: usage{1, 0, 0, 0, 1010}, isEstimate: true},
		"no answer": {step: simulator.Step{Status: 422}, want: usage{1, 0, 0, 0, 0}},
		"two images": {step: simulator.Step{Body: `{"created":1,"data":[{"url":"http://pictures.test/1.png"},{"url":"http://pictures.test/2.png"}]}`}, ask: func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.Post("/v1/images/generations", `{"model":"m","prompt":"p","n":2}`)
		}, want: usage{1, 0, 0, 0, 80_000}},
		"speech": {ask: func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.Post("/v1/audio/speech", `{"model":"m","input":"äöü`+strings.Repeat("x", 97)+`","voice":"v"}`)
		}, want: usage{1, 0, 0, 0, 1500}},
		"a minute and a half of sound": {step: simulator.Step{Body: `{"text":"hi","usage":{"type":"duration","seconds":90}}`}, ask: func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.PostForm("/v1/audio/transcriptions", gatewaytest.Field("model", "m"), gatewaytest.Recording())
		}, want: usage{1, 0, 0, 0, 900_000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t, test.step)
			r := gatewaytest.Start(t, gatewaytest.EveryService(b)+gatewaytest.QuotaOn+list)
			ask := test.ask
			if ask == nil {
				ask = func(r *gatewaytest.Gateway) gatewaytest.Reply { return r.Chat(gatewaytest.PlainHi) }
			}
			ask(r)
			got := counted(t, r)
			if test.isEstimate && got.Cost > test.want.Cost-20 && got.Cost < test.want.Cost+50 {
				test.want.Cost = got.Cost
			}
			if got != test.want {
				t.Errorf("counted %+v, want %+v", got, test.want)
			}
			var cost float64
			for series, value := range r.Scrape() {
				if strings.HasPrefix(series, "model_router_cost_total{") {
					cost += value
				}
			}
			if shown := int64(cost*1e6 + 0.5); shown != got.Cost {
				t.Errorf("the metric is %v, want %d millionths", cost, got.Cost)
			}
			body := r.Do(http.MethodGet, "/api/monitoring/calls?limit=1", "").Body
			if has := strings.Contains(body, fmt.Sprintf(`"cost":%d`, got.Cost)); has != (got.Cost > 0) {
				t.Errorf("the call has no cost of %d: %s", got.Cost, body)
			}
		})
	}
}

// What was counted stays as it was when prices change.
func TestAChangeOfPricesDoesNotRewriteThePast(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answerWith(`,"usage":{"prompt_tokens":1000,"completion_tokens":0,"total_tokens":1000}`, "hi"))
	yaml := gatewaytest.PoolYAML(b) + gatewaytest.QuotaOn
	r := gatewaytest.Start(t, yaml+list)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.ReloadWith(yaml + strings.Replace(list, "input: 2,", "input: 3,", 1))
	if got := counted(t, r); got.Cost != 2000 {
		t.Errorf("after the change %+v", got)
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.ReloadWith(yaml)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if got := counted(t, r); got.Cost != 2000+3000 || got.RequestCount != 3 {
		t.Errorf("with the new price, and without one %+v", got)
	}
}

// What is not counted in tokens uses up a budget of money too, and is refused when that is
// used up.
func TestThingsUseUpBudgets(t *testing.T) {
	t.Parallel()
	speech := `{"model":"m","input":"` + strings.Repeat("x", 1000) + `","voice":"v"}`
	for name, test := range map[string]struct {
		price, budget, told string
		step                simulator.Step
		path, body          string
		passed              int
		used, wanted        string
	}{
		"images":     {"image: 0.04", "0.1", "0.10", simulator.Step{Body: `{"created":1,"data":[{"url":"http://pictures.test/1.png"}]}`}, "/v1/images/generations", `{"model":"m","prompt":"p"}`, 2, `"used":80000,`, "0.04"},
		"characters": {"characters: 0.015", "0.04", "0.04", simulator.Step{}, "/v1/audio/speech", speech, 2, `"used":30000,`, "0.015"},
		// The first one reserves a minute, and costs one and a half.
		"minutes": {"minute: 0.6", "1.8", "1.80", simulator.Step{Body: `{"text":"hi","usage":{"type":"duration","seconds":90}}`}, "/v1/audio/transcriptions", "", 2, `"used":1800000,`, "0.60"},
		// Many backends report no length. What was reserved is then what it costs.
		"minutes that are not reported":   {"minute: 0.6", "1.2", "1.20", simulator.Step{Body: `{"text":"hi"}`}, "/v1/audio/transcriptions", "", 2, `"used":1200000,`, "0.60"},
		"sound that is counted in tokens": {"minute: 0.6, input: 600000", "1.2", "1.20", simulator.Step{Body: `{"text":"hi","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`}, "/v1/audio/transcriptions", "", 2, `"used":1200000,`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			b.ScriptForever(test.step)
			security := strings.Replace(gatewaytest.SecuredYAML(), "enabled: true,", "enabled: true, keys: [{id: k, key-sha256: "+gatewaytest.HashOf("secret")+", budgets: {month: {cost: "+test.budget+"}}}],", 1)
			r := gatewaytest.Start(t, gatewaytest.EveryService(b)+gatewaytest.QuotaOn+security+"prices: {models: [{model: m, "+test.price+"}]}\n")
			ask := func() gatewaytest.Reply {
				if test.body != "" {
					return r.Do(http.MethodPost, test.path, test.body, "Authorization", "Bearer secret")
				}
				var form strings.Builder
				contentType := gatewaytest.WriteForm(t, &form, gatewaytest.Field("model", "m"), gatewaytest.Recording())
				return r.Do(http.MethodPost, test.path, form.String(), "Authorization", "Bearer secret", "Content-Type", contentType)
			}
			for range test.passed {
				ask().Succeeds(t)
			}
			refused := ask()
			refused.FailsWith(t, http.StatusTooManyRequests, "insufficient_quota", "budget_exceeded", "")
			if told := "The budget of this API key, " + test.told + " USD this month, is used up"; !strings.Contains(refused.Body, told) {
				t.Errorf("no %q in %s", told, refused.Body)
			}
			if told := " it would reserve " + test.wanted; !strings.Contains(refused.Body, told) || !strings.Contains(refused.Body, `"wanted":`) ||
				!strings.Contains(refused.Body, "max_tokens") {
				t.Errorf("got %s, want %q, the same in details, and max_tokens", refused.Body, told)
			}
			if shown := r.Do(http.MethodGet, "/api/monitoring/budgets", "", "Authorization", "Bearer admin-token").Succeeds(t).Body; !strings.Contains(shown, test.used) {
				t.Errorf("no %s in %s", test.used, shown)
			}
		})
	}
}

// What a backend had in its cache is cheaper in every dialect, and what it writes there has its own price, at the doors that pass its
// answer on as at those that translate it, whole and as a stream.
func TestCachedInputIsCheaperInEveryDialect(t *testing.T) {
	t.Parallel()
	message := `{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":500,"cache_creation_input_tokens":100,"cache_read_input_tokens":400,"output_tokens":500}}`
	events := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"x\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":500,\"cache_creation_input_tokens\":100,\"cache_read_input_tokens\":400,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n" +
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":500}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	candidate := `{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1000,"cachedContentTokenCount":400,"candidatesTokenCount":500,"totalTokenCount":1500}}`
	stream := simulator.Step{Header: http.Header{"Content-Type": {"text/event-stream"}}}
	streamOf := func(body string) simulator.Step { s := stream; s.Body = body; return s }
	for name, test := range map[string]struct {
		adapter, path, body string
		step                simulator.Step
	}{
		"anthropic at chat":               {"anthropic", "/v1/chat/completions", gatewaytest.PlainHi, simulator.Step{Body: message}},
		"anthropic at chat, a stream":     {"anthropic", "/v1/chat/completions", gatewaytest.StreamHi, streamOf(events)},
		"anthropic at messages":           {"anthropic", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, simulator.Step{Body: message}},
		"anthropic at messages, a stream": {"anthropic", "/v1/messages", `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`, streamOf(events)},
		"gemini at chat":                  {"gemini", "/v1/chat/completions", gatewaytest.PlainHi, simulator.Step{Body: candidate}},
		"gemini at chat, a stream":        {"gemini", "/v1/chat/completions", gatewaytest.StreamHi, streamOf("data: " + candidate + "\n\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t, test.step)
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "adapter: "+test.adapter))+gatewaytest.QuotaOn+list)
			r.Post(test.path, test.body).Succeeds(t)
			cost := int64(1200 + 200 + 5000)
			if test.adapter == "anthropic" {
				cost += 100 * 2 // what was written to the cache costs twice as much
			}
			if got, want := counted(t, r), (usage{1, 1500, 1000, 500, cost}); got != want {
				t.Errorf("counted %+v, want %+v", got, want)
			}
		})
	}
}
