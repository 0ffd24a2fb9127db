package proxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// underWay returns how many calls the fleet believes to be under way at all instances.
func underWay(r *gatewaytest.Gateway) (calls int) {
	for _, picture := range r.Fleet.Pictures(time.Now()) {
		calls += picture.Waiting + picture.Decoding
	}
	return calls
}

// However a request ends, the fleet does not believe it to be under way any more.
func TestEveryEndIsToldToTheFleet(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		first simulator.Step // of each of two instances
		body  string
	}{
		"whole":                 {simulator.Step{}, gatewaytest.PlainHi},
		"streamed":              {simulator.Step{}, gatewaytest.StreamHi},
		"failover":              {simulator.Step{Status: 500}, gatewaytest.PlainHi},
		"refused":               {simulator.Step{Status: 400}, gatewaytest.StreamHi},
		"reset":                 {simulator.Step{Reset: true}, gatewaytest.StreamHi},
		"cut off in its middle": {simulator.Step{Stop: simulator.StopReset, After: 2}, gatewaytest.StreamHi},
		"unlike its dialect":    {simulator.Step{Body: "no JSON", Header: gatewaytest.ContentType("application/json")}, gatewaytest.PlainHi},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := gatewaytest.StartBackend(t, row.first), gatewaytest.StartBackend(t, row.first)
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: least-time, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
			for range 3 {
				r.Chat(row.body)
			}
			if got := a.Stats().Arrived + b.Stats().Arrived; got < 3 {
				t.Errorf("%d requests came to a backend", got)
			}
			gatewaytest.Eventually(t, "no call is under way", func() bool { return underWay(r) == 0 })
		})
	}
}

// A request that waits for its answer counts at its instance until its client leaves, also
// for longer than was expected: the instance may hang.
func TestRequestsThatWaitAreSeenByTheNext(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	a.ScriptForever(simulator.Step{Hang: true})
	b.ScriptForever(simulator.Step{Hang: true})
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: least-time, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	first := r.ChatLater(ctx, gatewaytest.StreamHi)
	gatewaytest.Eventually(t, "the first request waits", func() bool { return a.Stats().Arrived+b.Stats().Arrived == 1 })
	waits, free := a, b
	if b.Stats().Arrived == 1 {
		waits, free = b, a
	}
	free.Script() // it answers at once
	for range 20 {
		r.Chat(gatewaytest.StreamHi).Succeeds(t)
	}
	if free.Stats().Arrived != 20 || waits.Stats().Arrived != 1 {
		t.Errorf("the idle instance got %d of 20, the other one %d", free.Stats().Arrived, waits.Stats().Arrived-1)
	}
	cancel()
	<-first
	gatewaytest.Eventually(t, "the fleet is told that the client left", func() bool { return underWay(r) == 0 })
}

// A stream is decoded from its first content on, not from its first event.
func TestFirstContentIsToldToTheFleet(t *testing.T) {
	t.Parallel()
	const role = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	goOn := make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{role, "data: " + gatewaytest.FirstChunk + "\n\n", "data: " + gatewaytest.LastChunk + "\n\n" + simulator.DoneEvent} {
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
	}))
	defer backend.Close()
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: least-time, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", backend.URL)))
	stream := r.Stream(gatewaytest.Deadline(t), gatewaytest.StreamHi)
	count := func() (waiting, decoding int) {
		picture := r.Fleet.Pictures(time.Now())[0]
		return picture.Waiting, picture.Decoding
	}
	if waiting, decoding := count(); waiting != 1 || decoding != 0 {
		t.Errorf("after the role alone %d wait and %d are answered", waiting, decoding)
	}
	goOn <- struct{}{}
	gatewaytest.Eventually(t, "the first content is told", func() bool {
		waiting, decoding := count()
		return waiting == 0 && decoding == 1
	})
	close(goOn)
	if _, err := stream.Rest(); err != nil {
		t.Error(err)
	}
	gatewaytest.Eventually(t, "the end is told", func() bool { return underWay(r) == 0 })
}
