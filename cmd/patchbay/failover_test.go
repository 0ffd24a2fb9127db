package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// What another instance may do better goes to another instance, once, and the
// caller sees an ordinary answer.
// impatient are the limits of an instance that fails to keep them. The others in
// the same test have the default ones, which a busy machine keeps as well.
const impatient = "timeouts: {first-byte: 300ms, idle: 300ms}"

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
			both(t, func(t *testing.T, body string) {
				a, b := startBackend(t, step), startBackend(t, simulator.Step{Text: "rescued"})
				r := startGateway(t, chatYAML(instance("m", a.URL(), impatient), instance("m", b.URL())))
				answer := r.chat(body).succeeds(t)
				if !strings.Contains(answer.body, "rescued") || strings.Contains(answer.body, "error") {
					t.Errorf("answer %s", answer.body)
				}
				if answer.header.Get("X-Router-Attempts") != "2" || answer.header.Get("X-Router-Instance") != r.instances("m")[1].Handle {
					t.Errorf("attempts %q by %q", answer.header.Get("X-Router-Attempts"), answer.header.Get("X-Router-Instance"))
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
		both(t, func(t *testing.T, body string) {
			b := startBackend(t)
			r := startGateway(t, chatYAML(instance("m", simulator.DownURL), instance("m", b.URL())))
			if answer := r.chat(body).succeeds(t); answer.header.Get("X-Router-Attempts") != "2" {
				t.Errorf("attempts %q", answer.header.Get("X-Router-Attempts"))
			}
		})
	})
	t.Run("no first event in time", func(t *testing.T) {
		a, b := startBackend(t, simulator.Step{FirstDelay: never}), startBackend(t)
		r := startGateway(t, chatYAML(instance("m", a.URL(), impatient), instance("m", b.URL())))
		r.chat(streamHi).succeeds(t)
	})
}

func TestNoFailoverForWhatTheCallerDid(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 405, 408, 409, 413, 418, 422, 501} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			a, b := startBackend(t, simulator.Step{Status: status}), startBackend(t)
			r := startGateway(t, poolYAML(a, b))
			answer := r.chat(plainHi)
			if answer.status < 400 || answer.header.Get("X-Router-Attempts") != "1" || b.Stats().Arrived != 0 {
				t.Errorf("status %d after %s attempts, the sibling got %d", answer.status, answer.header.Get("X-Router-Attempts"), b.Stats().Arrived)
			}
		})
	}
}

func TestNoFailoverAfterTheFirstEvent(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"reset":       {Stop: simulator.StopReset, After: 1},
		"clean end":   {Stop: simulator.StopEnd, After: 1},
		"error event": {Inject: simulator.ErrorEvent("no", "t", "c"), After: 1},
		"silence":     {Stop: simulator.StopStall, After: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := startBackend(t, step), startBackend(t)
			r := startGateway(t, poolYAML(a, b)+"limits: {idle-timeout: 300ms}\n")
			answer := r.chat(streamHi).succeeds(t)
			events := eventsOf(t, answer.body)
			faultOf(t, events[len(events)-1])
			if answer.header.Get("X-Router-Attempts") != "1" || a.Stats().Arrived != 1 || b.Stats().Arrived != 0 {
				t.Errorf("attempts %q, requests %d and %d", answer.header.Get("X-Router-Attempts"), a.Stats().Arrived, b.Stats().Arrived)
			}
		})
	}
}

func TestMaxAttempts(t *testing.T) {
	for most := 1; most <= 4; most++ {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			backends := []*simulator.Backend{startBackend(t), startBackend(t), startBackend(t)}
			for _, b := range backends {
				b.ScriptForever(simulator.Step{Status: 503})
			}
			r := startGateway(t, poolYAML(backends...)+fmt.Sprintf("limits: {max-attempts: %d}\n", most))
			answer := r.chat(plainHi)
			answer.failsWith(t, 503, "api_error", "upstream_error", "")
			want := min(most, 3)
			if got := answer.header.Get("X-Router-Attempts"); got != fmt.Sprint(want) {
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
	a, b := startBackend(t, simulator.Step{Status: 500}), startBackend(t, simulator.Step{Status: 400})
	r := startGateway(t, poolYAML(a, b))
	r.chat(plainHi).failsWith(t, 400, invalidRequest, "upstream_error", "")
}

func TestWeightsAreExact(t *testing.T) {
	a, b := startBackend(t), startBackend(t)
	off, none := startBackend(t), startBackend(t)
	r := startGateway(t, chatYAML(
		instance("m", off.URL(), "enabled: false", "weight: 5"), instance("m", a.URL(), "weight: 2"),
		instance("m", none.URL(), "weight: 0"), instance("m", b.URL(), "weight: 1")))
	for range 300 {
		r.chat(plainHi).succeeds(t)
	}
	if a.Stats().Arrived != 200 || b.Stats().Arrived != 100 {
		t.Errorf("requests %d and %d, want 200 and 100", a.Stats().Arrived, b.Stats().Arrived)
	}
	if off.Stats().Arrived != 0 || none.Stats().Arrived != 0 {
		t.Errorf("the disabled instance got %d, the one of weight 0 got %d", off.Stats().Arrived, none.Stats().Arrived)
	}
}

func TestDisabledInstancesAreNoRescue(t *testing.T) {
	a, off := startBackend(t, simulator.Step{Status: 500}), startBackend(t)
	r := startGateway(t, chatYAML(instance("m", a.URL()), instance("m", off.URL(), "enabled: false")))
	if answer := r.chat(plainHi); answer.status != 500 || answer.header.Get("X-Router-Attempts") != "1" || off.Stats().Arrived != 0 {
		t.Errorf("status %d after %s attempts", answer.status, answer.header.Get("X-Router-Attempts"))
	}
}

func TestUnknownModel(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, chatYAML(instance("qwen2:7b", b.URL()), instance("qwen2:72b", b.URL()), instance("llama3", b.URL())))
	for _, stream := range []string{"", `,"stream":true`} {
		answer := r.chat(`{"model":"qwen2-7b",` + someMessages + stream + `}`)
		fault := answer.failsWith(t, 503, "service_unavailable", "service_unavailable", "")
		if answer.header.Get("X-Should-Retry") != "false" || answer.header.Get("X-Router-Attempts") != "0" {
			t.Errorf("x-should-retry %q, attempts %q", answer.header.Get("X-Should-Retry"), answer.header.Get("X-Router-Attempts"))
		}
		if !strings.Contains(fault.Message, "qwen2-7b") || !strings.Contains(fault.Message, "qwen2:7b") || strings.Contains(fault.Message, "llama3") {
			t.Errorf("message %q", fault.Message)
		}
		if !strings.Contains(string(fault.Details), `"qwen2:7b"`) {
			t.Errorf("details %s", fault.Details)
		}
	}
	fault := faultOf(t, r.chat(`{"model":"something-else-entirely",`+someMessages+`}`).body)
	if !strings.Contains(fault.Message, "llama3") {
		t.Errorf("no configured name in %q", fault.Message)
	}
	t.Run("nothing configured", func(t *testing.T) {
		startGateway(t, "").chat(plainHi).failsWith(t, 503, "service_unavailable", "service_unavailable", "")
	})
	if b.Stats().Arrived != 0 {
		t.Errorf("the backend got %d requests", b.Stats().Arrived)
	}
}

func TestNoUsableInstance(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, chatYAML(instance("m", b.URL(), "enabled: false"), instance("m", b.URL()+"/b", "weight: 0")))
	answer := r.chat(plainHi)
	fault := answer.failsWith(t, 503, "service_unavailable", "service_unavailable", "")
	for _, part := range []string{r.instances("m")[0].Handle, r.instances("m")[1].Handle, `"disabled"`, `"weight 0"`} {
		if !strings.Contains(string(fault.Details), part) {
			t.Errorf("no %s in the details %s", part, fault.Details)
		}
	}
	if answer.header.Get("X-Should-Retry") == "false" || answer.header.Get("Retry-After") == "" {
		t.Errorf("a state that may pass is told as final: %v", answer.header)
	}
	noneOf(t, answer.body, b.URL())
}

func TestRoundRobinIsFairWhenOneIsDown(t *testing.T) {
	a, b := startBackend(t), startBackend(t)
	r := startGateway(t, chatYAML(instance("m", a.URL()), instance("m", simulator.DownURL), instance("m", b.URL())))
	for range 30 {
		if answer := r.chat(plainHi); answer.status != http.StatusOK {
			t.Fatalf("status %d: %s", answer.status, answer.body)
		}
	}
	if got := a.Stats().Arrived + b.Stats().Arrived; got != 30 || a.Stats().Arrived < 10 || b.Stats().Arrived < 10 {
		t.Errorf("requests %d and %d", a.Stats().Arrived, b.Stats().Arrived)
	}
}
