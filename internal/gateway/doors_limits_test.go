package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// limitedDoor is a kind of request, with what the limits that count tokens and money make of
// it: their units are a token, and what a token costs.
type limitedDoor struct {
	name string
	door schema.Door
	path string
	body func(*testing.T) (body, contentType string)
	// reported answers and says that it took 700 tokens, silent says nothing.
	reported, silent simulator.Step
	// reserves is what a request reserves, and uses what one does whose backend is silent.
	reserves, uses cost
	// things is what a request costs beside its tokens where the backend reports these.
	things int64
}

// cost is a number of tokens, and what these and other things cost.
type cost struct{ tokens, money int64 }

const (
	// reportedTokens is what backends report, if they do.
	reportedTokens = 700
	// pricesOfDoors make every token cost 1, and an image, a minute of sound and 400
	// characters of speech 200 each.
	pricesOfDoors = "prices: {models: [{model: '*', input: 1000000, output: 1000000, image: 200, minute: 200, characters: 500}]}\n"
)

// limitedDoors returns a request of every door, streamed and passed on where it can be. All
// have a prompt of about a hundred tokens, and answers have a limit of 50, where that can be
// set, as requests without one have.
func limitedDoors(t *testing.T) []limitedDoor {
	t.Helper()
	user := `"messages":[{"role":"user","content":"` + text100 + `"}]`
	inJSON := gatewaytest.JSONBody
	form := func(parts ...gatewaytest.Part) func(*testing.T) (string, string) {
		return gatewaytest.FormBody(append(parts, gatewaytest.Field("model", "m"))...)
	}
	usage := fmt.Sprintf(`{"prompt_tokens":600,"completion_tokens":100,"total_tokens":%d}`, reportedTokens)
	newer := fmt.Sprintf(`{"input_tokens":600,"output_tokens":100,"total_tokens":%d}`, reportedTokens)
	silent := simulator.Step{Text: "hi", Usage: simulator.UsageNone}
	with := func(usage string) simulator.Step { return simulator.Step{Text: "hi", UsageValue: usage} }
	body := func(body string) simulator.Step { return simulator.Step{Body: body} }
	speech := func(usage string) simulator.Step {
		return gatewaytest.EventStep("data: {\"type\":\"speech.audio.delta\",\"audio\":\"AAAA\"}\n\ndata: {\"type\":\"speech.audio.done\"" + usage + "}\n\n")
	}
	rank, image, transcript := `{"results":[{"index":0,"relevance_score":0.5}]`, `{"created":1,"data":[{"url":"http://pictures.test/1.png"}]`, `{"text":"hi"`
	ollamaLine := `{"model":"m","created_at":"2026-11-15T00:18:28Z","message":{"role":"assistant","content":"hi"},"done":true,"done_reason":"stop"`
	contents := `"contents":[{"role":"user","parts":[{"text":"` + text100 + `"}]}]`
	geminiAnswer := `{"candidates":[{"content":{"parts":[{"text":"hi"}],"role":"model"},"finishReason":"STOP","index":0}]`
	infilled := `{"content":"hi","stop":true,"model":"/models/m.gguf"`
	same := func(n int64) cost { return cost{n, n} }
	all := []limitedDoor{
		{"chat", schema.DoorChat, "/v1/chat/completions", inJSON(`{"model":"m","max_tokens":50,` + user + `}`), with(usage), silent, same(154), same(105), 0},
		{"chat, streamed", schema.DoorChat, "/v1/chat/completions", inJSON(`{"model":"m","stream":true,"max_tokens":50,` + user + `}`), with(usage), silent, same(154), same(105), 0},
		{"chat without a limit", schema.DoorChat, "/v1/chat/completions", inJSON(`{"model":"m","max_tokens":-1,` + user + `}`), body(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":` + usage + `}`), body(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`), same(154), same(105), 0},
		{"messages", schema.DoorMessages, "/v1/messages", inJSON(`{"model":"m","max_tokens":50,` + user + `}`), with(usage), silent, same(154), same(105), 0},
		{"messages, streamed", schema.DoorMessages, "/v1/messages", inJSON(`{"model":"m","stream":true,"max_tokens":50,` + user + `}`), with(usage), silent, same(154), same(105), 0},
		{"messages, passed on", schema.DoorMessages, "/v1/messages", inJSON(`{"model":"messages","max_tokens":50,` + user + `}`), with(newer), silent, same(154), same(105), 0},
		{"messages, passed on and streamed", schema.DoorMessages, "/v1/messages", inJSON(`{"model":"messages","stream":true,"max_tokens":50,` + user + `}`), with(newer), silent, same(154), same(105), 0},
		{"responses", schema.DoorResponses, "/v1/responses", inJSON(`{"model":"m","max_output_tokens":50,"input":"` + text100 + `"}`), with(usage), silent, same(150), same(101), 0},
		{"responses, streamed", schema.DoorResponses, "/v1/responses", inJSON(`{"model":"m","stream":true,"max_output_tokens":50,"input":"` + text100 + `"}`), with(usage), silent, same(150), same(101), 0},
		{"responses, passed on", schema.DoorResponses, "/v1/responses", inJSON(`{"model":"responses","max_output_tokens":50,"input":"` + text100 + `"}`), with(newer), silent, same(150), same(101), 0},
		{"responses, passed on and streamed", schema.DoorResponses, "/v1/responses", inJSON(`{"model":"responses","stream":true,"max_output_tokens":50,"input":"` + text100 + `"}`), with(newer), silent, same(150), same(101), 0},
		{"responses, over a WebSocket", schema.DoorResponses, "/v1/responses", inJSON(`{"type":"response.create","model":"m","max_output_tokens":50,"input":"` + text100 + `"}`), with(usage), silent, same(150), same(101), 0},
		{"responses, passed on over a WebSocket", schema.DoorResponses, "/v1/responses", inJSON(`{"type":"response.create","model":"responses","max_output_tokens":50,"input":"` + text100 + `"}`), with(newer), silent, same(150), same(101), 0},
		{"compact", schema.DoorCompact, "/v1/responses/compact", inJSON(`{"model":"m","input":"` + text100 + `"}`), with(usage), silent, same(150), same(101), 0},
		{"completions", schema.DoorCompletions, "/v1/completions", inJSON(`{"model":"m","max_tokens":50,"prompt":"` + text100 + `"}`), with(usage), silent, same(150), same(101), 0},
		{"completions, streamed", schema.DoorCompletions, "/v1/completions", inJSON(`{"model":"m","stream":true,"max_tokens":50,"prompt":"` + text100 + `"}`), with(usage), silent, same(150), same(101), 0},
		{"completions of two prompts", schema.DoorCompletions, "/v1/completions", inJSON(`{"model":"m","max_tokens":50,"n":2,"prompt":["` + text100 + `","` + text100 + `"]}`), with(usage), silent, same(400), same(204), 0},
		{"moderations", schema.DoorModerations, "/v1/moderations", inJSON(`{"model":"m","input":"` + text100 + `"}`), silent, silent, same(100), same(100), 0},
		{"embeddings", schema.DoorEmbeddings, "/v1/embeddings", inJSON(`{"model":"m","input":"` + text100 + `"}`), with(usage), silent, same(100), same(100), 0},
		{"rerank", schema.DoorRerank, "/v1/rerank", inJSON(`{"model":"m","query":"` + text100 + `","documents":["` + text100 + `"]}`), body(rank + `,"usage":` + usage + `}`), body(rank + `}`), same(200), same(200), 0},
		{"speech", schema.DoorSpeech, "/v1/audio/speech", inJSON(`{"model":"m","voice":"v","stream_format":"sse","input":"` + text100 + `"}`), speech(`,"usage":` + newer), speech(""), cost{150, 350}, cost{0, 200}, 200},
		{"images", schema.DoorImages, "/v1/images/generations", inJSON(`{"model":"m","prompt":"` + text100 + `"}`), body(image + `,"usage":` + newer + `}`), body(image + `}`), cost{150, 350}, cost{0, 200}, 200},
		{"image edits", schema.DoorImageEdits, "/v1/images/edits", form(gatewaytest.Field("prompt", text100), gatewaytest.Photo(t, "image")), body(image + `,"usage":` + newer + `}`), body(image + `}`), cost{150, 350}, cost{0, 200}, 200},
		{"transcriptions", schema.DoorTranscriptions, "/v1/audio/transcriptions", form(gatewaytest.Field("prompt", text100), gatewaytest.Recording()), body(transcript + `,"usage":` + newer + `}`), body(transcript + `}`), cost{150, 350}, cost{0, 200}, 0},
		{"translations", schema.DoorTranslations, "/v1/audio/translations", form(gatewaytest.Recording()), body(transcript + `,"usage":` + newer + `}`), body(transcript + `}`), cost{50, 250}, cost{0, 200}, 0},
		{"ollama chat", schema.DoorOllamaChat, "/ollama/api/chat", inJSON(`{"model":"m","stream":false,"options":{"num_predict":50},` + user + `}`), with(usage), silent, same(154), same(105), 0},
		{"ollama chat, streamed", schema.DoorOllamaChat, "/ollama/api/chat", inJSON(`{"model":"m","options":{"num_predict":50},` + user + `}`), with(usage), silent, same(154), same(105), 0},
		{"ollama chat, passed on and streamed", schema.DoorOllamaChat, "/ollama/api/chat", inJSON(`{"model":"ollama","options":{"num_predict":50},` + user + `}`), body(ollamaLine + `,"prompt_eval_count":600,"eval_count":100}`), body(ollamaLine + `}`), same(154), same(105), 0},
		{"ollama generate", schema.DoorOllamaGenerate, "/ollama/api/generate", inJSON(`{"model":"m","stream":false,"options":{"num_predict":50},"prompt":"` + text100 + `"}`), with(usage), silent, same(150), same(101), 0},
		{"ollama generate, streamed", schema.DoorOllamaGenerate, "/ollama/api/generate", inJSON(`{"model":"m","options":{"num_predict":50},"prompt":"` + text100 + `"}`), with(usage), silent, same(150), same(101), 0},
		{"ollama generate without a template", schema.DoorOllamaGenerate, "/ollama/api/generate", inJSON(`{"model":"m","raw":true,"options":{"num_predict":50},"prompt":"` + text100 + `"}`), with(usage), silent, same(150), same(101), 0},
		{"ollama embed", schema.DoorOllamaEmbed, "/ollama/api/embed", inJSON(`{"model":"m","input":"` + text100 + `"}`), with(usage), silent, same(100), same(100), 0},
		{"ollama embeddings", schema.DoorOllamaEmbeddings, "/ollama/api/embeddings", inJSON(`{"model":"m","prompt":"` + text100 + `"}`), with(usage), silent, same(100), same(100), 0},
		{"gemini", schema.DoorGemini, "/v1beta/models/m:generateContent", inJSON(`{"generationConfig":{"maxOutputTokens":50},` + contents + `}`), with(usage), silent, same(154), same(105), 0},
		{"gemini, streamed", schema.DoorGemini, "/v1beta/models/m:streamGenerateContent?alt=sse", inJSON(`{"generationConfig":{"maxOutputTokens":50},` + contents + `}`), with(usage), silent, same(154), same(105), 0},
		{"gemini, streamed as an array", schema.DoorGemini, "/v1/models/m:streamGenerateContent", inJSON(`{"generationConfig":{"maxOutputTokens":50},` + contents + `}`), with(usage), silent, same(154), same(105), 0},
		{"gemini, passed on", schema.DoorGemini, "/v1beta/models/gemini:generateContent", inJSON(`{"generationConfig":{"maxOutputTokens":50},` + contents + `}`), body(geminiAnswer + `,"usageMetadata":{"promptTokenCount":600,"candidatesTokenCount":100,"totalTokenCount":700}}`), body(geminiAnswer + `}`), same(154), same(105), 0},
		{"gemini embed", schema.DoorGeminiEmbed, "/v1beta/models/m:embedContent", inJSON(`{"content":{"parts":[{"text":"` + text100 + `"}]}}`), with(usage), silent, same(100), same(100), 0},
		{"gemini batch embed", schema.DoorGeminiBatchEmbed, "/v1beta/models/m:batchEmbedContents", inJSON(`{"requests":[{"content":{"parts":[{"text":"` + text100 + `"}]}}]}`), with(usage), silent, same(100), same(100), 0},
		{"score", schema.DoorScore, "/v1/score", inJSON(`{"model":"engine","text_1":"` + text100 + `","text_2":["` + text100 + `","` + text100 + `"]}`), with(usage), silent, same(400), same(400), 0},
		{"classify", schema.DoorClassify, "/classify", inJSON(`{"model":"engine","input":["` + text100 + `"]}`), with(usage), silent, same(100), same(100), 0},
		{"pooling", schema.DoorPooling, "/pooling", inJSON(`{"model":"engine","input":"` + text100 + `"}`), with(usage), silent, same(100), same(100), 0},
		{"infill", schema.DoorInfill, "/infill", inJSON(`{"model":"infill","n_predict":50,"input_prefix":"` + text100 + `","input_suffix":""}`), body(infilled + `,"tokens_predicted":100,"tokens_evaluated":600}`), body(infilled + `}`), same(150), same(101), 0},
		{"infill, streamed", schema.DoorInfill, "/infill", inJSON(`{"model":"infill","stream":true,"n_predict":50,"input_prefix":"` + text100 + `","input_suffix":""}`), gatewaytest.EventStep("data: " + infilled + ",\"tokens_predicted\":100,\"tokens_evaluated\":600}\n\n"), gatewaytest.EventStep("data: " + infilled + "}\n\n"), same(150), same(101), 0},
	}
	for _, door := range schema.Doors() {
		found := isUncounted(door)
		for _, d := range all {
			found = found || d.door == door
		}
		if !found {
			t.Fatalf("there is no request for the door %s", door)
		}
	}
	return all
}

// doorLimit is a limit of a key or of a tenant. Two requests pass it, or all where a request
// uses nothing of what it counts.
type doorLimit struct {
	name, members string
	ofTenant      bool
	uses          int64  // what a request uses of it
	code          string // of a refusal
}

// keys are those that the limit holds for: of a tenant it is two, which take turns.
func (l *doorLimit) keys() []string {
	if l.ofTenant {
		return []string{l.name + "-a", l.name + "-b"}
	}
	return []string{l.name}
}

// serialLimits returns limits that leave room for two requests which come one after the
// other, and no more: for what one uses and what the next one reserves.
func serialLimits(reserves, uses cost) (all []doorLimit) {
	room := cost{uses.tokens + reserves.tokens, uses.money + reserves.money}
	for _, ofTenant := range []bool{false, true} {
		of := "key"
		if ofTenant {
			of = "tenant"
		}
		add := func(name, members string, uses int64, code string) {
			all = append(all, doorLimit{of + "-" + name, members, ofTenant, uses, code})
		}
		add("requests", "limits: {requests-per-minute: 2}", 1, "key_rate_limited")
		add("tokens", fmt.Sprintf("limits: {tokens-per-minute: %d}", room.tokens), uses.tokens, "key_rate_limited")
		for _, window := range []string{"day", "month", "total"} {
			add(window+"-requests", fmt.Sprintf("budgets: {%s: {requests: 2}}", window), 1, "budget_exceeded")
			add(window+"-tokens", fmt.Sprintf("budgets: {%s: {tokens: %d}}", window, room.tokens), uses.tokens, "budget_exceeded")
			add(window+"-cost", fmt.Sprintf("budgets: {%s: {cost: %d}}", window, room.money), uses.money, "budget_exceeded")
		}
	}
	return all
}

// parallelLimits returns limits that leave room for what two requests reserve which run at
// the same time, and no more.
func parallelLimits(reserves cost) (all []doorLimit) {
	for _, ofTenant := range []bool{false, true} {
		of := "key-at-once"
		if ofTenant {
			of = "tenant-at-once"
		}
		add := func(name, members, code string) {
			all = append(all, doorLimit{of + "-" + name, members, ofTenant, 1, code})
		}
		add("running", "limits: {concurrent-requests: 2}", "key_rate_limited")
		add("tokens", fmt.Sprintf("limits: {tokens-per-minute: %d}", 2*reserves.tokens), "key_rate_limited")
		add("day-requests", "budgets: {day: {requests: 2}}", "budget_reserved")
		add("day-tokens", fmt.Sprintf("budgets: {day: {tokens: %d}}", 2*reserves.tokens), "budget_reserved")
		add("month-cost", fmt.Sprintf("budgets: {month: {cost: %d}}", 2*reserves.money), "budget_reserved")
	}
	return all
}

// limitedYAML is a configuration with a key for each limit, and a tenant with two of them
// where it is a tenant's.
func limitedYAML(b *simulator.Backend, limits []doorLimit) string {
	keys := map[string]string{"free": ""}
	rest := "  tenants:\n    - {name: nobody}\n"
	for _, l := range limits {
		for _, key := range l.keys() {
			if keys[key] = ", " + l.members; l.ofTenant {
				keys[key] = ", tenant: " + l.name
			}
		}
		if l.ofTenant {
			rest += "    - {name: " + l.name + ", " + l.members + "}\n"
		}
	}
	return strings.Replace(budgeted(everyDoor(b)+gatewaytest.QuotaOn+pricesOfDoors, keys), "security:\n  enabled: true\n", "security:\n  enabled: true\n"+rest, 1)
}

// Every limit of a key and of a tenant holds at every door, whether or not the backend
// reports what requests use, and the ledger counts what it reports.
func TestEveryLimitHoldsAtEveryDoor(t *testing.T) {
	t.Parallel()
	for _, d := range limitedDoors(t) {
		for _, reports := range []bool{true, false} {
			name := d.name + "/silent"
			step, uses := d.silent, d.uses
			if reports {
				if name, step = d.name+"/reported", d.reported; d.door != schema.DoorModerations { // which nobody reports
					uses = cost{reportedTokens, reportedTokens + d.things}
				}
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if strings.Contains(d.name, "WebSocket") {
					gatewaytest.Needs(t, "realtime")
				}
				serial, parallel := serialLimits(d.reserves, uses), parallelLimits(d.reserves)
				b := gatewaytest.StartBackend(t)
				b.ScriptForever(step)
				r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: limitedYAML(b, append(serial, parallel...)), AnswerTokens: 50})
				r.BackendsLie = true // about usage
				answered := checkSerial(t, r, d, serial)
				requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply {
					return r.Do(http.MethodGet, gatewaytest.LongAgo, "", bearer("admin-token")...)
				})
				want := int64(0)
				if reports && d.door != schema.DoorModerations {
					want = answered * reportedTokens
				}
				if requests != answered || tokens != want {
					t.Errorf("the ledger counts %d requests and %d tokens, want %d and %d", requests, tokens, answered, want)
				}
				b.ScriptForever(simulator.Step{Hang: true})
				checkParallel(t, r, b, d, parallel)
			})
		}
	}
}

// checkSerial sends requests one after the other and returns how many were answered.
func checkSerial(t *testing.T, r *gatewaytest.Gateway, d limitedDoor, limits []doorLimit) (answered int64) {
	t.Helper()
	body, contentType := d.body(t)
	for _, l := range limits {
		keys := l.keys()
		for n := range 4 {
			reply := d.do(gatewaytest.Deadline(t), r, body, append(bearer(keys[n%len(keys)]), "Content-Type", contentType)...)
			if passes := n < 2 || l.uses == 0; passes != (reply.Status == http.StatusOK) {
				t.Errorf("%s: request %d is answered with %d: %.300s", l.name, n+1, reply.Status, reply.Body)
			}
			if reply.Status == http.StatusOK {
				answered++
				continue
			}
			l.refuses(t, reply)
		}
	}
	return answered
}

// do sends a request of the door, over a WebSocket where the name says so. The reply has an
// error if the context ends before it.
func (d *limitedDoor) do(ctx context.Context, r *gatewaytest.Gateway, body string, headers ...string) gatewaytest.Reply {
	if !strings.Contains(d.name, "WebSocket") {
		response, err := r.Client.Do(r.Request(ctx, http.MethodPost, d.path, body, headers...))
		if err != nil {
			return gatewaytest.Reply{Err: err}
		}
		return gatewaytest.ReadReply(response)
	}
	s, reply := r.Dial(d.path, headers...)
	if s == nil {
		return reply
	}
	defer func() { _ = s.CloseNow() }()
	defer context.AfterFunc(ctx, func() { _ = s.CloseNow() })()
	s.Send(body)
	for {
		text, err := s.Next()
		if err != nil {
			return gatewaytest.Reply{Err: err}
		}
		switch event := gatewaytest.DecodeObject(r.T, text); event["type"] {
		case "response.completed":
			return gatewaytest.Reply{Status: http.StatusOK, Body: text}
		case "error":
			return gatewaytest.Reply{Status: int(event["status"].(float64)), Body: text}
		}
	}
}

// refuses checks a refusal.
func (l *doorLimit) refuses(t *testing.T, reply gatewaytest.Reply) {
	t.Helper()
	object := gatewaytest.DecodeObject(t, reply.Body)
	code, _ := object["code"].(string) // in the shape of Ollama's API
	switch value := object["error"].(type) {
	case map[string]any:
		if code, _ = value["code"].(string); value["status"] == "RESOURCE_EXHAUSTED" { // in Google's
			code, _ = gatewaytest.At(t, object, "error/details/0/reason").(string)
		}
	}
	if reply.Status != http.StatusTooManyRequests || code != l.code {
		t.Errorf("%s: refused with %d %.300s", l.name, reply.Status, reply.Body)
	}
}

// checkParallel sends requests that run at the same time, because the backend answers none.
func checkParallel(t *testing.T, r *gatewaytest.Gateway, b *simulator.Backend, d limitedDoor, limits []doorLimit) {
	t.Helper()
	body, contentType := d.body(t)
	ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
	ended := make(chan gatewaytest.Reply, 2*len(limits))
	running := 0
	for _, l := range limits {
		keys := l.keys()
		for n := range 2 {
			before := len(b.Requests())
			headers := append(bearer(keys[n%len(keys)]), "Content-Type", contentType)
			running++
			go func() { ended <- d.do(ctx, r, body, headers...) }()
			gatewaytest.Eventually(t, l.name+": request "+strconv.Itoa(n+1)+" reaches the backend", func() bool {
				if len(ended) > 0 {
					t.Fatalf("%s: a request ended with %+v", l.name, <-ended)
				}
				return len(b.Requests()) > before
			})
		}
		l.refuses(t, d.do(gatewaytest.Deadline(t), r, body, append(bearer(keys[0]), "Content-Type", contentType)...))
	}
	leave()
	for range running {
		<-ended
	}
}

// The rate limits of a service type, and those of each of its clients, hold at every door.
func TestRateLimitsHoldAtEveryDoor(t *testing.T) {
	t.Parallel()
	const capacity = 25 // in as many seconds, which is long for so few requests
	tested := map[schema.Door]bool{}
	for _, d := range limitedDoors(t) {
		if tested[d.door] {
			continue
		}
		tested[d.door] = true
		for name, perClient := range map[string]bool{"service": false, "client": true} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				if strings.Contains(d.name, "WebSocket") {
					gatewaytest.Needs(t, "realtime")
				}
				b := gatewaytest.StartBackend(t)
				b.ScriptForever(d.silent)
				limit := fmt.Sprintf("{rate-limit: {algorithm: sliding-window, capacity: %d, refill-rate: 1, client-ip-enable: %t}, ", capacity, perClient)
				service := d.door.Service().String() + ": {"
				r := gatewaytest.Start(t, strings.Replace(everyDoor(b), service, d.door.Service().String()+": "+limit, 1))
				r.BackendsLie = true // about usage
				body, contentType := d.body(t)
				ask := func(from string) gatewaytest.Reply {
					return r.Do(http.MethodPost, d.path, body, "Content-Type", contentType, "X-Forwarded-For", from)
				}
				for n := range capacity {
					if reply := ask("192.0.2.1"); reply.Status != http.StatusOK {
						t.Fatalf("request %d of %d is refused: %d %.300s", n+1, capacity, reply.Status, reply.Body)
					}
				}
				limited := doorLimit{name: name, code: "rate_limit_exceeded"}
				limited.refuses(t, ask("192.0.2.1"))
				if other := ask("192.0.2.2"); perClient && other.Status != http.StatusOK {
					t.Errorf("another client is refused: %d %.300s", other.Status, other.Body)
				} else if !perClient {
					limited.refuses(t, other)
				}
			})
		}
	}
}
