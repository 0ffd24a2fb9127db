package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestFailoverToTheSibling(t *testing.T) {
	faults := map[string]simulator.Step{
		"reset":            {Reset: true},
		"closed":           {Raw: " "},
		"no head in time":  {Hang: true},
		"head cut":         {Raw: "HTTP/1.1 200 OK\r\nConte", Stop: simulator.StopReset},
		"reset in reply":   {Stop: simulator.StopReset},
		"silence in reply": {Stop: simulator.StopStall},
	}
	for _, status := range []int{429, 500, 502, 503, 504} {
		faults[fmt.Sprint(status)] = simulator.Step{Status: status}
	}
	for name, step := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gatewaytest.Both(t, func(t *testing.T, body string) {
				a, b := gatewaytest.StartBackend(t, step), gatewaytest.StartBackend(t, simulator.Step{Text: "rescued"})
				r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", a.URL(), gatewaytest.Impatient), gatewaytest.Instance("m", b.URL())))
				answer := r.Chat(body).Succeeds(t)
				if !strings.Contains(answer.Body, "rescued") || strings.Contains(answer.Body, "error") {
					t.Errorf("answer %s", answer.Body)
				}
				if answer.Header.Get("X-Router-Attempts") != "2" || answer.Header.Get("X-Router-Instance") != r.Instances("m")[1].Handle {
					t.Errorf("attempts %q by %q", answer.Header.Get("X-Router-Attempts"), answer.Header.Get("X-Router-Instance"))
				}
				if a.Stats().Arrived != 1 || b.Stats().Arrived != 1 {
					t.Errorf("requests %d and %d, want one each", a.Stats().Arrived, b.Stats().Arrived)
				}
				first, second := a.Requests()[0], b.Requests()[0]
				if string(first.Body) != string(second.Body) || first.Header.Get("X-Request-Id") != second.Header.Get("X-Request-Id") {
					t.Error("the second instance got another request than the first")
				}
			})
		})
	}
	t.Run("refused", func(t *testing.T) {
		gatewaytest.Both(t, func(t *testing.T, body string) {
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL), gatewaytest.Instance("m", b.URL())))
			if answer := r.Chat(body).Succeeds(t); answer.Header.Get("X-Router-Attempts") != "2" {
				t.Errorf("attempts %q", answer.Header.Get("X-Router-Attempts"))
			}
		})
	})
	t.Run("no first event in time", func(t *testing.T) {
		a, b := gatewaytest.StartBackend(t, simulator.Step{FirstDelay: gatewaytest.Never}), gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", a.URL(), gatewaytest.Impatient), gatewaytest.Instance("m", b.URL())))
		r.Chat(gatewaytest.StreamHi).Succeeds(t)
	})
}

func TestNoFailoverForCallerErrors(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 405, 408, 409, 413, 418, 422, 501} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			a, b := gatewaytest.StartBackend(t, simulator.Step{Status: status}), gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b))
			answer := r.Chat(gatewaytest.PlainHi)
			if answer.Status < 400 || answer.Header.Get("X-Router-Attempts") != "1" || b.Stats().Arrived != 0 {
				t.Errorf("status %d after %s attempts, the sibling got %d", answer.Status, answer.Header.Get("X-Router-Attempts"), b.Stats().Arrived)
			}
		})
	}
}

func TestNoFailoverAfterTheFirstContent(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"reset":       {Stop: simulator.StopReset, After: 2},
		"clean end":   {Stop: simulator.StopEnd, After: 2},
		"error event": {Inject: simulator.ErrorEvent("no", "t", "c"), After: 2},
		"silence":     {Stop: simulator.StopStall, After: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := gatewaytest.StartBackend(t, step), gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b)+gatewaytest.ShortTimeouts(step))
			answer := r.Chat(gatewaytest.StreamHi).Succeeds(t)
			events := gatewaytest.EventsOf(t, answer.Body)
			gatewaytest.ErrorOf(t, events[len(events)-1])
			if answer.Header.Get("X-Router-Attempts") != "1" || a.Stats().Arrived != 1 || b.Stats().Arrived != 0 {
				t.Errorf("attempts %q, requests %d and %d", answer.Header.Get("X-Router-Attempts"), a.Stats().Arrived, b.Stats().Arrived)
			}
		})
	}
}

func TestMaxAttempts(t *testing.T) {
	t.Parallel()
	for most := 1; most <= 4; most++ {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			backends := []*simulator.Backend{gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)}
			for _, b := range backends {
				b.ScriptForever(simulator.Step{Status: 503})
			}
			r := gatewaytest.Start(t, gatewaytest.PoolYAML(backends...)+fmt.Sprintf("limits: {max-attempts: %d}\n", most))
			answer := r.Chat(gatewaytest.PlainHi)
			answer.FailsWith(t, 503, "api_error", "upstream_error", "")
			want := min(most, 3)
			if got := answer.Header.Get("X-Router-Attempts"); got != fmt.Sprint(want) {
				t.Errorf("attempts %s, want %d", got, want)
			}
			for i, b := range backends { // nobody is asked twice for one request
				if got := b.Stats().Arrived; got != map[bool]int{true: 1, false: 0}[i < want] {
					t.Errorf("backend %d got %d requests", i, got)
				}
			}
		})
	}
}

// The error of the last attempt is the one that is told.
func TestLastFailureIsTold(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t, simulator.Step{Status: 500}), gatewaytest.StartBackend(t, simulator.Step{Status: 400})
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b))
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 400, gatewaytest.InvalidRequest, "upstream_error", "")
}

func TestWeightsAreExact(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	off, none := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(
		gatewaytest.Instance("m", off.URL(), "enabled: false", "weight: 5"), gatewaytest.Instance("m", a.URL(), "weight: 2"),
		gatewaytest.Instance("m", none.URL(), "weight: 0"), gatewaytest.Instance("m", b.URL(), "weight: 1")))
	for range 300 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	if a.Stats().Arrived != 200 || b.Stats().Arrived != 100 {
		t.Errorf("requests %d and %d, want 200 and 100", a.Stats().Arrived, b.Stats().Arrived)
	}
	if off.Stats().Arrived != 0 || none.Stats().Arrived != 0 {
		t.Errorf("the disabled instance got %d, the one of weight 0 got %d", off.Stats().Arrived, none.Stats().Arrived)
	}
}

func TestNoFailoverToDisabledInstances(t *testing.T) {
	t.Parallel()
	a, off := gatewaytest.StartBackend(t, simulator.Step{Status: 500}), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", off.URL(), "enabled: false")))
	if answer := r.Chat(gatewaytest.PlainHi); answer.Status != 500 || answer.Header.Get("X-Router-Attempts") != "1" || off.Stats().Arrived != 0 {
		t.Errorf("status %d after %s attempts", answer.Status, answer.Header.Get("X-Router-Attempts"))
	}
}

func TestUnknownModel(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("qwen2:7b", b.URL()), gatewaytest.Instance("qwen2:72b", b.URL()), gatewaytest.Instance("llama3", b.URL())))
	for _, stream := range []string{"", `,"stream":true`} {
		answer := r.Chat(`{"model":"qwen2-7b",` + gatewaytest.SomeMessages + stream + `}`)
		fault := answer.FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
		if answer.Header.Get("X-Should-Retry") != "false" || answer.Header.Get("X-Router-Attempts") != "0" {
			t.Errorf("x-should-retry %q, attempts %q", answer.Header.Get("X-Should-Retry"), answer.Header.Get("X-Router-Attempts"))
		}
		if !strings.Contains(fault.Message, "qwen2-7b") || !strings.Contains(fault.Message, "qwen2:7b") || strings.Contains(fault.Message, "llama3") {
			t.Errorf("message %q", fault.Message)
		}
		if !strings.Contains(string(fault.Details), `"qwen2:7b"`) {
			t.Errorf("details %s", fault.Details)
		}
	}
	fault := gatewaytest.ErrorOf(t, r.Chat(`{"model":"meta/qwen2:72b-awq",`+gatewaytest.SomeMessages+`}`).Body)
	if !strings.Contains(fault.Message, `Configured are "qwen2:72b", "qwen2:7b", "llama3".`) {
		t.Errorf("not all names, or not the nearest first: %q", fault.Message)
	}
	t.Run("404 where that is set", func(t *testing.T) {
		r := gatewaytest.Start(t, "server: {unknown-model: 404}\n"+gatewaytest.PolicyYAML("fallbacks: {gone: [llama3]}, "+gatewaytest.NoBreakerNoChecks,
			gatewaytest.Instance("llama3", b.URL()), gatewaytest.Instance("gone", b.URL(), "enabled: false")))
		r.Chat(`{"model":"none",`+gatewaytest.SomeMessages+`}`).FailsWith(t, 404, "not_found_error", "model_not_found", "")
		for path, body := range map[string]string{
			"/v1/messages":   `{"model":"none","max_tokens":9,` + gatewaytest.SomeMessages + `}`,
			"/v1/responses":  `{"model":"none","input":"hi"}`,
			"/v1/embeddings": `{"model":"none","input":"hi"}`,
		} {
			if reply := r.Do(http.MethodPost, path, body); reply.Status != 404 || !strings.Contains(reply.Body, `"not_found_error"`) {
				t.Errorf("%s: %d %s", path, reply.Status, reply.Body)
			}
		}
		// A model that has gone away is replaced as before.
		r.Chat(`{"model":"gone",` + gatewaytest.SomeMessages + `}`).Succeeds(t)
	})
	t.Run("nothing configured", func(t *testing.T) {
		gatewaytest.Start(t, "").Chat(gatewaytest.PlainHi).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	})
	if b.Stats().Arrived != 1 {
		t.Errorf("the backend got %d requests", b.Stats().Arrived)
	}
}

func TestNoUsableInstance(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "enabled: false"), gatewaytest.Instance("m", b.URL()+"/b", "weight: 0")))
	answer := r.Chat(gatewaytest.PlainHi)
	fault := answer.FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	for _, part := range []string{r.Instances("m")[0].Handle, r.Instances("m")[1].Handle, `"disabled"`, `"weight 0"`} {
		if !strings.Contains(string(fault.Details), part) {
			t.Errorf("no %s in the details %s", part, fault.Details)
		}
	}
	if answer.Header.Get("X-Should-Retry") == "false" || answer.Header.Get("Retry-After") == "" {
		t.Errorf("a state that may pass is told as final: %v", answer.Header)
	}
	gatewaytest.ContainsNone(t, answer.Body, b.URL())
}

func TestRoundRobinIsFairWhenOneIsDown(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", simulator.DownURL), gatewaytest.Instance("m", b.URL())))
	for range 30 {
		if answer := r.Chat(gatewaytest.PlainHi); answer.Status != http.StatusOK {
			t.Fatalf("status %d: %s", answer.Status, answer.Body)
		}
	}
	if got := a.Stats().Arrived + b.Stats().Arrived; got != 30 || a.Stats().Arrived < 10 || b.Stats().Arrived < 10 {
		t.Errorf("requests %d and %d", a.Stats().Arrived, b.Stats().Arrived)
	}
}
