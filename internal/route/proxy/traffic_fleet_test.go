package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
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

// Prompts that begin alike meet at one instance, at every door that has prompts, streamed or
// whole; others spread.
func TestPromptsThatBeginAlikeMeet(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("You are one of many agents that share these instructions. ", 400)
	for door, row := range map[string]struct{ path, body string }{
		"chat":        {"/v1/chat/completions", `{"model":"m","stream":%t,"messages":[{"role":"system","content":%q},{"role":"user","content":"question %d"}]}`},
		"messages":    {"/v1/messages", `{"model":"m","max_tokens":9,"stream":%t,"system":%q,"messages":[{"role":"user","content":"question %d"}]}`},
		"responses":   {"/v1/responses", `{"model":"m","stream":%t,"instructions":%q,"input":"question %d"}`},
		"completions": {"/v1/completions", `{"model":"m","stream":%t,"prompt":%q,"user":"%d"}`},
	} {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			var backends []*simulator.Backend
			var instances []string
			for range 3 {
				b := gatewaytest.StartBackend(t)
				b.ScriptForever(simulator.Step{HeaderDelay: 20 * time.Millisecond})
				backends = append(backends, b)
				instances = append(instances, gatewaytest.Instance("m", b.URL()))
			}
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: least-time, "+gatewaytest.NoBreakerNoChecks, instances...))
			ask := func(n int, text string) {
				if reply := r.Post(row.path, fmt.Sprintf(row.body, n%2 == 0, text, n)); reply.Status != http.StatusOK {
					t.Errorf("got status %d, want 200: %v %s", reply.Status, reply.Err, reply.Body)
				}
			}
			reached := func() (with, most int) {
				for _, b := range backends {
					if got := b.Stats().Arrived; got > 0 {
						with++
						most = max(most, got)
					}
				}
				return with, most
			}
			for n := range 10 {
				ask(n, long)
			}
			if with, most := reached(); with != 1 || most != 10 {
				t.Errorf("10 prompts that begin alike came to %d instances", with)
			}
			// Sent one after the other they would go to the instance that was measured to be the fastest.
			var running sync.WaitGroup
			for n := range 20 {
				running.Go(func() { ask(n, fmt.Sprint(n)+long) })
			}
			running.Wait()
			if with, most := reached(); with != 3 || most > 20 {
				t.Errorf("prompts that share nothing came to %d instances, %d of 30 to one", with, most)
			}
		})
	}
}

// Callers outside of the circle do not find what somebody else's prompt has left.
func TestPromptsOfOtherTenantsAreNotFound(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("The contract between A and B says the following. ", 400)
	for sharing, isShared := range map[string]bool{"all": true, "tenant": false} {
		t.Run(sharing, func(t *testing.T) {
			t.Parallel()
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: least-time, prompt-sharing: "+sharing+", "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
			body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, long)
			for _, tenant := range []string{"first", "first", "second"} {
				r.Chat(body, "X-Tenant-Id", tenant).Succeeds(t)
			}
			if isAlone := a.Stats().Arrived == 3 || b.Stats().Arrived == 3; isAlone != isShared {
				t.Errorf("the instances got %d and %d", a.Stats().Arrived, b.Stats().Arrived)
			}
		})
	}
}
