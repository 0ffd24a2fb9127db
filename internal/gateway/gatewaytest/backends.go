package gatewaytest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// StartBackend starts a simulated backend that keeps the bodies it gets.
func StartBackend(t *testing.T, steps ...simulator.Step) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(simulator.Options{Record: true, BodyCap: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	b.Script(steps...)
	return b
}

// StartOne starts a gateway with one backend that serves the model m.
func StartOne(t *testing.T, steps ...simulator.Step) (*Gateway, *simulator.Backend) {
	t.Helper()
	b := StartBackend(t, steps...)
	return Start(t, PoolYAML(b)), b
}

// StartService starts a gateway with one backend that serves the model m for every
// service type.
func StartService(t *testing.T, steps ...simulator.Step) (*Gateway, *simulator.Backend) {
	t.Helper()
	b := StartBackend(t, steps...)
	return Start(t, EveryService(b)), b
}

// OnlyRequest returns the one request that a backend got.
func OnlyRequest(t *testing.T, b *simulator.Backend) simulator.Request {
	t.Helper()
	requests := b.Requests()
	if len(requests) != 1 {
		t.Fatalf("the backend got %d requests, want 1", len(requests))
	}
	return requests[0]
}

// HeldBackend is a backend that sends one event of a stream, waits for the test, and then
// completes it.
type HeldBackend struct {
	URL     string
	Server  *http.Server
	Entered chan string   // the request id of each stream after its first event was sent
	Open    chan struct{} // a token lets one stream complete; closed lets all
	Echo    bool          // the last event of a stream contains the id of its request
}

// The two chunks of a stream of a HeldBackend.
const (
	FirstChunk = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,` +
		`"delta":{"role":"assistant","content":"first"},"finish_reason":null}]}`
	LastChunk = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,` +
		`"delta":{"content":" last"},"finish_reason":"stop"}]}`
)

// StartHeldBackend starts a backend with streams that wait for the test.
func StartHeldBackend(t *testing.T) *HeldBackend {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(Deadline(t), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &HeldBackend{URL: "http://" + listener.Addr().String(), Entered: make(chan string, 1000),
		Open: make(chan struct{})}
	g.Server = &http.Server{ReadHeaderTimeout: Timeout, Handler: http.HandlerFunc(g.answer)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = g.Server.Close()
		<-done
	})
	return g
}

func (g *HeldBackend) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\n", FirstChunk)
	_ = http.NewResponseController(w).Flush()
	g.Entered <- r.Header.Get("X-Request-Id")
	select {
	case <-g.Open:
		last := LastChunk
		if g.Echo {
			last = strings.Replace(last, " last", " "+r.Header.Get("X-Request-Id"), 1)
		}
		fmt.Fprintf(w, "data: %s\n\n"+simulator.DoneEvent, last)
	case <-r.Context().Done():
	}
}

// EventStep returns a step that sends this text as a stream of events.
func EventStep(events string) simulator.Step {
	return simulator.Step{Body: events, Header: ContentType("text/event-stream; charset=utf-8")}
}

// ContentType returns a header with this content type alone.
func ContentType(contentType string) http.Header { return http.Header{"Content-Type": {contentType}} }

// RawBody is a completion with everything that decoding and encoding would lose: big
// integers, digits, order, escapes, spaces, unknown members.
const RawBody = `{ "zeta":1, "id":"x","object":"chat.completion","created":1,"model":"their-name",` +
	`"choices":[{"index":0,"message":{"role":"assistant","content":"h\u00e9 \/","reasoning_content":"r"},` +
	`"finish_reason":"stop","vendor":1e2}],` +
	`"big":123456789012345678901234567890,"trailing":1.10,"neg":-0,"system_fingerprint":null,` +
	`"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"extra":1.50}, "a" : [ ] }`

// TakeAway closes a backend and keeps its address free: connections are refused until it
// is started there again.
func TakeAway(t *testing.T, b *simulator.Backend) {
	t.Helper()
	b.Close()
	waittest.Vacate(t, strings.TrimPrefix(b.URL(), "http://"))
}
