package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// wish is a request of a service type other than chat, which asks for events or
// does not.
type wish struct {
	service     schema.ServiceType
	name, path  string
	asked       func(t *testing.T) (body, contentType string)
	plain       func(t *testing.T) (body, contentType string)
	first, last string  // the events of a good answer, in their frames
	tokens      float64 // what the last one reports
}

func ofJSON(body string) func(*testing.T) (string, string) {
	return func(*testing.T) (string, string) { return body, "application/json" }
}

func ofForm(parts ...part) func(*testing.T) (string, string) {
	return func(t *testing.T) (string, string) {
		var body bytes.Buffer
		contentType := writeForm(t, &body, parts...)
		return body.String(), contentType
	}
}

func wishes(t *testing.T) []wish {
	stt := []part{field("model", "m"), recording()}
	edit := []part{field("model", "m"), field("prompt", "x"), photo(t, "image")}
	return []wish{
		{
			schema.STT, "stt", "/v1/audio/transcriptions", ofForm(append(stt, field("stream", "true"))...), ofForm(stt...),
			"data: {\"type\":\"transcript.text.delta\",\"delta\":\"Hel\"}\n\n",
			"data: {\"type\":\"transcript.text.done\",\"text\":\"Hello\",\"usage\":{\"type\":\"tokens\",\"input_tokens\":14,\"output_tokens\":3,\"total_tokens\":17}}\n\n", 17,
		},
		{
			schema.ImgGen, "imgGen", "/v1/images/generations", ofJSON(`{"model":"m","prompt":"x","stream":true}`), ofJSON(`{"model":"m","prompt":"x","stream":false}`),
			"event: image_generation.partial_image\ndata: {\"type\":\"image_generation.partial_image\",\"b64_json\":\"AAAA\"}\n\n",
			"event: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"b64_json\":\"" + strings.Repeat("A", 6<<20) + "\",\"usage\":{\"total_tokens\":100,\"input_tokens\":50,\"output_tokens\":50}}\n\n", 100,
		},
		{
			schema.ImgEdit, "imgEdit", "/v1/images/edits", ofForm(append(edit, field("stream", "True"))...), ofForm(edit...),
			"event: image_edit.partial_image\ndata: {\"type\":\"image_edit.partial_image\",\"b64_json\":\"AAAA\"}\n\n",
			"event: image_edit.completed\ndata: {\"type\":\"image_edit.completed\",\"b64_json\":\"BBBB\",\"usage\":{\"total_tokens\":9,\"input_tokens\":4,\"output_tokens\":5}}\n\n", 9,
		},
		{
			schema.TTS, "tts", "/v1/audio/speech", ofJSON(`{"model":"m","input":"x","voice":"v","stream_format":"sse"}`), ofJSON(`{"model":"m","input":"x","voice":"v","stream_format":"audio"}`),
			"data: {\"type\":\"speech.audio.delta\",\"audio\":\"AAAA\"}\n\n",
			"data: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":2,\"output_tokens\":3,\"total_tokens\":5}}\n\n", 5,
		},
	}
}

// put sends a wish and returns what came.
func (r *rig) put(w wish, how func(*testing.T) (string, string)) reply {
	body, contentType := how(r.t)
	return r.do(http.MethodPost, w.path, body, "Content-Type", contentType)
}

// eventStep is a stream of events as a backend sends it.
func eventStep(events string) simulator.Step {
	return simulator.Step{Body: events, Header: typed("text/event-stream; charset=utf-8")}
}

func everyWish(t *testing.T, test func(t *testing.T, w wish)) {
	for _, w := range wishes(t) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// Events that were asked for are passed on with their names and as they are; what
// they report is counted.
func TestEventsOfOtherServicesArePassedOn(t *testing.T) {
	everyWish(t, func(t *testing.T, w wish) {
		for name, end := range map[string]string{"with a mark": "data: [DONE]\n\n", "without": ""} {
			r, b := startService(t, eventStep(": hello\n\n"+w.first+"data:\n\n"+w.last+end))
			answer := r.put(w, w.asked).succeeds(t)
			if want := w.first + w.last + end; answer.body != want || !strings.HasPrefix(answer.header.Get("Content-Type"), "text/event-stream") {
				t.Errorf("%s: %s, %d bytes for %d: %.300s", name, answer.header.Get("Content-Type"), len(answer.body), len(want), answer.body)
			}
			i := r.serving(w.service)[0]
			eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
			if success, failed, _ := outcomes(i); success != 1 || failed != 0 || b.Stats().Arrived != 1 {
				t.Errorf("%s: outcomes %d %d", name, success, failed)
			}
			counted := func() float64 { return sum(r.scrape(), "model_router_tokens_total") }
			eventually(t, "the tokens are counted", func() bool { return counted() == w.tokens })
		}
	})
}

// The first event is with the client while the backend still works.
func TestEventsOfOtherServicesComeAtOnce(t *testing.T) {
	everyWish(t, func(t *testing.T, w wish) {
		step := eventStep(w.first + w.last)
		step.Stop, step.AfterBytes = simulator.StopStall, len(w.first)
		r, b := startService(t, step)
		ctx, cancel := context.WithCancel(deadline(t))
		body, contentType := w.asked(t)
		response := r.open(ctx, http.MethodPost, w.path, body, "Content-Type", contentType)
		defer response.Body.Close()
		got := make([]byte, len(w.first))
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != w.first {
			t.Fatalf("%q, %v", got, err)
		}
		if i := r.serving(w.service)[0]; i.InFlight() != 1 {
			t.Errorf("%d in flight", i.InFlight())
		}
		cancel()
		if err := b.WaitCancelled(deadline(t), 1); err != nil {
			t.Error(err)
		}
	})
}

// What is wrong before the first event is a 502 and goes to the sibling.
func TestEventsOfOtherServicesThatAreNone(t *testing.T) {
	everyWish(t, func(t *testing.T, w wish) {
		for name, step := range map[string]simulator.Step{
			"an error":      eventStep("data: {\"error\":{\"message\":\"no memory\"}}\n\n"),
			"an error name": eventStep("event: error\ndata: {\"message\":\"no memory\"}\n\n"),
			"an error type": eventStep("data: {\"type\":\"error\",\"message\":\"no memory\"}\n\n"),
			"no JSON":       eventStep("data: no memory\n\n"),
			"no object":     eventStep("data: [1]\n\n"),
			"only the mark": eventStep("data: [DONE]\n\n"),
			"nothing":       eventStep(": hello\n\n"),
		} {
			t.Run(name, func(t *testing.T) {
				a, b := startBackend(t), startBackend(t, eventStep(w.first+w.last))
				a.ScriptForever(step)
				answer := startGateway(t, serviceYAML(w.name, instance("m", a.URL()))).put(w, w.asked)
				code := faultOf(t, answer.body).Code
				if code != "upstream_error" && code != "upstream_stream_truncated" || answer.status != http.StatusBadGateway {
					t.Errorf("alone: %d %s", answer.status, answer.body)
				}
				r := startGateway(t, serviceYAML(w.name, instance("m", a.URL()), instance("m", b.URL())))
				if answer = r.put(w, w.asked).succeeds(t); answer.body != w.first+w.last || answer.header.Get("X-Router-Attempts") != "2" {
					t.Errorf("with a sibling: attempts %s, %.300s", answer.header.Get("X-Router-Attempts"), answer.body)
				}
			})
		}
	})
}

// What breaks after the first event ends in an error event that gives nothing
// away, and counts against the instance.
func TestEventsOfOtherServicesThatBreakOff(t *testing.T) {
	everyWish(t, func(t *testing.T, w wish) {
		cut := func(stop simulator.Stop) simulator.Step {
			step := eventStep(w.first + w.last)
			step.Stop, step.AfterBytes = stop, len(w.first)
			return step
		}
		for name, row := range map[string]struct {
			step simulator.Step
			code string
		}{
			"reset":     {cut(simulator.StopReset), "upstream_stream_truncated"},
			"closed":    {cut(simulator.StopClose), "upstream_stream_truncated"},
			"ended":     {cut(simulator.StopEnd), "upstream_stream_truncated"},
			"silent":    {cut(simulator.StopStall), "upstream_timeout"},
			"an error":  {eventStep(w.first + "data: {\"error\":{\"message\":\"at http://10.1.2.3:8000\"}}\n\n"), "upstream_error"},
			"an event?": {eventStep(w.first + "data: {\"type\":\n\n"), "upstream_error"},
		} {
			t.Run(name, func(t *testing.T) {
				b := startBackend(t, row.step)
				r := startGateway(t, serviceYAML(w.name, instance("m", b.URL()))+"limits: {idle-timeout: 300ms}\n")
				answer := r.put(w, w.asked).succeeds(t)
				rest, ok := strings.CutPrefix(answer.body, w.first)
				fault, whole := strings.CutPrefix(rest, "data: ")
				if !ok || !whole || faultOf(t, strings.TrimSpace(fault)).Code != row.code {
					t.Errorf("%.300s", answer.body)
				}
				noneOf(t, answer.body, "10.1.2.3")
				i := r.serving(w.service)[0]
				eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
				if success, failed, _ := outcomes(i); success != 0 || failed != 1 {
					t.Errorf("outcomes %d %d", success, failed)
				}
			})
		}
	})
}

const (
	heardFirst = `{"id":"t","object":"transcription.chunk","created":1,"model":"m","choices":[{"delta":{"content":"hel"},"finish_reason":null}]}`
	heardLast  = `{"id":"t","object":"transcription.chunk","created":1,"model":"m","choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}`
)

// A transcript may come as chunks of a completion; those say, too, whether it is
// complete.
func TestTranscriptsAsChunks(t *testing.T) {
	heard := wishes(t)[0]
	frame := func(events ...string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }
	for name, row := range map[string]struct {
		events string
		whole  bool
	}{
		"cut off":        {frame(heardFirst), false},
		"empty reason":   {frame(strings.Replace(heardFirst, "null", `""`, 1)), false},
		"with a reason":  {frame(heardFirst, heardLast), true},
		"with a mark":    {frame(heardFirst, "[DONE]"), true},
		"with both":      {frame(heardFirst, heardLast, "[DONE]"), true},
		"usage behind":   {frame(heardFirst, heardLast, `{"choices":[],"usage":{"total_tokens":3}}`), true},
		"nothing in one": {frame(`{"object":"transcription.chunk","choices":[]}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := startService(t, eventStep(row.events))
			answer := r.put(heard, heard.asked).succeeds(t)
			rest, ok := strings.CutPrefix(answer.body, row.events)
			if fault := strings.TrimPrefix(rest, "data: "); !ok || row.whole != (rest == "") || !row.whole && faultOf(t, strings.TrimSpace(fault)).Code != "upstream_stream_truncated" {
				t.Errorf("got %s", answer.body)
			}
			i := r.serving(schema.STT)[0]
			eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
			if success, failed, _ := outcomes(i); (success == 1) != row.whole || (failed == 1) == row.whole {
				t.Errorf("outcomes %d %d", success, failed)
			}
		})
	}
}

// Events that name a model name it as the caller does, and are left alone
// otherwise.
func TestEventsOfOtherServicesHaveTheCallersModel(t *testing.T) {
	everyWish(t, func(t *testing.T, w wish) {
		first := strings.Replace(w.first, "data: {", `data: { "model" : "their\u002dname", "n":1.50,`, 1)
		more := `data: {"type":"x","model":null,"part":{"model":"inner"}}` + "\n\n"
		r, _ := startService(t, eventStep(first+more+w.last))
		want := strings.Replace(first, `"their\u002dname"`, `"m"`, 1) + more + w.last
		if got := r.put(w, w.asked).succeeds(t).body; got != want {
			t.Errorf("got %.300s", got)
		}
	})
}

// Whoever did not ask for events gets none, and who asked a backend that has none
// gets its whole answer, a transcript as events (TestAWholeTranscriptIsToldAsEvents).
func TestEventsOfOtherServicesAreAskedFor(t *testing.T) {
	everyWish(t, func(t *testing.T, w wish) {
		r, b := startService(t, eventStep(w.first+w.last))
		r.put(w, w.plain).failsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
		b.Script(simulator.Step{})
		answer := r.put(w, w.asked).succeeds(t)
		events := strings.HasPrefix(answer.body, "data:")
		if events != (w.service == schema.STT) || events != strings.Contains(answer.header.Get("Content-Type"), "event") {
			t.Errorf("%s: %.100q", answer.header.Get("Content-Type"), answer.body)
		}
	})
}

// Silence between the events is filled, as in a chat.
func TestSilentEventsOfOtherServicesAreKeptAlive(t *testing.T) {
	w := wishes(t)[0]
	step := eventStep(w.first + w.last)
	step.Stop, step.AfterBytes = simulator.StopStall, len(w.first)
	b := startBackend(t, step)
	r := startWith(t, setup{yaml: serviceYAML(w.name, instance("m", b.URL())), keepAlive: 20 * time.Millisecond})
	body, contentType := w.asked(t)
	response := r.open(deadline(t), http.MethodPost, w.path, body, "Content-Type", contentType)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, ": keep-alive") {
			return
		}
	}
}

// A form that the caller chose and the backend does not have is nobody's failure:
// no breaker counts it and no other instance is asked to do the work again.
func TestFormThatABackendDoesNotHave(t *testing.T) {
	for name, row := range map[string]struct {
		service schema.ServiceType
		path    string
		ask     func(t *testing.T) (string, string)
		answer  string
		says    string
	}{
		"bytes of an image": {
			schema.ImgGen, "/v1/images/generations", ofJSON(`{"model":"m","prompt":"x","response_format":"b64_json"}`),
			`{"created":1700000000,"data":[{"url":"http://10.0.0.1/secret.png"}]}`, "an address instead of the image",
		},
		"subtitles": {
			schema.STT, "/v1/audio/transcriptions", ofForm(field("model", "m"), recording(), field("response_format", "vtt")),
			`{"text":"Hello"}`, "JSON instead of vtt",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := startBackend(t), startBackend(t)
			a.ScriptForever(simulator.Step{Body: row.answer})
			b.ScriptForever(simulator.Step{Body: row.answer})
			r := startGateway(t, fmt.Sprintf("services: {%s: {circuit-breaker: {failure-threshold: 1}, health-check: {enabled: false}, instances: [%s, %s]}}",
				row.service, instance("m", a.URL()), instance("m", b.URL())))
			for range 4 {
				body, contentType := row.ask(t)
				answer := r.do(http.MethodPost, row.path, body, "Content-Type", contentType)
				fault := answer.failsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
				if !strings.Contains(fault.Message, row.says) || answer.header.Get("X-Router-Attempts") != "1" {
					t.Errorf("%q after %s attempts", fault.Message, answer.header.Get("X-Router-Attempts"))
				}
				noneOf(t, answer.body, "10.0.0.1")
			}
			for _, i := range r.serving(row.service) {
				if success, failed, cancelled := outcomes(i); success != 0 || failed != 0 || cancelled != 2 {
					t.Errorf("outcomes %d %d %d", success, failed, cancelled)
				}
			}
		})
	}
}
