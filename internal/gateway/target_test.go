package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// A request that asks for its first token within a time is told in records, metrics and explain
// whether that was kept; another value than milliseconds is refused.
func TestTargetsOfTheFirstTokenAreKeptOrMissed(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, strings.Replace(gatewaytest.PoolYAML(b), "chat: {", "chat: {load-balancer: least-time, ", 1))
	const target = "X-Router-Ttft-Target"
	for _, wrong := range []string{"", "0", "600001", "-5", "1.5", "soon", "1e3", "+5", "99999999999999999999"} {
		refused := r.Chat(gatewaytest.PlainHi, target, wrong).FailsWith(t, http.StatusBadRequest, "invalid_request_error", "invalid_value", "")
		if !strings.Contains(refused.Message, "x-router-ttft-target") || !strings.Contains(refused.Message, "600000") {
			t.Errorf("%q: %s", wrong, refused.Message)
		}
	}
	slow := simulator.Step{FirstDelay: 30 * time.Millisecond}
	b.Script(slow, slow, simulator.Step{Status: http.StatusBadRequest, Plain: true})
	r.Chat(gatewaytest.StreamHi, target, "600000", "X-Request-Id", "kept").Succeeds(t)
	r.Chat(gatewaytest.StreamHi, target, "1", "X-Request-Id", "missed").Succeeds(t)
	if failed := r.Chat(gatewaytest.PlainHi, target, "600000", "X-Request-Id", "failed"); failed.Status == http.StatusOK {
		t.Errorf("%s", failed.Body)
	}
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "none").Succeeds(t)
	for id, want := range map[string]any{"kept": true, "missed": false, "failed": false, "none": nil} {
		var call map[string]any
		gatewaytest.Eventually(t, id+" is recorded", func() bool {
			reply := r.Do("GET", "/api/monitoring/calls/"+id, "")
			if reply.Status != http.StatusOK {
				return false
			}
			call = r.GetObject("/api/monitoring/calls/" + id)
			return true
		})
		if record, nested := call["call"].(map[string]any); nested {
			call = record
		}
		if call["ttftTargetMet"] != want {
			t.Errorf("%s: %v of %v", id, call["ttftTargetMet"], call)
		}
	}
	gatewaytest.Eventually(t, "targets are counted", func() bool {
		scraped := r.Scrape()
		return gatewaytest.Sum(scraped, "model_router_ttft_targets_total", `service="chat"`, `result="kept"`) == 1 &&
			gatewaytest.Sum(scraped, "model_router_ttft_targets_total", `service="chat"`, `result="missed"`) == 2
	})
}

// Explain says whether the first token is expected in time, by the header or the query.
func TestExplainSaysWhetherATargetWouldBeKept(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, strings.Replace(gatewaytest.PoolYAML(b), "chat: {", "chat: {load-balancer: least-time, ", 1))
	const path, target = "/api/route/explain?door=chat", "X-Router-Ttft-Target"
	for _, c := range []struct {
		path, header, want string
	}{
		{path, "600000", `"ttftTargetMet":true`},
		{path, "1", `"ttftTargetMet":false`},
		{path + "&ttftTarget=600000", "1", `"ttftTargetMet":true`},
	} {
		if got := r.Do("POST", c.path, gatewaytest.PlainHi, target, c.header).Succeeds(t).Body; !strings.Contains(got, c.want) {
			t.Errorf("%s with %s: %s is not in %s", c.path, c.header, c.want, got)
		}
	}
	if got := r.Do("POST", path, gatewaytest.PlainHi).Succeeds(t).Body; strings.Contains(got, "ttftTarget") {
		t.Errorf("without a target: %s", got)
	}
	r.API("POST", path, gatewaytest.PlainHi, target, "0").Is(t, http.StatusBadRequest, "600000")
	r.API("GET", "/api/route/explain?service=chat&model=m&ttftTarget=600001", "").Is(t, http.StatusBadRequest, "ttftTarget")
}

// Of waiting requests of one class the one with the nearest target is served first.
func TestWaitingRequestsGoByTheirTargets(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("queue: {size: 10, timeout: 10m}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL, "max-concurrency: 1")))
	replies := []<-chan gatewaytest.Reply{r.ChatLater(gatewaytest.Deadline(t), coldStream, "X-Request-Id", "first")}
	<-b.Entered
	for n, asked := range [][]string{
		{"none"}, {"late", "X-Router-Ttft-Target", "290000"}, {"soon", "X-Router-Ttft-Target", "1000"},
		{"urgent", "X-Router-Ttft-Target", "600000", "X-Router-Priority", "interactive"},
	} {
		replies = append(replies, r.ChatLater(gatewaytest.Deadline(t), coldStream, append([]string{"X-Request-Id", asked[0]}, asked[1:]...)...))
		gatewaytest.Eventually(t, asked[0]+" waits", func() bool { return r.ChatPool().Queue.Len() == n+1 })
	}
	var order []string
	for range 4 {
		b.Open <- struct{}{}
		order = append(order, <-b.Entered)
	}
	close(b.Open)
	if got := strings.Join(order, " "); got != "urgent soon late none" {
		t.Errorf("served %s", got)
	}
	for _, reply := range replies {
		(<-reply).Succeeds(t)
	}
}

// A service may ask for the least time to the whole answer: explain then counts the time to write it.
func TestLeastTimeToTheWholeAnswer(t *testing.T) {
	t.Parallel()
	b, other := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	yaml := func(to string) string {
		return strings.Replace(gatewaytest.PoolYAML(b, other), "chat: {", "chat: {load-balancer: least-time, "+to, 1)
	}
	r := gatewaytest.Start(t, yaml("least-time-to: answer, "))
	for range 3 {
		r.Chat(gatewaytest.StreamHi).Succeeds(t)
	}
	if got := r.Do("POST", "/api/route/explain?door=chat", gatewaytest.PlainHi).Succeeds(t).Body; !strings.Contains(got, `"answerMs":`) {
		t.Errorf("the time to write is not in %s", got)
	}
	r.ReloadWith(yaml("least-time-to: first-token, "))
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if got := r.Do("POST", "/api/route/explain?door=chat", gatewaytest.PlainHi).Succeeds(t).Body; strings.Contains(got, "answerMs") {
		t.Errorf("the time to write is in %s", got)
	}
	if _, err := config.Load(config.Source{Content: []byte(yaml("least-time-to: soon, "))}); err == nil || !strings.Contains(err.Error(), "least-time-to") {
		t.Errorf("a goal that nobody knows: %v", err)
	}
}
