package v1_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const (
	messageHi       = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`
	messageStreamHi = `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// everyMessageBackend runs a test against a backend of each dialect.
func everyMessageBackend(t *testing.T, setup gatewaytest.Setup, test func(t *testing.T, r *gatewaytest.Gateway, b *simulator.Backend)) {
	t.Helper()
	for _, adapter := range []string{"openai", "ollama", "anthropic", "gemini"} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			s := setup
			s.YAML += "services: {" + gatewaytest.ServiceEntry("chat", gatewaytest.Instance("m", b.URL(), "adapter: "+adapter)) + "}\n"
			test(t, gatewaytest.StartWith(t, s), b)
		})
	}
}

// doorEvent is an event of a stream with named events.
type doorEvent struct{ name, data string }

// doorEvents reads a stream with named events strictly.
func doorEvents(t *testing.T, body string) []doorEvent {
	t.Helper()
	var events []doorEvent
	for part := range strings.SplitSeq(body, "\n\n") {
		if part == "" || strings.HasPrefix(part, ":") {
			continue
		}
		name, data, ok := strings.Cut(part, "\ndata: ")
		if name, isEvent := strings.CutPrefix(name, "event: "); ok && isEvent && !strings.Contains(data, "\n") {
			events = append(events, doorEvent{name, data})
			continue
		}
		t.Errorf("%q is no event", part)
	}
	return events
}

// checkOrder checks the order of the events of a complete message, and returns its text.
func checkOrder(t *testing.T, events []doorEvent) (text string) {
	t.Helper()
	if len(events) < 3 || events[0].name != "message_start" || events[len(events)-2].name != "message_delta" || events[len(events)-1].name != "message_stop" {
		t.Fatalf("events %v", events)
	}
	open, index := false, 0.0
	for _, e := range events[1 : len(events)-2] {
		if e.name == "ping" {
			continue
		}
		object := gatewaytest.DecodeObject(t, e.data)
		if object["type"] != e.name || object["index"] != index {
			t.Fatalf("event %v, want index %v", e, index)
		}
		switch {
		case e.name == "content_block_start" && !open:
			open = true
		case e.name == "content_block_delta" && open:
			if delta, ok := gatewaytest.At(t, object, "delta/text").(string); ok {
				text += delta
			}
		case e.name == "content_block_stop" && open:
			open = false
			index++
		default:
			t.Fatalf("%v does not belong here: %v", e, events)
		}
	}
	if open {
		t.Errorf("the last block is open: %v", events)
	}
	return text
}

func TestMessagesAreServedByEveryDialect(t *testing.T) {
	everyMessageBackend(t, gatewaytest.Setup{}, func(t *testing.T, r *gatewaytest.Gateway, b *simulator.Backend) {
		for _, path := range []string{"/v1/messages", "/messages"} {
			reply := r.Do("POST", path, messageHi).Succeeds(t)
			object := gatewaytest.DecodeObject(t, reply.Body)
			if object["type"] != "message" || object["model"] != "m" || object["stop_reason"] != "end_turn" || gatewaytest.At(t, object, "content/0/text") == "" {
				t.Errorf("%s", reply.Body)
			}
			if id := reply.Header.Get("Request-Id"); id == "" || id != reply.Header.Get("X-Request-Id") {
				t.Errorf("request-id %q, x-request-id %q", id, reply.Header.Get("X-Request-Id"))
			}
		}
		reply := r.Do("POST", "/v1/messages", messageStreamHi).Succeeds(t)
		if kind := reply.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
			t.Errorf("content type %q", kind)
		}
		events := doorEvents(t, reply.Body)
		if text := checkOrder(t, events); text == "" {
			t.Errorf("no text in %v", events)
		}
		if last := gatewaytest.DecodeObject(t, events[len(events)-2].data); gatewaytest.At(t, last, "usage/output_tokens").(float64) == 0 {
			t.Errorf("no usage in %s", events[len(events)-2].data)
		}
		if strings.Contains(reply.Body, "[DONE]") {
			t.Error("the mark of another dialect")
		}
	})
}

// fails checks an error in the shape of the Messages API.
func failsAsMessage(t *testing.T, reply gatewaytest.Reply, status int, kind, code string) {
	t.Helper()
	object := gatewaytest.DecodeObject(t, reply.Body)
	if reply.Status != status || object["type"] != "error" || gatewaytest.At(t, object, "error/type") != kind || gatewaytest.At(t, object, "error/code") != code ||
		gatewaytest.At(t, object, "error/message") == "" || object["request_id"] != reply.Header.Get("Request-Id") || reply.Header.Get("Request-Id") == "" {
		t.Errorf("status %d, request-id %q: %s; want %d %s %s", reply.Status, reply.Header.Get("Request-Id"), reply.Body, status, kind, code)
	}
}

func TestEveryRefusalOfAMessageHasItsShape(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	chat := gatewaytest.ServiceEntry("chat", gatewaytest.Instance("m", b.URL()))
	t.Run("request", func(t *testing.T) {
		r := gatewaytest.Start(t, "limits: {json-body: 4KiB}\nservices: {"+chat+"}\n")
		for body, code := range map[string]string{
			`{`:                            "invalid_json",
			`[]`:                           "invalid_json",
			`{"model":"m"}`:                "missing_parameter",
			`{"messages":[]}`:              "missing_parameter",
			`{"model":"m","messages":[]}`:  "invalid_value",
			`{"model":"m","messages":"x"}`: "invalid_value",
			`{"model":"m","max_tokens":9,"messages":["x"]}`:                                                                                        "invalid_value",
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[]}]}`:                                                               "invalid_value",
			`{"model":"m","Model":"n","messages":[{"role":"user","content":"x"}]}`:                                                                 "invalid_json",
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"stream":1}`:                                                   "invalid_value",
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`: "invalid_value",
		} {
			failsAsMessage(t, r.Do("POST", "/v1/messages", body), 400, "invalid_request_error", code)
		}
		failsAsMessage(t, r.Do("POST", "/v1/messages", `{"model":"`+strings.Repeat("x", 5000)+`"}`), 413, "request_too_large", "request_too_large")
		failsAsMessage(t, r.Do("POST", "/v1/messages", strings.Replace(messageHi, `"m"`, `"unknown"`, 1)), 503, "overloaded_error", "service_unavailable")
		failsAsMessage(t, r.Do("GET", "/v1/messages", ""), 405, "invalid_request_error", "method_not_allowed")
		failsAsMessage(t, r.Do("POST", "/v1/messages/files", "{}"), 404, "not_found_error", "unknown_endpoint")
		failsAsMessage(t, r.Do("POST", "/v1/messages", messageHi, "Content-Encoding", "gzip"), 415, "invalid_request_error", "unsupported_media_type")
		gatewaytest.Needs(t, "batches")
		failsAsMessage(t, r.Do("POST", "/v1/messages/batches", "{}"), 404, "not_found_error", "batches_off")
	})
	t.Run("key", func(t *testing.T) {
		r := gatewaytest.Start(t, "security: {enabled: true, keys: [{id: k1, key-sha256: "+gatewaytest.HashOf("secret-key-1")+"}]}\nservices: {"+chat+"}\n")
		failsAsMessage(t, r.Do("POST", "/v1/messages", messageHi), 401, "authentication_error", "invalid_api_key")
		r.Do("POST", "/v1/messages", messageHi, "x-api-key", "secret-key-1").Succeeds(t)
		r.Do("POST", "/v1/messages", messageHi, "Authorization", "Bearer secret-key-1").Succeeds(t)
	})
	t.Run("limit", func(t *testing.T) {
		r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {algorithm: sliding-window, capacity: 30, refill-rate: 1}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL())))
		reply := r.Do("POST", "/v1/messages", messageHi)
		for range 30 {
			reply = r.Do("POST", "/v1/messages", messageHi)
		}
		failsAsMessage(t, reply, 429, "rate_limit_error", "rate_limit_exceeded")
		if reply.Header.Get("Retry-After") == "" || reply.Header.Get("X-Ratelimit-Limit-Requests") != "30" {
			t.Errorf("headers %v", reply.Header)
		}
	})
	t.Run("backend", func(t *testing.T) {
		r, b := gatewaytest.StartOne(t)
		b.Script(simulator.Step{Status: 400, Body: `{"error":{"message":"prompt is too long"}}`})
		reply := r.Do("POST", "/v1/messages", messageHi)
		failsAsMessage(t, reply, 400, "invalid_request_error", "context_length_exceeded")
		if !strings.Contains(reply.Body, "prompt is too long") {
			t.Errorf("%s", reply.Body)
		}
		b.Script(simulator.Step{Status: 500})
		failsAsMessage(t, r.Do("POST", "/v1/messages", messageHi), 500, "api_error", "upstream_error")
	})
}

// A stream that breaks ends in an error event and never in message_stop; the error
// counts as it does for chat.
func TestBrokenMessageStreamEndsInAnErrorEvent(t *testing.T) {
	everyMessageBackend(t, gatewaytest.Setup{}, func(t *testing.T, r *gatewaytest.Gateway, b *simulator.Backend) {
		for name, step := range map[string]simulator.Step{
			"error": {StreamError: "the model died", After: 4},
			"cut":   {Stop: simulator.StopEnd, After: 4},
			"reset": {Stop: simulator.StopReset, After: 4},
		} {
			b.Script(step)
			reply := r.Do("POST", "/v1/messages", messageStreamHi)
			events := doorEvents(t, reply.Body)
			last := events[len(events)-1]
			if reply.Status != 200 || events[0].name != "message_start" || last.name != "error" {
				t.Errorf("%s: %d %v", name, reply.Status, events)
			}
			if object := gatewaytest.DecodeObject(t, last.data); object["type"] != "error" || gatewaytest.At(t, object, "error/type") != "api_error" || object["request_id"] != reply.Header.Get("Request-Id") {
				t.Errorf("%s: %s", name, last.data)
			}
			if strings.Contains(reply.Body, "message_stop") {
				t.Errorf("%s: the message looks complete: %s", name, reply.Body)
			}
		}
	})
}

// Before the first content a failure leads to another instance, also where a backend
// of the same dialect has already sent the start of its message.
func TestMessageFailsOverBeforeTheFirstContent(t *testing.T) {
	t.Parallel()
	for _, adapter := range []string{"openai", "anthropic"} {
		bad, good := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
		bad.Script(simulator.Step{StreamError: "overloaded", After: 1})
		if adapter == "openai" {
			bad.Script(simulator.Step{StreamError: "overloaded"})
		}
		r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: round-robin, "+gatewaytest.NoBreakerNoChecks,
			gatewaytest.Instance("m", bad.URL(), "adapter: "+adapter), gatewaytest.Instance("m", good.URL(), "adapter: "+adapter)))
		failed := false
		for range 2 {
			reply := r.Do("POST", "/v1/messages", messageStreamHi).Succeeds(t)
			checkOrder(t, doorEvents(t, reply.Body))
			failed = failed || reply.Header.Get("X-Router-Attempts") == "2"
		}
		if !failed {
			t.Errorf("%s: no failover", adapter)
		}
	}
}

// While the backend is silent the client gets pings.
func TestSilentMessageStreamGetsPings(t *testing.T) {
	everyMessageBackend(t, gatewaytest.Setup{KeepAlive: 20 * time.Millisecond}, func(t *testing.T, r *gatewaytest.Gateway, b *simulator.Backend) {
		b.Script(simulator.Step{Stop: simulator.StopStall, After: 4})
		response := r.Open(t.Context(), "POST", "/v1/messages", messageStreamHi)
		defer func() { _ = response.Body.Close() }()
		for from := bufio.NewReader(response.Body); ; {
			line, err := from.ReadString('\n')
			if err != nil {
				t.Fatalf("no ping before the end: %v", err)
			}
			if line == "event: ping\n" {
				break
			}
		}
	})
}

// To a backend of the same dialect the bytes pass as they came, with what belongs to
// the dialect and nothing else of the client's.
func TestMessageBytesPassToAnthropic(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services: {"+gatewaytest.ServiceEntry("chat", gatewaytest.Instance("m", b.URL(), "adapter: anthropic", "api-key: backend-key-1"))+"}\n")
	body := `{ "unknown":{"a":1.50,"b":[ 1e2 ]}, "model":"m" ,"max_tokens":9007199254740993,"messages":[{"role":"user","content":[{"type":"text","text":"h\u0069","cache_control":{"type":"ephemeral"}}]}],"context_management":{"edits":[]} }`
	r.Do("POST", "/v1/messages?beta=true&other=1", body, "anthropic-beta", "one,two", "anthropic-version", "2024-01-01", "x-api-key", "callers-key", "X-Private", "x").Succeeds(t)
	sent := gatewaytest.OnlyRequest(t, b)
	if string(sent.Body) != body {
		t.Errorf("sent %s\nwant %s", sent.Body, body)
	}
	for name, want := range map[string]string{"Anthropic-Beta": "one,two", "Anthropic-Version": "2024-01-01", "X-Api-Key": "backend-key-1", "X-Private": "", "Authorization": ""} {
		if got := sent.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if sent.Path != "/v1/messages?beta=true" {
		t.Errorf("path %q", sent.Path)
	}
}

// Clients that keep conversations as threads go on without one when the code in the
// details says that there are none here, or that the backend has forgotten this one.
func TestThreadsOfMessages(t *testing.T) {
	t.Parallel()
	const body = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}],"thread":{"type":"create"}}`
	everyMessageBackend(t, gatewaytest.Setup{}, func(t *testing.T, r *gatewaytest.Gateway, b *simulator.Backend) {
		status, want := 400, "thread_unsupported_request"
		if strings.HasSuffix(t.Name(), "/anthropic") {
			r.Do("POST", "/v1/messages", body).Succeeds(t)
			if sent := gatewaytest.OnlyRequest(t, b); string(sent.Body) != body {
				t.Errorf("sent %s", sent.Body)
			}
			status, want = 404, "thread_not_found"
			b.Script(simulator.Step{Status: 404, Body: `{"type":"error","error":{"type":"not_found_error","message":"gone","details":{"error_code":"thread_not_found"}}}`})
		}
		reply := r.Do("POST", "/v1/messages", body)
		if reply.Status != status || gatewaytest.At(t, gatewaytest.DecodeObject(t, reply.Body), "error/details/error_code") != want {
			t.Errorf("%d %s, want %d and the code %s", reply.Status, reply.Body, status, want)
		}
		// A null is no thread, as everywhere.
		r.Do("POST", "/v1/messages", strings.Replace(body, `{"type":"create"}`, "null", 1)).Succeeds(t)
	})
}

// The ledger, the records and the metrics know the request, its user and its door.
func TestMessagesAreCountedAsChatAndByDoor(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.QuotaOn+"services: {"+gatewaytest.ServiceEntry("chat", gatewaytest.Instance("m", b.URL()))+"}\n")
	reply := r.Do("POST", "/v1/messages", strings.Replace(messageHi, "{", `{"metadata":{"user_id":"alice"},`, 1)).Succeeds(t)
	object := gatewaytest.DecodeObject(t, reply.Body)
	tokens := gatewaytest.At(t, object, "usage/input_tokens").(float64) + gatewaytest.At(t, object, "usage/output_tokens").(float64)
	r.HasCounted(1, int64(tokens), "&serviceType=chat&userId=alice")
	if n := r.Scrape()[fmt.Sprintf(`model_router_door_requests_total{door=%q,service="chat",status="success"}`, "messages")]; n != 1 {
		t.Errorf("counted %v times by its door", n)
	}
	if sent := string(gatewaytest.OnlyRequest(t, b).Body); !strings.Contains(sent, `"user":"alice"`) {
		t.Errorf("sent %s", sent)
	}
}

// A backend that counts tokens is asked; where none can, the gateway estimates and
// says so. Neither is counted.
func TestTokensAreCountedByTheBackendOrEstimated(t *testing.T) {
	t.Parallel()
	for adapter, answer := range map[string]struct{ path, body string }{
		"anthropic": {"/v1/messages/count_tokens", `{"input_tokens":41}`},
		"llamacpp":  {"/v1/messages/count_tokens", `{"input_tokens":41}`},
		"vllm":      {"/tokenize", `{"count":41,"max_model_len":4096,"tokens":[1]}`},
		"gemini":    {"/v1beta/models/m:countTokens", `{"totalTokens":41}`},
	} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t, simulator.Step{Body: answer.body}, simulator.Step{Status: 404, Body: `{"error":"no such path"}`})
			r := gatewaytest.Start(t, gatewaytest.QuotaOn+"services: {"+gatewaytest.ServiceEntry("chat", gatewaytest.Instance("m", b.URL(), "adapter: "+adapter))+"}\n")
			reply := r.Do("POST", "/v1/messages/count_tokens", messageHi).Succeeds(t)
			if reply.Body != `{"input_tokens":41}` || reply.Header.Get("X-Router-Estimated") != "" {
				t.Errorf("%s", reply.Body)
			}
			if sent := gatewaytest.OnlyRequest(t, b); sent.Path != answer.path {
				t.Errorf("asked at %s", sent.Path)
			}
			reply = r.Do("POST", "/v1/messages/count_tokens", messageHi).Succeeds(t)
			if object := gatewaytest.DecodeObject(t, reply.Body); object["estimated"] != true || reply.Header.Get("X-Router-Estimated") != "true" {
				t.Errorf("after an error: %s", reply.Body)
			}
			r.HasCounted(0, 0, "")
		})
	}
	t.Run("others", func(t *testing.T) {
		t.Parallel()
		b := gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {algorithm: sliding-window, capacity: 1, refill-rate: 1}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL(), "adapter: ollama")))
		for range 3 {
			reply := r.Do("POST", "/v1/messages/count_tokens", messageHi).Succeeds(t)
			if object := gatewaytest.DecodeObject(t, reply.Body); object["estimated"] != true || object["input_tokens"].(float64) < 1 {
				t.Errorf("%s", reply.Body)
			}
		}
		if n := b.Stats().Arrived; n != 0 {
			t.Errorf("the backend got %d requests", n)
		}
		failsAsMessage(t, r.Do("POST", "/v1/messages/count_tokens", strings.Replace(messageHi, `"m"`, `"unknown"`, 1)), 503, "overloaded_error", "service_unavailable")
		failsAsMessage(t, r.Do("POST", "/v1/messages/count_tokens", `{"model":"m"}`), 400, "invalid_request_error", "missing_parameter")
	})
}

// A caller that says which version of Anthropic's API it speaks gets the models in
// its shape, in pages.
func TestModelsInTheShapeOfTheMessagesAPI(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services: {"+gatewaytest.ServiceEntry("chat", gatewaytest.Instance("a", b.URL()), gatewaytest.Instance("b", b.URL()), gatewaytest.Instance("c/d", b.URL()))+"}\n")
	get := func(path string) gatewaytest.Reply { return r.Do("GET", path, "", "anthropic-version", "2023-06-01") }
	for path, want := range map[string]string{
		"/v1/models":                          `a b c/d false`,
		"/models?limit=2":                     `a b true`,
		"/v1/models?limit=2&after_id=b":       `c/d false`,
		"/v1/models?limit=1&before_id=c%2Fd":  `b true`,
		"/v1/models?limit=10&before_id=c%2Fd": `a b false`,
	} {
		reply := get(path).Succeeds(t)
		object := gatewaytest.DecodeObject(t, reply.Body)
		got := ""
		for _, m := range object["data"].([]any) {
			if gatewaytest.At(t, m, "type") != "model" || gatewaytest.At(t, m, "display_name") != gatewaytest.At(t, m, "id") || gatewaytest.At(t, m, "lifecycle") != "active" || !strings.HasSuffix(gatewaytest.At(t, m, "created_at").(string), "Z") {
				t.Errorf("%v", m)
			}
			got += gatewaytest.At(t, m, "id").(string) + " "
		}
		if got += fmt.Sprint(object["has_more"]); got != want || reply.Header.Get("Request-Id") == "" {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if object := gatewaytest.DecodeObject(t, get("/v1/models/c/d").Succeeds(t).Body); object["type"] != "model" || object["id"] != "c/d" {
		t.Errorf("%v", object)
	}
	failsAsMessage(t, get("/v1/models/unknown"), 404, "not_found_error", "model_not_found")
	failsAsMessage(t, get("/v1/models?limit=0"), 400, "invalid_request_error", "invalid_value")
	// The query means the same to a caller that does not send the header.
	for path, want := range map[string]string{
		"/v1/models": "[a b c/d]", "/v1/models?limit=2": "[a b]", "/v1/models?limit=2&after_id=b": "[c/d]", "/v1/models?limit=1&before_id=c%2Fd": "[b]",
	} {
		ids := []any{}
		for _, m := range gatewaytest.DecodeObject(t, r.Do("GET", path, "").Succeeds(t).Body)["data"].([]any) {
			ids = append(ids, gatewaytest.At(t, m, "id"))
		}
		if fmt.Sprint(ids) != want {
			t.Errorf("%s: %v, want %s", path, ids, want)
		}
	}
	for _, limit := range []string{"0", "1001", "many"} {
		if reply := r.Do("GET", "/v1/models?limit="+limit, ""); reply.Status != 400 || !strings.Contains(string(reply.Body), "'limit' must be between 1 and 1000.") {
			t.Errorf("limit %s: %d %s", limit, reply.Status, reply.Body)
		}
	}
	if object := gatewaytest.DecodeObject(t, r.Do("GET", "/v1/models", "").Succeeds(t).Body); object["object"] != "list" {
		t.Errorf("%v", object)
	}
}
