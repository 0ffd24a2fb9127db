package v1_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// A key for one model does not get another one served with a form that names
// both: what was permitted is what goes upstream.
func TestAFormCannotNameTwoModels(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	var entries []string
	for _, service := range []string{"stt", "imgEdit"} {
		entries = append(entries, gatewaytest.ServiceEntry(service, gatewaytest.Instance("m1", b.URL(), "upstream-model: theirs"), gatewaytest.Instance("f1", b.URL())))
	}
	r := gatewaytest.Start(t, "services: {"+strings.Join(entries, ",\n")+"}\n"+fmt.Sprintf(`
security: {enabled: true, keys: [{id: narrow, key-sha256: %s, models: [m1]}]}
`, gatewaytest.HashOf("narrow")))
	for path, rest := range map[string][]gatewaytest.Part{
		gatewaytest.Transcriptions: {gatewaytest.Upload("file", "a.wav", "audio/wav", "RIFF")},
		"/v1/images/edits":         {gatewaytest.Upload("image", "a.png", "image/png", gatewaytest.Picture(t, 8, 8)), gatewaytest.Field("prompt", "p")},
	} {
		post := func(parts ...gatewaytest.Part) gatewaytest.Reply {
			t.Helper()
			var body strings.Builder
			contentType := gatewaytest.WriteForm(t, &body, slices.Concat(parts, rest)...)
			return r.Do(http.MethodPost, path, body.String(), "Content-Type", contentType, "Authorization", "Bearer narrow")
		}
		for name, models := range map[string][]gatewaytest.Part{
			"twice":                 {gatewaytest.Field("model", "m1"), gatewaytest.Field("model", "f1")},
			"the other one first":   {gatewaytest.Field("model", "f1"), gatewaytest.Field("model", "m1")},
			"the same one twice":    {gatewaytest.Field("model", "m1"), gatewaytest.Field("model", "m1")},
			"in brackets":           {gatewaytest.Field("model", "m1"), gatewaytest.Field("model[]", "f1")},
			"in brackets, first":    {gatewaytest.Field("model[]", "m1"), gatewaytest.Field("model", "f1")},
			"with a number":         {gatewaytest.Field("model", "m1"), gatewaytest.Field("model[0]", "f1")},
			"as a file":             {gatewaytest.Field("model", "m1"), gatewaytest.Upload("model", "f", "text/plain", "f1")},
			"as a file, first":      {gatewaytest.Upload("model", "f", "text/plain", "f1"), gatewaytest.Field("model", "m1")},
			"as a file in brackets": {gatewaytest.Field("model", "m1"), gatewaytest.Upload("model[]", "f", "", "f1")},
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				post(models...).FailsWith(t, 400, "invalid_request_error", "invalid_value", "model")
			})
		}
		post(gatewaytest.Field("model", "m1"), gatewaytest.Field("response_format", "json"), gatewaytest.Field("response_format", "text")).
			FailsWith(t, 400, "invalid_request_error", "invalid_value", "response_format")
		post(gatewaytest.Field("model", "f1")).FailsWith(t, 403, "permission_error", "permission_denied", "")
		if got := b.Stats().Arrived; got != 0 {
			t.Errorf("the backend got %d requests", got)
		}
	}
	var form strings.Builder
	contentType := gatewaytest.WriteForm(t, &form, gatewaytest.Field("model[]", "m1"), gatewaytest.Upload("file", "a.wav", "audio/wav", "RIFF"))
	r.Do(http.MethodPost, gatewaytest.Transcriptions, form.String(), "Content-Type", contentType, "Authorization", "Bearer narrow").Succeeds(t)
	var models []gatewaytest.Part
	for _, p := range partsOf(t, gatewaytest.OnlyRequest(t, b)) {
		if strings.HasPrefix(p.Name, "model") {
			models = append(models, gatewaytest.Part{Name: p.Name, Value: p.Value})
		}
	}
	if want := []gatewaytest.Part{gatewaytest.Field("model", "theirs")}; !slices.Equal(models, want) {
		t.Errorf("the backend got the models %v, want %v", models, want)
	}
}

// eventStream is a step that answers with these events.
func eventStream(events ...string) simulator.Step {
	return simulator.Step{Body: strings.Join(events, "\n\n") + "\n\n", Header: http.Header{"Content-Type": {"text/event-stream"}}}
}

const (
	streamBegins = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"he"},"finish_reason":null}]}`
	streamEnds   = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
)

// What a backend says in a stream that is no part of the answer is an error
// wherever it stands, and its secrets stay here.
func TestEventsThatAreNoChunksDoNotReachTheCaller(t *testing.T) {
	t.Parallel()
	const secret, address = "sk-backendsecret", "http://10.0.0.1/v1"
	for name, event := range map[string]string{
		"a name":           "event: error\ndata: {\"message\":\"bad key " + secret + " at " + address + "\"}",
		"a name and text":  "event: error\ndata: bad key " + secret + " at " + address,
		"a message":        `data: {"message":"bad key ` + secret + ` at ` + address + `","code":500}`,
		"a detail":         `data: {"detail":"bad key ` + secret + ` at ` + address + `"}`,
		"a list":           `data: [{"error":{"message":"bad key ` + secret + ` at ` + address + `"}}]`,
		"no choices":       `data: {"choices":null,"text":"` + secret + ` at ` + address + `"}`,
		"a choice of null": `data: {"choices":[null],"text":"` + secret + ` at ` + address + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := gatewaytest.StartOne(t, eventStream(event, "data: [DONE]"), eventStream(streamBegins, event, streamEnds, "data: [DONE]"))
			first := r.Chat(gatewaytest.StreamHi)
			first.FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			later := r.Chat(gatewaytest.StreamHi).Succeeds(t)
			events := gatewaytest.EventsOf(t, later.Body)
			if len(events) != 2 || gatewaytest.ErrorOf(t, events[1]).Code != "upstream_error" || strings.Contains(later.Body, "[DONE]") {
				t.Errorf("events %q", events)
			}
			if all := first.Body + later.Body + r.Logs.String(); strings.Contains(all, secret) || strings.Contains(all, "10.0.0.1") {
				t.Errorf("a secret got out: %s", all)
			}
			bad, good := gatewaytest.StartBackend(t, eventStream(event, "data: [DONE]")), gatewaytest.StartBackend(t, simulator.Step{Text: "fine"})
			r = gatewaytest.Start(t, gatewaytest.PoolYAML(bad, good))
			if events := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body); gatewaytest.TextOf(t, events) != "fine" {
				t.Errorf("the other instance did not take over: %q", events)
			}
		})
	}
}

func TestUnusualEndsOfCompleteStreamsAreAccepted(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]simulator.Step{
		"blanks behind the mark": eventStream(streamBegins, "data: [DONE] \t"),
		"no blank before it":     eventStream(streamBegins, "data:[DONE]"),
		"noise behind the end":   eventStream(streamBegins, streamEnds, "data: bye"),
		"signs of life":          eventStream("data: {}", `data: {"type":"ping"}`, streamBegins, "data: null", "data:", streamEnds),
		"empty reasons":          eventStream(strings.Replace(streamBegins, `"finish_reason":null`, `"finish_reason":""`, 1), streamEnds),
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := gatewaytest.StartOne(t, step)
			if events := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body); gatewaytest.TextOf(t, events) != "he" || events[len(events)-1] != "[DONE]" {
				t.Errorf("events %q", events)
			}
		})
	}
	r, _ := gatewaytest.StartOne(t, eventStream(strings.Replace(streamBegins, `"finish_reason":null`, `"finish_reason":""`, 1)))
	events := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body)
	if len(events) != 2 || gatewaytest.ErrorOf(t, events[1]).Code != "upstream_stream_truncated" {
		t.Errorf("a stream that only has empty reasons: %q", events)
	}
}

func TestUnpairedSurrogatesArePassedOn(t *testing.T) {
	t.Parallel()
	half := func(escape string) string {
		return strings.Replace(streamBegins, `"content":"he"`, `"content":"`+escape+`"`, 1)
	}
	r, _ := gatewaytest.StartOne(t, eventStream(half(`\ud83d`), half(`\ude00`), streamEnds), simulator.Step{
		Body: "\ufeff" + strings.Replace(gatewaytest.RawBody, `h\u00e9`, `\ud83d`, 1), Header: http.Header{"Content-Type": {"application/json"}},
	})
	r.BackendsLie = true
	if body := r.Chat(gatewaytest.StreamHi).Succeeds(t).Body; !strings.Contains(body, half(`\ud83d`)) || !strings.Contains(body, half(`\ude00`)) {
		t.Errorf("the stream is %s", body)
	}
	want := strings.Replace(strings.Replace(gatewaytest.RawBody, `h\u00e9`, `\ud83d`, 1), `"their-name"`, `"m"`, 1)
	if body := r.Chat(gatewaytest.PlainHi).Succeeds(t).Body; body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

// A backend that has an answer in another form than one caller wants is still
// there for the others.
func TestAnotherFormDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Body: `{"text":"hello"}`})
	r := gatewaytest.Start(t, "services: {stt: {circuit-breaker: {failure-threshold: 2}, health-check: {enabled: false}, instances: ["+gatewaytest.Instance("m", b.URL())+"]}}\n")
	for range 5 {
		r.PostForm(gatewaytest.Transcriptions, gatewaytest.Field("model", "m"), gatewaytest.Field("response_format", "vtt"), gatewaytest.Upload("file", "a.wav", "audio/wav", "RIFF")).
			FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
	}
	r.PostForm(gatewaytest.Transcriptions, gatewaytest.Field("model", "m"), gatewaytest.Upload("file", "a.wav", "audio/wav", "RIFF")).Succeeds(t)
}

func TestRefusalsWithoutAKeyNameTheScheme(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, fmt.Sprintf("security: {enabled: true, keys: [{id: a, key-sha256: %s}]}\n", gatewaytest.HashOf("key")))
	for _, path := range []string{"/v1/chat/completions", "/v1/models", "/v1/audio/transcriptions"} {
		method := http.MethodPost
		if path == "/v1/models" {
			method = http.MethodGet
		}
		answer := r.Do(method, path, "")
		answer.FailsWith(t, http.StatusUnauthorized, "authentication_error", "invalid_api_key", "")
		if got := answer.Header.Get("Www-Authenticate"); got != "Bearer" {
			t.Errorf("%s: Www-Authenticate %q", path, got)
		}
	}
}
