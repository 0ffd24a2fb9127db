package gateway_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// An instance with max-concurrency: auto begins with two slots, others wait in the queue, and
// what it has learned is shown everywhere.
func TestSlotsThatAreLearned(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("queue: {size: 10}", gatewaytest.Instance("m", b.URL, "max-concurrency: auto")))
	var replies []<-chan gatewaytest.Reply
	for range 3 {
		replies = append(replies, r.ChatLater(gatewaytest.Deadline(t), coldStream))
	}
	<-b.Entered
	<-b.Entered
	gatewaytest.Eventually(t, "the third request waits", func() bool { return r.ChatPool().Queue.Len() == 1 })
	if n := r.Instances("m")[0].InFlight(); n != 2 {
		t.Errorf("%d calls at a time", n)
	}
	const why = "2 slots to begin with: no time per token has been measured yet"
	for _, path := range []string{"/api/monitoring/instances", "/api/route/explain?service=chat&model=m"} {
		if body := r.Do("GET", path, "").Succeeds(t).Body; !strings.Contains(body, why) {
			t.Errorf("%s: %s", path, body)
		}
	}
	found := false
	for name, value := range r.Scrape() {
		if strings.HasPrefix(name, "model_router_instance_slots{") {
			found = found || value == 2
		}
	}
	if !found {
		t.Error("the scrape does not have the slots")
	}
	if body := r.Do("GET", "/api/config/instance/type/chat", "").Body; !strings.Contains(body, `"maxConcurrency":-1`) {
		t.Errorf("the configuration: %s", body)
	}
	close(b.Open)
	for _, reply := range replies {
		(<-reply).Succeeds(t)
	}
	gatewaytest.Eventually(t, "all have ended", func() bool { return r.Instances("m")[0].InFlight() == 0 })
}
