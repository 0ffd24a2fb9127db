package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// leadTo makes the first instance of a gateway lead to another address.
func (r *rig) leadTo(url string) {
	r.t.Helper()
	r.revise(func(s *config.Service) { s.Instances[0].BaseURL = url })
}

// served returns how many chat requests a gateway has answered.
func (r *rig) served() int { return countLines(r.logs.String(), `"path":"/v1/chat/completions"`) }

// blameless checks that nothing is held against the first instance.
func (r *rig) blameless() {
	r.t.Helper()
	i := r.instances("m")[0]
	if s := i.Breaker.Snapshot(); s.State != breaker.Closed || s.FailureCount != 0 || i.Ended(breaker.Failure) != 0 {
		r.t.Errorf("%v with %d failures", s.State, s.FailureCount)
	}
}

func (a reply) isLoop(t *testing.T) {
	t.Helper()
	a.failsWith(t, http.StatusLoopDetected, "api_error", "loop_detected", "")
	if a.header.Get("X-Should-Retry") != "false" || a.header.Get("Retry-After") != "" {
		t.Errorf("x-should-retry %q, Retry-After %q", a.header.Get("X-Should-Retry"), a.header.Get("Retry-After"))
	}
}

// loopYAML is a configuration in which one failure would open a breaker, and a
// second instance would take what fails over.
func loopYAML(other *simulator.Backend) string {
	return policyYAML("circuit-breaker: {failure-threshold: 1}, load-balancer: round-robin, "+noChecks,
		instance("m", simulator.DownURL), instance("m", other.URL(), "weight: 0.001"))
}

func TestGatewayThatCallsItself(t *testing.T) {
	other := startBackend(t)
	r := startGateway(t, loopYAML(other))
	r.leadTo(r.url)
	for n, body := range []string{plainHi, streamHi} {
		r.chat(body).isLoop(t)
		eventually(t, "both passes are logged", func() bool { return r.served() == 2*(n+1) })
	}
	r.blameless()
	if got := other.Stats().Arrived; got != 0 {
		t.Errorf("%d requests failed over", got)
	}
}

func TestGatewaysThatCallEachOther(t *testing.T) {
	other := startBackend(t)
	a, b := startGateway(t, loopYAML(other)), startGateway(t, loopYAML(other))
	a.leadTo(b.url)
	b.leadTo(a.url + "/v1")
	a.chat(plainHi).isLoop(t)
	eventually(t, "three passes are logged", func() bool { return a.served() == 2 && b.served() == 1 })
	b.chat(streamHi).isLoop(t)
	for _, r := range []*rig{a, b} {
		r.blameless()
	}
	if got := other.Stats().Arrived; got != 0 {
		t.Errorf("%d requests failed over", got)
	}
}

// Gateways in a row are legal, up to eight, and leave what others wrote.
func TestChainOfGateways(t *testing.T) {
	last := startBackend(t)
	url := last.URL()
	var chain []*rig // the last one first
	for range 9 {
		r := startGateway(t, chatYAML(instance("m", url, `headers: {CDN-Loop: "none"}`)))
		chain = append(chain, r)
		url = r.url
	}
	for _, length := range []int{1, 2, 3, 8} {
		for _, body := range []string{plainHi, streamHi} {
			chain[length-1].chat(body, "CDN-Loop", "somebody; a=b, other.example").succeeds(t)
		}
		requests := last.Requests()
		said := requests[len(requests)-1].Header.Get("Cdn-Loop")
		if got := strings.Count(said, "patchbay-"); got != length || !strings.HasPrefix(said, "somebody; a=b, other.example, patchbay-") {
			t.Errorf("%d gateways wrote %q", length, said)
		}
	}
	before := last.Stats().Arrived
	chain[8].chat(plainHi).isLoop(t)
	if last.Stats().Arrived != before {
		t.Error("nine gateways were passed")
	}
}

// What is no loop of gateways is not taken for one.
func TestLoopDetectedByOthers(t *testing.T) {
	b := startBackend(t, simulator.Step{Status: 508}, simulator.Step{Status: 508, Body: `{"error":{"message":"x","type":"api_error","param":null,"code":"loop_detected"}}`})
	r := startGateway(t, breakerYAML("failure-threshold: 5", b))
	r.chat(plainHi).failsWith(t, 508, "api_error", "upstream_error", "")
	r.chat(plainHi).isLoop(t)
	if got := r.instances("m")[0].Ended(breaker.Failure); got != 1 {
		t.Errorf("%d failures", got)
	}
	for n, hops := range map[int]string{200: "nginx, squid", 508: strings.Repeat("x, ", 4<<10)} {
		if got := r.chat(plainHi, "CDN-Loop", hops).status; got != n {
			t.Errorf("status %d, want %d", got, n)
		}
	}
}

// Every service type carries the names on.
func TestEveryServiceNamesTheGateway(t *testing.T) {
	everyWish(t, func(t *testing.T, w wish) {
		r, b := startService(t)
		body, contentType := w.plain(t)
		r.do(http.MethodPost, w.path, body, "Content-Type", contentType, "CDN-Loop", "other").succeeds(t)
		if said := b.Requests()[0].Header.Get("Cdn-Loop"); !strings.HasPrefix(said, "other, patchbay-") {
			t.Errorf("%s: %q", w.service, said)
		}
		hops := fmt.Sprintf("patchbay-1%s", strings.Repeat(", patchbay-2", 7))
		r.do(http.MethodPost, w.path, body, "Content-Type", contentType, "CDN-Loop", hops).isLoop(t)
	})
}
