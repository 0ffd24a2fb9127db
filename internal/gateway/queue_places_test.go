package gateway_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// line is a queue that requests with keys come to one after the other.
type line struct {
	*gatewaytest.Gateway
	ctx  context.Context
	body string
	full chan string // the keys of requests that were refused as by a full queue
}

// newLine starts a gateway with keys a, b and c.
func newLine(t *testing.T, yaml, body string) *line {
	t.Helper()
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	t.Cleanup(cancel)
	return &line{gatewaytest.Start(t, keyed(yaml, "", map[string]string{"a": "", "b": "", "c": ""})), ctx, body, make(chan string, 100)}
}

// come sends a request, and waits until so many have places.
func (l *line) come(key string, places int) <-chan gatewaytest.Reply {
	l.T.Helper()
	done := make(chan gatewaytest.Reply, 1)
	later := l.ChatLater(l.ctx, l.body, bearer(key)...)
	go func() {
		reply := <-later
		if reply.Status == http.StatusTooManyRequests {
			l.full <- key
		}
		done <- reply
	}()
	gatewaytest.Eventually(l.T, "a request has come", func() bool { return l.ChatPool().Queue.Len() == places })
	return done
}

// One key fills the queue, and the requests of others get places all the same: the newest
// ones of that key give way.
func TestOneKeyDoesNotTakeAllPlacesOfAQueue(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	l := newLine(t, gatewaytest.PolicyYAML("queue: {size: 4, timeout: 10m}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL, "max-concurrency: 1")), coldStream)
	served := []<-chan gatewaytest.Reply{l.come("a", 0)}
	<-b.Entered
	var waiting []<-chan gatewaytest.Reply
	for n := range 4 {
		waiting = append(waiting, l.come("a", n+1))
	}
	l.Chat(gatewaytest.PlainHi, bearer("a")...).FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "concurrency_limit_reached", "")
	served = append(served, l.come("b", 4))
	(<-waiting[3]).FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "concurrency_limit_reached", "")
	served = append(served, l.come("c", 4))
	refused := <-waiting[2]
	refused.FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "concurrency_limit_reached", "")
	if refused.Header.Get("Retry-After") == "" || refused.Header.Get("X-Router-Queue") == "" {
		t.Errorf("%v", refused.Header)
	}
	l.Chat(gatewaytest.PlainHi, bearer("b")...).FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "concurrency_limit_reached", "")
	close(b.Open)
	for _, reply := range append(served, waiting[:2]...) {
		(<-reply).Succeeds(t)
	}
}

// The same holds for requests that are held until their model is in memory.
func TestOneKeyDoesNotTakeAllPlacesOfAModelThatLoads(t *testing.T) {
	t.Parallel()
	b, err := simulator.Start(simulator.Options{Models: []string{"m"}, Kind: simulator.Ollama, Engine: &engine.Spec{Block: 16, Cache: 100_000, Room: 1, Load: 3600}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	l := newLine(t, gatewaytest.PolicyYAML("queue: {size: 3, timeout: 10m}, residency: {enabled: true, wake-timeout: 10m}, "+gatewaytest.NoBreaker,
		gatewaytest.Instance("m", b.URL(), "adapter: ollama")), coldStream)
	for n := range 3 {
		l.come("a", n+1)
	}
	l.Chat(gatewaytest.PlainHi, bearer("a")...).FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "concurrency_limit_reached", "")
	l.come("b", 3)
	if key := <-l.full; key != "a" {
		t.Errorf("a request of %s gave way", key)
	}
	l.Chat(gatewaytest.PlainHi, bearer("b")...).FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "concurrency_limit_reached", "")
}
