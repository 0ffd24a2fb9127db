package v1_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// leadTo makes the first instance of a gateway lead to another address.
func leadTo(r *gatewaytest.Gateway, url string) {
	r.T.Helper()
	r.ChangeChat(func(s *config.Service) { s.Instances[0].BaseURL = url })
}

// served returns how many chat requests a gateway has answered.
func served(r *gatewaytest.Gateway) int {
	return gatewaytest.CountLines(r.Logs.String(), `"msg":"request"`, `"path":"/v1/chat/completions"`)
}

// blameless checks that nothing is held against the first instance.
func blameless(r *gatewaytest.Gateway) {
	r.T.Helper()
	i := r.Instances("m")[0]
	if s := i.Breaker.Snapshot(); s.State != breaker.Closed || s.FailureCount != 0 || i.Ended(breaker.Failure) != 0 {
		r.T.Errorf("%v with %d failures", s.State, s.FailureCount)
	}
}

func isLoop(a gatewaytest.Reply, t *testing.T) {
	t.Helper()
	a.FailsWith(t, http.StatusLoopDetected, "api_error", "loop_detected", "")
	if a.Header.Get("X-Should-Retry") != "false" || a.Header.Get("Retry-After") != "" {
		t.Errorf("x-should-retry %q, Retry-After %q", a.Header.Get("X-Should-Retry"), a.Header.Get("Retry-After"))
	}
}

// loopYAML is a configuration in which one failure would open a breaker, and a
// second instance would take what fails over.
func loopYAML(other *simulator.Backend) string {
	return gatewaytest.PolicyYAML("circuit-breaker: {failure-threshold: 1}, load-balancer: round-robin, "+gatewaytest.NoChecks,
		gatewaytest.Instance("m", simulator.DownURL), gatewaytest.Instance("m", other.URL(), "weight: 0.001"))
}

func TestGatewayThatCallsItself(t *testing.T) {
	t.Parallel()
	other := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, loopYAML(other))
	leadTo(r, r.URL)
	for n, body := range []string{gatewaytest.PlainHi, gatewaytest.StreamHi} {
		isLoop(r.Chat(body), t)
		gatewaytest.Eventually(t, "both passes are logged", func() bool { return served(r) == 2*(n+1) })
	}
	blameless(r)
	if got := other.Stats().Arrived; got != 0 {
		t.Errorf("%d requests failed over", got)
	}
}

func TestGatewaysThatCallEachOther(t *testing.T) {
	t.Parallel()
	other := gatewaytest.StartBackend(t)
	a, b := gatewaytest.Start(t, loopYAML(other)), gatewaytest.Start(t, loopYAML(other))
	leadTo(a, b.URL)
	leadTo(b, a.URL+"/v1")
	isLoop(a.Chat(gatewaytest.PlainHi), t)
	gatewaytest.Eventually(t, "three passes are logged", func() bool { return served(a) == 2 && served(b) == 1 })
	isLoop(b.Chat(gatewaytest.StreamHi), t)
	for _, r := range []*gatewaytest.Gateway{a, b} {
		blameless(r)
	}
	if got := other.Stats().Arrived; got != 0 {
		t.Errorf("%d requests failed over", got)
	}
}

// Gateways in a row are legal, up to eight, and leave what others wrote.
func TestChainOfGateways(t *testing.T) {
	t.Parallel()
	last := gatewaytest.StartBackend(t)
	url := last.URL()
	var chain []*gatewaytest.Gateway // the last one first
	for range 9 {
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", url, `headers: {CDN-Loop: "none"}`)))
		chain = append(chain, r)
		url = r.URL
	}
	for _, length := range []int{1, 2, 3, 8} {
		for _, body := range []string{gatewaytest.PlainHi, gatewaytest.StreamHi} {
			chain[length-1].Chat(body, "CDN-Loop", "somebody; a=b, other.example").Succeeds(t)
		}
		requests := last.Requests()
		said := requests[len(requests)-1].Header.Get("Cdn-Loop")
		if got := strings.Count(said, "patchbay-"); got != length || !strings.HasPrefix(said, "somebody; a=b, other.example, patchbay-") {
			t.Errorf("%d gateways wrote %q", length, said)
		}
	}
	before := last.Stats().Arrived
	isLoop(chain[8].Chat(gatewaytest.PlainHi), t)
	if last.Stats().Arrived != before {
		t.Error("nine gateways were passed")
	}
}

// What is no loop of gateways is not taken for one.
func TestLoopDetectedByOthers(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t, simulator.Step{Status: 508}, simulator.Step{Status: 508, Body: `{"error":{"message":"x","type":"api_error","param":null,"code":"loop_detected"}}`})
	r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 5", b))
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 508, "api_error", "upstream_error", "")
	isLoop(r.Chat(gatewaytest.PlainHi), t)
	if got := r.Instances("m")[0].Ended(breaker.Failure); got != 1 {
		t.Errorf("%d failures", got)
	}
	for n, hops := range map[int]string{200: "nginx, squid", 508: strings.Repeat("x, ", 4<<10)} {
		if got := r.Chat(gatewaytest.PlainHi, "CDN-Loop", hops).Status; got != n {
			t.Errorf("status %d, want %d", got, n)
		}
	}
}

// Every service type carries the names on.
func TestEveryServiceNamesTheGateway(t *testing.T) {
	t.Parallel()
	gatewaytest.ForEachServiceRequest(t, func(t *testing.T, w gatewaytest.ServiceRequest) {
		r, b := gatewaytest.StartService(t)
		body, contentType := w.Plain(t)
		r.Do(http.MethodPost, w.Path, body, "Content-Type", contentType, "CDN-Loop", "other").Succeeds(t)
		if said := b.Requests()[0].Header.Get("Cdn-Loop"); !strings.HasPrefix(said, "other, patchbay-") {
			t.Errorf("%s: %q", w.Service, said)
		}
		hops := fmt.Sprintf("patchbay-1%s", strings.Repeat(", patchbay-2", 7))
		isLoop(r.Do(http.MethodPost, w.Path, body, "Content-Type", contentType, "CDN-Loop", hops), t)
	})
}
