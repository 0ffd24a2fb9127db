package main

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// 500 streams at once come through whole, each with its own content, and leave
// nothing behind.
func TestManyStreamsAtOnce(t *testing.T) {
	const streams = 500
	a, b := startBackend(t), startBackend(t)
	for _, backend := range []*simulator.Backend{a, b} {
		backend.ScriptForever(simulator.Step{EventDelay: 5 * time.Millisecond}) // so that all of them are open at once
	}
	r := startGateway(t, poolYAML(a, b))
	before := runtime.NumGoroutine()
	bodies := make([]string, streams)
	failures := make([]error, streams)
	var running sync.WaitGroup
	for n := range streams {
		running.Go(func() {
			body := fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":"I am number %d."}]}`, n)
			response, err := r.client.Do(r.request(deadline(t), http.MethodPost, "/v1/chat/completions", body))
			if err != nil {
				failures[n] = err
				return
			}
			answer := drain(response)
			bodies[n], failures[n] = answer.body, answer.err
			if answer.status != 200 {
				failures[n] = fmt.Errorf("status %d: %s", answer.status, answer.body)
			}
		})
	}
	running.Wait()
	for n, body := range bodies {
		if failures[n] != nil {
			t.Fatalf("stream %d: %v", n, failures[n])
		}
		events := eventsOf(t, body)
		if text := textOf(t, events); !strings.Contains(text, fmt.Sprintf(`"I am number %d."`, n)) || events[len(events)-1] != "[DONE]" {
			t.Fatalf("stream %d says %q", n, text)
		}
	}
	if total := a.Stats().Arrived + b.Stats().Arrived; total != streams {
		t.Errorf("the backends got %d requests", total)
	}
	for _, backend := range []*simulator.Backend{a, b} {
		if peak := backend.Stats().PeakInFlight; peak < streams/4 {
			t.Errorf("no more than %d streams were open at once at a backend; this test shows nothing", peak)
		}
	}
	for _, i := range r.instances("m") {
		eventually(t, "nothing is in flight", func() bool { return i.InFlight() == 0 })
		if success, failure, cancelled := outcomes(i); success != streams/2 || failure != 0 || cancelled != 0 {
			t.Errorf("outcomes %d %d %d", success, failure, cancelled)
		}
	}
	// Idle connections are kept on purpose; without them nothing is left.
	r.client.CloseIdleConnections()
	r.gateway.client.Close()
	eventually(t, fmt.Sprintf("no more than %d goroutines", before+2), func() bool { return runtime.NumGoroutine() <= before+2 })
}
