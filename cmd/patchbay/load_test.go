package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"
)

// 500 streams that are open at the same time come through whole, each with its
// own content, and leave nothing behind.
func TestManyStreamsAtOnce(t *testing.T) {
	const streams = 500
	a, b := startGate(t), startGate(t)
	a.echo, b.echo = true, true
	r := startGateway(t, chatYAML(instance("m", a.url), instance("m", b.url)))
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	answers := make([]reply, streams)
	var running sync.WaitGroup
	for n := range streams {
		running.Go(func() {
			request := r.request(ctx, http.MethodPost, "/v1/chat/completions", streamHi, "X-Request-Id", fmt.Sprintf("number-%d", n))
			response, err := r.client.Do(request)
			if err != nil {
				answers[n].err = err
				return
			}
			answers[n] = drain(response)
		})
	}
	for _, gate := range []*gate{a, b} { // every stream has begun before any may end
		for range streams / 2 {
			select {
			case <-gate.entered:
			case <-ctx.Done():
				t.Fatal("not all streams begin")
			}
		}
	}
	for _, i := range r.instances("m") {
		if i.InFlight() != streams/2 {
			t.Errorf("%d streams are in flight at an instance, want %d", i.InFlight(), streams/2)
		}
	}
	close(a.open)
	close(b.open)
	running.Wait()
	for n, answer := range answers {
		if answer.err != nil || answer.status != http.StatusOK {
			t.Fatalf("stream %d: %d, %v", n, answer.status, answer.err)
		}
		events := eventsOf(t, answer.body)
		if text := textOf(t, events); text != fmt.Sprintf("first number-%d", n) || len(events) != 3 || events[2] != "[DONE]" {
			t.Fatalf("stream %d says %q", n, events)
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
	r.Transport.Close()
	eventually(t, fmt.Sprintf("no more than %d goroutines", before+2), func() bool { return runtime.NumGoroutine() <= before+2 })
}
