package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
)

// priorityKeys are keys and tenants of every priority.
var priorityKeys = map[string]string{
	"person": ", priority: interactive", "program": "", "night": ", priority: batch",
	"clerk": ", priority: interactive, tenant: slow", "guest": ", tenant: slow",
}

const slowTenant = "  tenants: [{name: slow, priority: normal}]\n"

// Requests that wait are served in the order of their classes, by the priority of their key
// or as their header asks; a refusal tells what there was to expect, and everything
// that shows queues shows them by class.
func TestRequestsWaitInTheOrderOfTheirPriorities(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, keyed(gatewaytest.PolicyYAML("queue: {size: 3, timeout: 10m}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL, "max-concurrency: 1")),
		slowTenant+"  tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin-token")+"}]\n", priorityKeys))
	ask := func(key, id string, headers ...string) <-chan gatewaytest.Reply {
		return r.ChatLater(gatewaytest.Deadline(t), coldStream, append(append(bearer(key), "X-Request-Id", id), headers...)...)
	}
	replies := []<-chan gatewaytest.Reply{ask("night", "first")}
	if got := <-b.Entered; got != "first" {
		t.Fatal(got)
	}
	for n, asked := range [][]string{
		{"night", "night-1"}, {"program", "low-1", "X-Router-Priority", "batch"}, {"program", "program-1"},
		{"guest", "guest-1"}, {"person", "person-1"}, {"person", "person-2"},
	} {
		replies = append(replies, ask(asked[0], asked[1], asked[2:]...))
		gatewaytest.Eventually(t, asked[1]+" waits", func() bool { return r.ChatPool().Queue.Len() == n+1 })
	}
	if got := r.ChatPool().Queue.Lengths(); got != (queue.Lengths{schema.Interactive: 2, schema.Normal: 2, schema.Batch: 2}) {
		t.Errorf("%v wait", got)
	}

	full := r.Chat(gatewaytest.PlainHi, bearer("program")...)
	full.FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "concurrency_limit_reached", "")
	if got := full.Header.Get("X-Router-Queue"); !strings.HasPrefix(got, "normal;position=5") {
		t.Errorf("refused with %q", got)
	}
	admin := []string{"Authorization", "Bearer admin-token"}
	explained := r.Do("GET", "/api/route/explain?service=chat&model=m&priority=interactive&clientIp=192.0.2.1", "", admin...).Succeeds(t).Body
	for _, part := range []string{`"byClass":{"interactive":2,"normal":2,"batch":2}`, `"priority":"interactive"`, `"position":2`} {
		if !strings.Contains(explained, part) {
			t.Errorf("%s is not in %s", part, explained)
		}
	}
	r.API("GET", "/api/route/explain?service=chat&model=m&priority=urgent", "", admin...).Is(t, http.StatusBadRequest, "priority")
	for class, want := range map[string]float64{"interactive": 2, "normal": 2, "batch": 2} {
		if got := gatewaytest.Sum(r.Scrape(), "model_router_queue_class_length", `service="chat"`, `priority="`+class+`"`); got != want {
			t.Errorf("the scrape says that %v of class %s wait", got, class)
		}
	}

	var order []string
	for range 6 {
		b.Open <- struct{}{}
		order = append(order, <-b.Entered)
	}
	close(b.Open)
	if got := strings.Join(order, " "); got != "person-1 person-2 program-1 guest-1 night-1 low-1" {
		t.Errorf("served %s", got)
	}
	for _, reply := range replies {
		(<-reply).Succeeds(t)
	}
	gatewaytest.Eventually(t, "the waits are counted by class", func() bool {
		scraped := r.Scrape()
		return gatewaytest.Sum(scraped, "model_router_queue_class_wait_seconds_count", `priority="interactive"`) == 2 &&
			gatewaytest.Sum(scraped, "model_router_queue_class_wait_seconds_count", `priority="batch"`) == 2
	})
}

// The priority of a key, of its tenant or of the service type is the most urgent class for
// which a request with the key may ask.
func TestAKeyMayLowerItsPriorityAndNotRaiseIt(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, keyed(gatewaytest.PoolYAML(b), slowTenant, priorityKeys))
	for _, c := range []struct{ key, asks, most string }{
		{"person", "interactive", ""}, {"person", "Batch", ""}, {"person", "normal", ""},
		{"program", "normal", ""}, {"program", "batch", ""}, {"program", "interactive", "normal"},
		{"night", "batch", ""}, {"night", "normal", "batch"},
		{"clerk", "interactive", "normal"}, {"clerk", "normal", ""}, {"guest", "interactive", "normal"},
	} {
		answer := r.Chat(gatewaytest.PlainHi, append(bearer(c.key), "X-Router-Priority", c.asks)...)
		if c.most == "" {
			answer.Succeeds(t)
			continue
		}
		refused := answer.FailsWith(t, http.StatusForbidden, "permission_error", "permission_denied", "")
		if want := fmt.Sprintf("may not ask for the priority %s: the most urgent one that it may ask for is %s", c.asks, c.most); !strings.Contains(refused.Message, want) {
			t.Errorf("%s: %s", c.key, refused.Message)
		}
	}
	for _, wrong := range []string{"", "spare", "urgent", "1"} {
		answer := r.Chat(gatewaytest.PlainHi, append(bearer("person"), "X-Router-Priority", wrong)...)
		answer.FailsWith(t, http.StatusBadRequest, "invalid_request_error", "invalid_value", "")
	}
}

// Without keys the header decides; what the service type says holds for those without one.
func TestWithoutKeysTheHeaderDecidesThePriority(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("priority: batch, queue: {size: 10, timeout: 10m}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL, "max-concurrency: 1")))
	replies := []<-chan gatewaytest.Reply{r.ChatLater(gatewaytest.Deadline(t), coldStream)}
	<-b.Entered
	replies = append(replies, r.ChatLater(gatewaytest.Deadline(t), coldStream),
		r.ChatLater(gatewaytest.Deadline(t), coldStream, "X-Router-Priority", "interactive"))
	gatewaytest.Eventually(t, "both wait", func() bool { return r.ChatPool().Queue.Len() == 2 })
	if got := r.ChatPool().Queue.Lengths(); got != (queue.Lengths{schema.Interactive: 1, schema.Batch: 1}) {
		t.Errorf("%v wait", got)
	}
	close(b.Open)
	for _, reply := range replies {
		(<-reply).Succeeds(t)
	}
}

// A wait that runs out is told with what there was to expect.
func TestAWaitThatRunsOutTellsItsPosition(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("queue: {size: 10, timeout: 300ms}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL, "max-concurrency: 1")))
	first := r.ChatLater(gatewaytest.Deadline(t), coldStream)
	<-b.Entered
	late := r.Chat(gatewaytest.PlainHi, "X-Router-Priority", "interactive")
	late.FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "concurrency_limit_reached", "")
	if got := late.Header.Get("X-Router-Queue"); got != "interactive;position=1" {
		t.Errorf("refused with %q", got)
	}
	close(b.Open)
	if answer := (<-first).Succeeds(t); answer.Header.Get("X-Router-Queue") != "" {
		t.Errorf("an answer has %v", answer.Header)
	}
}

// The priority of a key is issued, shown and taken back by the management API, and that of a
// tenant is in the terms.
func TestPrioritiesAreManaged(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b))
	r.API("POST", "/api/auth/keys", `{"id":"k","priority":"interactive"}`).Is(t, http.StatusCreated, `"priority":"interactive"`)
	r.API("GET", "/api/auth/keys", "").Is(t, http.StatusOK, `"priority":"interactive"`)
	r.API("PUT", "/api/auth/keys/k", `{"priority":"batch"}`).Is(t, http.StatusOK, `"priority":"batch"`)
	if cleared := r.API("PUT", "/api/auth/keys/k", `{"priority":""}`).Is(t, http.StatusOK); strings.Contains(cleared.Body, "priority") {
		t.Errorf("cleared: %s", cleared.Body)
	}
	r.API("PUT", "/api/auth/keys/k", `{"priority":"spare"}`).Is(t, http.StatusBadRequest, "priority")
	r.API("PUT", "/api/config/terms/tenants/slow", `{"priority":"batch"}`).Is(t, http.StatusOK)
	r.API("GET", "/api/config/terms", "").Is(t, http.StatusOK, `"priority":"batch"`)
	r.API("PUT", "/api/config/type/services/chat", `{"priority":"interactive"}`).Is(t, http.StatusOK)
	r.API("GET", "/api/config/type/services/chat", "").Is(t, http.StatusOK, `"priority":"interactive"`)
	r.API("PUT", "/api/config/type/services/chat", `{"priority":"first"}`).Is(t, http.StatusBadRequest, "priority")
}
