package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// Who waits for a model that is deleted meanwhile is told what a new request is
// told, and reaches nobody.
func TestWaitForAModelThatIsDeleted(t *testing.T) {
	t.Parallel()
	g := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("queue: {size: 5, timeout: 1h}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", g.URL, "max-concurrency: 1")))
	running := r.ChatLater(gatewaytest.Deadline(t), gatewaytest.StreamHi)
	<-g.Entered
	line := r.ChatPool()
	waits := []<-chan gatewaytest.Reply{r.ChatLater(gatewaytest.Deadline(t), gatewaytest.StreamHi), r.ChatLater(gatewaytest.Deadline(t), gatewaytest.StreamHi, from("192.0.2.7")...)}
	gatewaytest.Eventually(t, "two wait", func() bool { return line.Queue.Len() == 2 })
	r.ChangeChat(func(chat *config.Service) { chat.Instances = nil })
	for _, wait := range waits {
		answer := <-wait
		answer.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "service_unavailable", "")
		if got := answer.Header.Get("X-Should-Retry"); got != "false" {
			t.Errorf("x-should-retry %q", got)
		}
	}
	close(g.Open)
	answer := <-running
	if events := gatewaytest.EventsOf(t, answer.Succeeds(t).Body); gatewaytest.TextOf(t, events) != "first last" {
		t.Errorf("the one that ran got %q", events)
	}
	if len(g.Entered) != 0 {
		t.Error("the deleted backend was called")
	}
}

// What an edit says while the first attempt runs holds for the second one.
func TestEditsHoldForSecondAttempts(t *testing.T) {
	t.Parallel()
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
			b := gatewaytest.StartBackend(t, simulator.Step{Text: "fine"})
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", slow.URL), gatewaytest.Instance("m", b.URL(), "api-key: old")))
			running := r.ChatLater(gatewaytest.Deadline(t), gatewaytest.PlainHi)
			<-entered
			r.ChangeChat(row.edit)
			close(open)
			if answer := <-running; answer.Err != nil || answer.Status != row.status {
				t.Errorf("%d, %v: %s", answer.Status, answer.Err, answer.Body)
			}
			if len(entered) != 0 {
				t.Error("the instance that failed was asked again")
			}
			if row.key == "" {
				if got := b.Stats().Arrived; got != 0 {
					t.Errorf("the other one got %d requests", got)
				}
			} else if got := gatewaytest.OnlyRequest(t, b).Header.Get("Authorization"); got != row.key {
				t.Errorf("the other one was called with %q", got)
			}
		})
	}
}
