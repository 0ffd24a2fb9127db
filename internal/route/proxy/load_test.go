package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// 500 streams that are open at the same time come through whole, each with its
// own content, and leave nothing behind.
func TestManyStreamsAtOnce(t *testing.T) {
	const streams = 500
	a, b := gatewaytest.StartHeldBackend(t), gatewaytest.StartHeldBackend(t)
	a.Echo, b.Echo = true, true
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", a.URL), gatewaytest.Instance("m", b.URL))+"limits: {connect-timeout: 2m}\n")
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	answers := make([]gatewaytest.Reply, streams)
	var running sync.WaitGroup
	for n := range streams {
		running.Go(func() {
			request := r.Request(ctx, http.MethodPost, "/v1/chat/completions", gatewaytest.StreamHi, "X-Request-Id", fmt.Sprintf("number-%d", n))
			response, err := r.Client.Do(request)
			if err != nil {
				answers[n].Err = err
				return
			}
			answers[n] = gatewaytest.ReadReply(response)
		})
	}
	for _, gate := range []*gatewaytest.HeldBackend{a, b} { // every stream has begun before any may end
		for range streams / 2 {
			select {
			case <-gate.Entered:
			case <-ctx.Done():
				t.Fatal("not all streams begin")
			}
		}
	}
	for _, i := range r.Instances("m") {
		if i.InFlight() != streams/2 {
			t.Errorf("%d streams are in flight at an instance, want %d", i.InFlight(), streams/2)
		}
	}
	close(a.Open)
	close(b.Open)
	running.Wait()
	for n, answer := range answers {
		if answer.Err != nil || answer.Status != http.StatusOK {
			t.Fatalf("stream %d: %d, %v", n, answer.Status, answer.Err)
		}
		events := gatewaytest.EventsOf(t, answer.Body)
		if text := gatewaytest.TextOf(t, events); text != fmt.Sprintf("first number-%d", n) || len(events) != 3 || events[2] != "[DONE]" {
			t.Fatalf("stream %d says %q", n, events)
		}
	}
	for _, i := range r.Instances("m") {
		gatewaytest.Eventually(t, "nothing is in flight", func() bool { return i.InFlight() == 0 })
		if success, failure, cancelled := gatewaytest.Outcomes(i); success != streams/2 || failure != 0 || cancelled != 0 {
			t.Errorf("outcomes %d %d %d", success, failure, cancelled)
		}
	}
	// Idle connections are kept on purpose; without them nothing is left.
	r.Client.CloseIdleConnections()
	r.Transport.Close()
	gatewaytest.Eventually(t, fmt.Sprintf("no more than %d goroutines", before+2), func() bool { return runtime.NumGoroutine() <= before+2 })
}
