package v1_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// unwatchedYAML is a configuration of one service type with breakers and without
// health checks.
func unwatchedYAML(service string, instances ...string) string {
	return "services: {" + service + ": {health-check: {enabled: false}, instances: [\n  " + strings.Join(instances, ",\n  ") + "]}}\n"
}

// closedAfter checks that calls of an instance ended without a failure, which the
// last one may still be about to tell.
func closedAfter(t *testing.T, i *backend.Instance, calls int64) {
	t.Helper()
	gatewaytest.Eventually(t, "nothing is in flight", func() bool { return i.InFlight() == 0 })
	_, failures, cancelled := gatewaytest.Outcomes(i)
	if state := i.Breaker.Snapshot().State; failures != 0 || cancelled != calls || state != breaker.Closed {
		t.Errorf("%d failures, %d calls that say nothing, breaker %s; want 0, %d, CLOSED", failures, cancelled, state, calls)
	}
}

// A server that answers 500 for what is wrong with the request does not lose its
// traffic for it, and no other server gets the request.
func TestRequestFaultsUnderA500AreTheCallers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ adapter, message string }{
		"text too long":                 {"llamacpp", "input (3002 tokens) is too large to process. increase the physical batch size (current batch size: 512)"},
		"picture that cannot be had":    {"llamacpp", "Failed to download image"},
		"tools that cannot be read":     {"llamacpp", "Failed to parse tools: Missing tool function: {}; tools = []"},
		"the same behind the main kind": {"openai", "Failed to parse tools: Missing tool function: {}; tools = []"},
	} {
		t.Run(name, func(t *testing.T) {
			gatewaytest.Both(t, func(t *testing.T, body string) {
				step := simulator.Step{Status: 500, Body: simulator.ErrorObject(c.message, "server_error", "500")}
				one, two := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
				one.ScriptForever(step)
				two.ScriptForever(step)
				r := gatewaytest.Start(t, unwatchedYAML("chat", gatewaytest.Instance("m", one.URL(), "adapter: "+c.adapter), gatewaytest.Instance("m", two.URL(), "adapter: "+c.adapter)))
				const calls = 12 // more than the thresholds of both breakers
				for range calls {
					answer := r.Chat(body)
					fault := answer.FailsWith(t, 400, gatewaytest.InvalidRequest, "upstream_error", "")
					if fault.Message != "The backend answered with status 500: "+c.message || !strings.Contains(string(fault.Details), `"upstream_status":500`) {
						t.Errorf("%s %s", fault.Message, fault.Details)
					}
					if attempts := answer.Header.Get("X-Router-Attempts"); attempts != "1" {
						t.Errorf("%s attempts", attempts)
					}
				}
				for _, i := range r.Instances("m") {
					closedAfter(t, i, calls/2)
				}
			})
		})
	}
}

func TestBadAudioDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		adapter string
		step    simulator.Step
	}{
		"whisper.cpp":                   {"whispercpp", simulator.Step{Status: 500, Body: simulator.ErrorText("FFmpeg conversion failed.")}},
		"the same behind the main kind": {"openai", simulator.Step{Status: 500, Body: simulator.ErrorText("FFmpeg conversion failed.")}},
		"inside a 200":                  {"whispercpp", simulator.Step{Body: simulator.ErrorText("failed to read audio data")}},
	} {
		t.Run(name, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			b.ScriptForever(c.step)
			r := gatewaytest.Start(t, unwatchedYAML("stt", gatewaytest.Instance("m", b.URL(), "adapter: "+c.adapter)))
			const calls = 6
			for range calls {
				r.PostForm("/v1/audio/transcriptions", gatewaytest.Field("model", "m"), gatewaytest.Upload("file", "a.wav", "audio/wav", "no audio")).
					FailsWith(t, 400, gatewaytest.InvalidRequest, "upstream_error", "")
			}
			closedAfter(t, serving(r, schema.STT)[0], calls)
		})
	}
}

// Ollama with a full queue is well: its breaker stays closed, and another instance
// gets the traffic for a while.
func TestABusyOllamaIsPassedOver(t *testing.T) {
	t.Parallel()
	busy := simulator.Step{Status: 503, Body: simulator.ErrorText("server busy, please try again.  maximum pending requests exceeded")}
	ollama := func(b *simulator.Backend) string { return gatewaytest.Instance("m", b.URL(), "adapter: ollama") }

	t.Run("alone", func(t *testing.T) {
		b := gatewaytest.StartBackend(t)
		b.ScriptForever(busy)
		r := gatewaytest.Start(t, unwatchedYAML("chat", ollama(b)))
		const calls = 8
		for range calls {
			answer := r.Chat(gatewaytest.PlainHi)
			fault := answer.FailsWith(t, 503, "api_error", "upstream_error", "")
			if fault.Message != "The backend answered with status 503: server busy, please try again. maximum pending requests exceeded" || answer.Header.Get("Retry-After") != "1" {
				t.Errorf("%q, Retry-After %q", fault.Message, answer.Header.Get("Retry-After"))
			}
		}
		closedAfter(t, r.Instances("m")[0], calls)
		b.Script()
		r.Chat(gatewaytest.PlainHi).Succeeds(t) // nobody else is there, so it is asked all the same
	})
	t.Run("beside another", func(t *testing.T) {
		one, two := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
		busy.Header = http.Header{"Retry-After": {"20"}}
		one.ScriptForever(busy)
		r := gatewaytest.Start(t, unwatchedYAML("chat", ollama(one), ollama(two)))
		for range 10 {
			r.Chat(gatewaytest.PlainHi).Succeeds(t)
		}
		if calls := len(one.Requests()); calls != 1 {
			t.Errorf("the busy one was called %d times, want once", calls)
		}
		i := r.Instances("m")[0]
		closedAfter(t, i, 1)
		now := time.Now()
		if !i.Avoided(now.Add(15*time.Second)) || i.Avoided(now.Add(20*time.Second)) {
			t.Error("it is not left alone for the 20 s that it asked for")
		}
	})
}

// Many clients show an error's message and nothing else of it.
func TestTheBackendsReasonIsInTheMessage(t *testing.T) {
	t.Parallel()
	const said = "<b>no such tool</b> at gpu-1.internal:8000\n(fe80::1)"
	const shown = "no such tool at [hidden] ([hidden])"
	r, b := gatewaytest.StartOne(t)
	for name, c := range map[string]struct {
		step   simulator.Step
		body   string
		prefix string
	}{
		"status 400":         {simulator.Step{Status: 400, Body: simulator.ErrorObject(said, "t", "c")}, gatewaytest.PlainHi, "The backend answered with status 400: "},
		"status 404 in text": {simulator.Step{Status: 404, Body: said[len("<b>"):]}, gatewaytest.StreamHi, "The backend answered with status 404: "},
		"status 429":         {simulator.Step{Status: 429, Body: simulator.ErrorText(said)}, gatewaytest.PlainHi, "The backend's own rate limit was reached: "},
		"status 500":         {simulator.Step{Status: 500, Body: simulator.ErrorText(said)}, gatewaytest.StreamHi, "The backend answered with status 500: "},
		"inside a 200":       {simulator.Step{Body: simulator.ErrorText(said)}, gatewaytest.PlainHi, "The backend reported an error in its answer: "},
		"within a stream":    {simulator.Step{Body: "data: " + gatewaytest.FirstChunk + "\n\n" + simulator.ErrorEvent(said, "t", "c")}, gatewaytest.StreamHi, "The backend reported an error in its answer: "},
		"first in a stream":  {simulator.Step{Body: simulator.ErrorEvent(said, "t", "c")}, gatewaytest.StreamHi, "The backend reported an error in its answer: "},
	} {
		t.Run(name, func(t *testing.T) {
			b.Script(c.step)
			answer := r.Chat(c.body)
			body := answer.Body
			if at := strings.LastIndex(body, "data: "); at >= 0 {
				body = body[at+len("data: "):]
			}
			fault := gatewaytest.ErrorOf(t, body)
			if fault.Message != c.prefix+shown || !strings.Contains(string(fault.Details), shown) {
				t.Errorf("%q, %s", fault.Message, fault.Details)
			}
		})
	}
}
