package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// A key for one model does not get another one served with a form that names
// both: what was permitted is what goes upstream.
func TestAFormCannotNameTwoModels(t *testing.T) {
	b := startBackend(t)
	var entries []string
	for _, service := range []string{"stt", "imgEdit"} {
		entries = append(entries, serviceEntry(service, instance("m1", b.URL(), "upstream-model: theirs"), instance("f1", b.URL())))
	}
	r := startGateway(t, "services: {"+strings.Join(entries, ",\n")+"}\n"+fmt.Sprintf(`
security: {enabled: true, keys: [{id: narrow, key-sha256: %s, models: [m1]}]}
`, hashOf("narrow")))
	for path, rest := range map[string][]part{
		transcriptions:     {upload("file", "a.wav", "audio/wav", "RIFF")},
		"/v1/images/edits": {upload("image", "a.png", "image/png", picture(t, 8, 8)), field("prompt", "p")},
	} {
		post := func(parts ...part) reply {
			t.Helper()
			var body strings.Builder
			contentType := writeForm(t, &body, slices.Concat(parts, rest)...)
			return r.do(http.MethodPost, path, body.String(), "Content-Type", contentType, "Authorization", "Bearer narrow")
		}
		for name, models := range map[string][]part{
			"twice":                 {field("model", "m1"), field("model", "f1")},
			"the other one first":   {field("model", "f1"), field("model", "m1")},
			"the same one twice":    {field("model", "m1"), field("model", "m1")},
			"in brackets":           {field("model", "m1"), field("model[]", "f1")},
			"in brackets, first":    {field("model[]", "m1"), field("model", "f1")},
			"with a number":         {field("model", "m1"), field("model[0]", "f1")},
			"as a file":             {field("model", "m1"), upload("model", "f", "text/plain", "f1")},
			"as a file, first":      {upload("model", "f", "text/plain", "f1"), field("model", "m1")},
			"as a file in brackets": {field("model", "m1"), upload("model[]", "f", "", "f1")},
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				post(models...).failsWith(t, 400, "invalid_request_error", "invalid_value", "model")
			})
		}
		post(field("model", "m1"), field("response_format", "json"), field("response_format", "text")).
			failsWith(t, 400, "invalid_request_error", "invalid_value", "response_format")
		post(field("model", "f1")).failsWith(t, 403, "permission_error", "permission_denied", "")
		if got := b.Stats().Arrived; got != 0 {
			t.Errorf("the backend got %d requests", got)
		}
	}
	var form strings.Builder
	contentType := writeForm(t, &form, field("model[]", "m1"), upload("file", "a.wav", "audio/wav", "RIFF"))
	r.do(http.MethodPost, transcriptions, form.String(), "Content-Type", contentType, "Authorization", "Bearer narrow").succeeds(t)
	var models []part
	for _, p := range partsOf(t, onlyRequest(t, b)) {
		if strings.HasPrefix(p.name, "model") {
			models = append(models, part{name: p.name, value: p.value})
		}
	}
	if want := []part{field("model", "theirs")}; !slices.Equal(models, want) {
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
			r, _ := startOne(t, eventStream(event, "data: [DONE]"), eventStream(streamBegins, event, streamEnds, "data: [DONE]"))
			first := r.chat(streamHi)
			first.failsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			later := r.chat(streamHi).succeeds(t)
			events := eventsOf(t, later.body)
			if len(events) != 2 || faultOf(t, events[1]).Code != "upstream_error" || strings.Contains(later.body, "[DONE]") {
				t.Errorf("events %q", events)
			}
			if all := first.body + later.body + r.logs.String(); strings.Contains(all, secret) || strings.Contains(all, "10.0.0.1") {
				t.Errorf("a secret got out: %s", all)
			}
			bad, good := startBackend(t, eventStream(event, "data: [DONE]")), startBackend(t, simulator.Step{Text: "fine"})
			r = startGateway(t, poolYAML(bad, good))
			if events := eventsOf(t, r.chat(streamHi).succeeds(t).body); textOf(t, events) != "fine" {
				t.Errorf("the other instance did not take over: %q", events)
			}
		})
	}
}

func TestOddStreamsOfAnswersThatAreComplete(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"blanks behind the mark": eventStream(streamBegins, "data: [DONE] \t"),
		"no blank before it":     eventStream(streamBegins, "data:[DONE]"),
		"noise behind the end":   eventStream(streamBegins, streamEnds, "data: bye"),
		"signs of life":          eventStream("data: {}", `data: {"type":"ping"}`, streamBegins, "data: null", "data:", streamEnds),
		"empty reasons":          eventStream(strings.Replace(streamBegins, `"finish_reason":null`, `"finish_reason":""`, 1), streamEnds),
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := startOne(t, step)
			if events := eventsOf(t, r.chat(streamHi).succeeds(t).body); textOf(t, events) != "he" || events[len(events)-1] != "[DONE]" {
				t.Errorf("events %q", events)
			}
		})
	}
	r, _ := startOne(t, eventStream(strings.Replace(streamBegins, `"finish_reason":null`, `"finish_reason":""`, 1)))
	events := eventsOf(t, r.chat(streamHi).succeeds(t).body)
	if len(events) != 2 || faultOf(t, events[1]).Code != "upstream_stream_truncated" {
		t.Errorf("a stream that only has empty reasons: %q", events)
	}
}

func TestHalvesOfACharacterArePassedOn(t *testing.T) {
	half := func(escape string) string {
		return strings.Replace(streamBegins, `"content":"he"`, `"content":"`+escape+`"`, 1)
	}
	r, _ := startOne(t, eventStream(half(`\ud83d`), half(`\ude00`), streamEnds), simulator.Step{
		Body: "\ufeff" + strings.Replace(oddReply, `h\u00e9`, `\ud83d`, 1), Header: http.Header{"Content-Type": {"application/json"}},
	})
	if body := r.chat(streamHi).succeeds(t).body; !strings.Contains(body, half(`\ud83d`)) || !strings.Contains(body, half(`\ude00`)) {
		t.Errorf("the stream is %s", body)
	}
	want := strings.Replace(strings.Replace(oddReply, `h\u00e9`, `\ud83d`, 1), `"their-name"`, `"m"`, 1)
	if body := r.chat(plainHi).succeeds(t).body; body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

// A backend that has an answer in another form than one caller wants is still
// there for the others.
func TestAnotherFormDoesNotOpenTheBreaker(t *testing.T) {
	b := startBackend(t)
	b.ScriptForever(simulator.Step{Body: `{"text":"hello"}`})
	r := startGateway(t, "services: {stt: {circuit-breaker: {failure-threshold: 2}, health-check: {enabled: false}, instances: ["+instance("m", b.URL())+"]}}\n")
	for range 5 {
		r.postForm(transcriptions, field("model", "m"), field("response_format", "vtt"), upload("file", "a.wav", "audio/wav", "RIFF")).
			failsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
	}
	r.postForm(transcriptions, field("model", "m"), upload("file", "a.wav", "audio/wav", "RIFF")).succeeds(t)
}

func TestRefusalsForWantOfAKeySayWhatIsWanted(t *testing.T) {
	r := startGateway(t, fmt.Sprintf("security: {enabled: true, keys: [{id: a, key-sha256: %s}]}\n", hashOf("key")))
	for _, path := range []string{"/v1/chat/completions", "/v1/models", "/v1/audio/transcriptions"} {
		method := http.MethodPost
		if path == "/v1/models" {
			method = http.MethodGet
		}
		answer := r.do(method, path, "")
		answer.failsWith(t, http.StatusUnauthorized, "authentication_error", "invalid_api_key", "")
		if got := answer.header.Get("Www-Authenticate"); got != "Bearer" {
			t.Errorf("%s: Www-Authenticate %q", path, got)
		}
	}
}
