package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// Who waits for a model that is deleted meanwhile is told what a new request is
// told, and reaches nobody.
func TestWaitForAModelThatIsDeleted(t *testing.T) {
	g := startGate(t)
	r := startGateway(t, policyYAML("queue: {size: 5, timeout: 1h}, "+quietOnes, instance("m", g.url, "max-concurrency: 1")))
	running := r.later(deadline(t), streamHi)
	<-g.entered
	line := r.line()
	waits := []<-chan reply{r.later(deadline(t), streamHi), r.later(deadline(t), streamHi, from("192.0.2.7")...)}
	eventually(t, "two wait", func() bool { return line.Queue.Len() == 2 })
	r.revise(func(chat *config.Service) { chat.Instances = nil })
	for _, wait := range waits {
		answer := <-wait
		answer.failsWith(t, http.StatusServiceUnavailable, "service_unavailable", "service_unavailable", "")
		if got := answer.header.Get("X-Should-Retry"); got != "false" {
			t.Errorf("x-should-retry %q", got)
		}
	}
	close(g.open)
	answer := <-running
	if events := eventsOf(t, answer.succeeds(t).body); textOf(t, events) != "first last" {
		t.Errorf("the one that ran got %q", events)
	}
	if len(g.entered) != 0 {
		t.Error("the deleted backend was called")
	}
}

// What an edit says while the first attempt runs holds for the second one.
func TestEditsHoldForSecondAttempts(t *testing.T) {
	for name, row := range map[string]struct {
		edit   func(chat *config.Service)
		status int
		key    string // what the second one is called with
	}{
		"nothing":         {func(*config.Service) {}, 200, "Bearer old"},
		"switched off":    {func(c *config.Service) { c.Instances[1].Enabled = false }, 500, ""},
		"deleted":         {func(c *config.Service) { c.Instances = c.Instances[:1] }, 500, ""},
		"all deleted":     {func(c *config.Service) { c.Instances = nil }, 500, ""},
		"another key":     {func(c *config.Service) { c.Instances[1].APIKey = backend.Literal("new") }, 200, "Bearer new"},
		"the first again": {func(c *config.Service) { c.Instances = c.Instances[:1]; c.Instances[0].Weight = 7 }, 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			entered, open := make(chan struct{}, 10), make(chan struct{})
			slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				_, _ = io.Copy(io.Discard, q.Body)
				entered <- struct{}{}
				<-open
				w.WriteHeader(http.StatusInternalServerError)
			}))
			defer slow.Close()
			b := startBackend(t, simulator.Step{Text: "fine"})
			r := startGateway(t, policyYAML(quietOnes, instance("m", slow.URL), instance("m", b.URL(), "api-key: old")))
			running := r.later(deadline(t), plainHi)
			<-entered
			r.revise(row.edit)
			close(open)
			if answer := <-running; answer.err != nil || answer.status != row.status {
				t.Errorf("%d, %v: %s", answer.status, answer.err, answer.body)
			}
			if len(entered) != 0 {
				t.Error("the instance that failed was asked again")
			}
			if row.key == "" {
				if got := b.Stats().Arrived; got != 0 {
					t.Errorf("the other one got %d requests", got)
				}
			} else if got := onlyRequest(t, b).Header.Get("Authorization"); got != row.key {
				t.Errorf("the other one was called with %q", got)
			}
		})
	}
}
