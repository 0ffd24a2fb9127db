package v1_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// put sends a wish and returns what came.
func send(r *gatewaytest.Gateway, w gatewaytest.ServiceRequest, how func(*testing.T) (string, string)) gatewaytest.Reply {
	body, contentType := how(r.T)
	return r.Do(http.MethodPost, w.Path, body, "Content-Type", contentType)
}

// Events that were asked for are passed on with their names and as they are; what
// they report is counted.
func TestEventsOfOtherServicesArePassedOn(t *testing.T) {
	t.Parallel()
	gatewaytest.ForEachServiceRequest(t, func(t *testing.T, w gatewaytest.ServiceRequest) {
		for name, end := range map[string]string{"with a mark": "data: [DONE]\n\n", "without": ""} {
			r, b := gatewaytest.StartService(t, gatewaytest.EventStep(": hello\n\n"+w.First+"data:\n\n"+w.Last+end))
			answer := send(r, w, w.Asked).Succeeds(t)
			if want := w.First + w.Last + end; answer.Body != want || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
				t.Errorf("%s: %s, %d bytes for %d: %.300s", name, answer.Header.Get("Content-Type"), len(answer.Body), len(want), answer.Body)
			}
			i := serving(r, w.Service)[0]
			gatewaytest.Eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
			if success, failed, _ := gatewaytest.Outcomes(i); success != 1 || failed != 0 || b.Stats().Arrived != 1 {
				t.Errorf("%s: outcomes %d %d", name, success, failed)
			}
			counted := func() float64 { return gatewaytest.Sum(r.Scrape(), "model_router_tokens_total") }
			gatewaytest.Eventually(t, "the tokens are counted", func() bool { return counted() == w.Tokens })
		}
	})
}

// The first event is with the client while the backend still works.
func TestEventsOfOtherServicesComeAtOnce(t *testing.T) {
	t.Parallel()
	gatewaytest.ForEachServiceRequest(t, func(t *testing.T, w gatewaytest.ServiceRequest) {
		step := gatewaytest.EventStep(w.First + w.Last)
		step.Stop, step.AfterBytes = simulator.StopStall, len(w.First)
		r, b := gatewaytest.StartService(t, step)
		ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
		body, contentType := w.Asked(t)
		response := r.Open(ctx, http.MethodPost, w.Path, body, "Content-Type", contentType)
		defer response.Body.Close()
		got := make([]byte, len(w.First))
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != w.First {
			t.Fatalf("%q, %v", got, err)
		}
		if i := serving(r, w.Service)[0]; i.InFlight() != 1 {
			t.Errorf("%d in flight", i.InFlight())
		}
		cancel()
		if err := b.WaitCancelled(gatewaytest.Deadline(t), 1); err != nil {
			t.Error(err)
		}
	})
}

// An invalid answer before the first event is a 502, and another instance is tried.
func TestAnswersThatAreNotEventsAreErrors(t *testing.T) {
	t.Parallel()
	gatewaytest.ForEachServiceRequest(t, func(t *testing.T, w gatewaytest.ServiceRequest) {
		for name, step := range map[string]simulator.Step{
			"an error":      gatewaytest.EventStep("data: {\"error\":{\"message\":\"no memory\"}}\n\n"),
			"an error name": gatewaytest.EventStep("event: error\ndata: {\"message\":\"no memory\"}\n\n"),
			"an error type": gatewaytest.EventStep("data: {\"type\":\"error\",\"message\":\"no memory\"}\n\n"),
			"no JSON":       gatewaytest.EventStep("data: no memory\n\n"),
			"no object":     gatewaytest.EventStep("data: [1]\n\n"),
			"only the mark": gatewaytest.EventStep("data: [DONE]\n\n"),
			"nothing":       gatewaytest.EventStep(": hello\n\n"),
		} {
			t.Run(name, func(t *testing.T) {
				a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t, gatewaytest.EventStep(w.First+w.Last))
				a.ScriptForever(step)
				answer := send(gatewaytest.Start(t, gatewaytest.ServiceYAML(w.Name, gatewaytest.Instance("m", a.URL()))), w, w.Asked)
				code := gatewaytest.ErrorOf(t, answer.Body).Code
				if code != "upstream_error" && code != "upstream_stream_truncated" || answer.Status != http.StatusBadGateway {
					t.Errorf("alone: %d %s", answer.Status, answer.Body)
				}
				r := gatewaytest.Start(t, gatewaytest.ServiceYAML(w.Name, gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
				if answer = send(r, w, w.Asked).Succeeds(t); answer.Body != w.First+w.Last || answer.Header.Get("X-Router-Attempts") != "2" {
					t.Errorf("with a sibling: attempts %s, %.300s", answer.Header.Get("X-Router-Attempts"), answer.Body)
				}
			})
		}
	})
}

// What breaks after the first event ends in an error event that gives nothing
// away, and counts against the instance.
func TestEventsOfOtherServicesThatBreakOff(t *testing.T) {
	t.Parallel()
	gatewaytest.ForEachServiceRequest(t, func(t *testing.T, w gatewaytest.ServiceRequest) {
		cut := func(stop simulator.Stop) simulator.Step {
			step := gatewaytest.EventStep(w.First + w.Last)
			step.Stop, step.AfterBytes = stop, len(w.First)
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
			"an error":  {gatewaytest.EventStep(w.First + "data: {\"error\":{\"message\":\"at http://10.1.2.3:8000\"}}\n\n"), "upstream_error"},
			"an event?": {gatewaytest.EventStep(w.First + "data: {\"type\":\n\n"), "upstream_error"},
		} {
			t.Run(name, func(t *testing.T) {
				b := gatewaytest.StartBackend(t, row.step)
				r := gatewaytest.Start(t, gatewaytest.ServiceYAML(w.Name, gatewaytest.Instance("m", b.URL()))+gatewaytest.ShortTimeouts(row.step))
				answer := send(r, w, w.Asked).Succeeds(t)
				rest, ok := strings.CutPrefix(answer.Body, w.First)
				fault, whole := strings.CutPrefix(rest, "data: ")
				if !ok || !whole || gatewaytest.ErrorOf(t, strings.TrimSpace(fault)).Code != row.code {
					t.Errorf("%.300s", answer.Body)
				}
				gatewaytest.ContainsNone(t, answer.Body, "10.1.2.3")
				i := serving(r, w.Service)[0]
				gatewaytest.Eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
				if success, failed, _ := gatewaytest.Outcomes(i); success != 0 || failed != 1 {
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
	t.Parallel()
	heard := gatewaytest.ServiceRequests(t)[0]
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
			r, _ := gatewaytest.StartService(t, gatewaytest.EventStep(row.events))
			answer := send(r, heard, heard.Asked).Succeeds(t)
			rest, ok := strings.CutPrefix(answer.Body, row.events)
			if fault := strings.TrimPrefix(rest, "data: "); !ok || row.whole != (rest == "") || !row.whole && gatewaytest.ErrorOf(t, strings.TrimSpace(fault)).Code != "upstream_stream_truncated" {
				t.Errorf("got %s", answer.Body)
			}
			i := serving(r, schema.STT)[0]
			gatewaytest.Eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
			if success, failed, _ := gatewaytest.Outcomes(i); (success == 1) != row.whole || (failed == 1) == row.whole {
				t.Errorf("outcomes %d %d", success, failed)
			}
		})
	}
}

// Events that name a model name it as the caller does, and are left alone
// otherwise.
func TestEventsOfOtherServicesHaveTheCallersModel(t *testing.T) {
	t.Parallel()
	gatewaytest.ForEachServiceRequest(t, func(t *testing.T, w gatewaytest.ServiceRequest) {
		first := strings.Replace(w.First, "data: {", `data: { "model" : "their\u002dname", "n":1.50,`, 1)
		more := `data: {"type":"x","model":null,"part":{"model":"inner"}}` + "\n\n"
		r, _ := gatewaytest.StartService(t, gatewaytest.EventStep(first+more+w.Last))
		want := strings.Replace(first, `"their\u002dname"`, `"m"`, 1) + more + w.Last
		if got := send(r, w, w.Asked).Succeeds(t).Body; got != want {
			t.Errorf("got %.300s", got)
		}
	})
}

// Whoever did not ask for events gets none, and who asked a backend that has none
// gets its whole answer: transcripts and images as events
// (TestAWholeTranscriptIsToldAsEvents, TestWholeImagesAreToldAsEvents), speech as audio.
func TestEventsOfOtherServicesAreAskedFor(t *testing.T) {
	t.Parallel()
	gatewaytest.ForEachServiceRequest(t, func(t *testing.T, w gatewaytest.ServiceRequest) {
		r, b := gatewaytest.StartService(t, gatewaytest.EventStep(w.First+w.Last))
		send(r, w, w.Plain).FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
		b.Script(simulator.Step{})
		answer := send(r, w, w.Asked).Succeeds(t)
		events := strings.HasPrefix(answer.Body, "data:")
		if events != (w.Service != schema.TTS) || events != strings.Contains(answer.Header.Get("Content-Type"), "event") {
			t.Errorf("%s: %.100q", answer.Header.Get("Content-Type"), answer.Body)
		}
	})
}

// Silence between the events is filled, as in a chat.
func TestSilentEventsOfOtherServicesAreKeptAlive(t *testing.T) {
	t.Parallel()
	w := gatewaytest.ServiceRequests(t)[0]
	step := gatewaytest.EventStep(w.First + w.Last)
	step.Stop, step.AfterBytes = simulator.StopStall, len(w.First)
	b := gatewaytest.StartBackend(t, step)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.ServiceYAML(w.Name, gatewaytest.Instance("m", b.URL())), KeepAlive: 20 * time.Millisecond})
	body, contentType := w.Asked(t)
	response := r.Open(gatewaytest.Deadline(t), http.MethodPost, w.Path, body, "Content-Type", contentType)
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
	t.Parallel()
	for name, row := range map[string]struct {
		service schema.ServiceType
		path    string
		ask     func(t *testing.T) (string, string)
		answer  string
		says    string
	}{
		"bytes of an image": {
			schema.ImgGen, "/v1/images/generations", gatewaytest.JSONBody(`{"model":"m","prompt":"x","response_format":"b64_json"}`),
			`{"created":1700000000,"data":[{"url":"http://10.0.0.1/secret.png"}]}`, "an address instead of the image",
		},
		"subtitles": {
			schema.STT, "/v1/audio/transcriptions", gatewaytest.FormBody(gatewaytest.Field("model", "m"), gatewaytest.Recording(), gatewaytest.Field("response_format", "vtt")),
			`{"text":"Hello"}`, "JSON instead of vtt",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			a.ScriptForever(simulator.Step{Body: row.answer})
			b.ScriptForever(simulator.Step{Body: row.answer})
			r := gatewaytest.Start(t, fmt.Sprintf("services: {%s: {circuit-breaker: {failure-threshold: 1}, health-check: {enabled: false}, instances: [%s, %s]}}",
				row.service, gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
			for range 4 {
				body, contentType := row.ask(t)
				answer := r.Do(http.MethodPost, row.path, body, "Content-Type", contentType)
				fault := answer.FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
				if !strings.Contains(fault.Message, row.says) || answer.Header.Get("X-Router-Attempts") != "1" {
					t.Errorf("%q after %s attempts", fault.Message, answer.Header.Get("X-Router-Attempts"))
				}
				gatewaytest.ContainsNone(t, answer.Body, "10.0.0.1")
			}
			for _, i := range serving(r, row.service) {
				if success, failed, cancelled := gatewaytest.Outcomes(i); success != 0 || failed != 0 || cancelled != 2 {
					t.Errorf("outcomes %d %d %d", success, failed, cancelled)
				}
			}
		})
	}
}
