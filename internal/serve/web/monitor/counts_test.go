package monitor_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestDeletedServicesAreCounted(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	if length, there := r.Scrape()[`model_router_queue_length{service="chat"}`]; !there || length != 0 {
		t.Errorf("the queue of a service without requests has the length %v (there: %v)", length, there)
	}
	r.Do(http.MethodDelete, "/api/config/type/services/chat", "").Succeeds(t)
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	r.Chat(`{"model":`).FailsWith(t, 400, gatewaytest.InvalidRequest, "invalid_json", "")
	s := r.Scrape()
	for name, want := range map[string]float64{
		`model_router_requests_total{instance="none",service="chat",status="error"}`:           1,
		`model_router_rejected_requests_total{reason="invalid_request",service="chat"}`:        1,
		`model_router_request_duration_seconds_count{instance="none",service="chat"}`:          1,
		`model_router_requests_total{instance="none",service="chat",status="circuit_breaker"}`: 0,
	} {
		if got, there := s[name]; !there || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, there, want)
		}
	}
	for name := range s {
		if strings.Contains(name, `service="chat"`) && (strings.HasPrefix(name, "model_router_queue_length") || strings.HasPrefix(name, "model_router_rate_limit")) {
			t.Errorf("%s: there is no such limit", name)
		}
	}
	read := r.GetObject("/actuator/metrics/model.router.requests.total?tag=service:chat&tag=instance:none&tag=status:error")
	if got := gatewaytest.At(t, read, "measurements/0/value"); got != 1.0 {
		t.Errorf("the metric read says %v", got)
	}
}

// The state of an instance and the scrape say the same about it.
func TestInstancesAgreeWithTheScrape(t *testing.T) {
	t.Parallel()
	b, spare := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("n", b.URL()), gatewaytest.Instance("n", spare.URL())))
	entry := func(id string) map[string]any {
		t.Helper()
		for _, i := range gatewaytest.At(t, r.GetObject("/api/monitoring/instances"), "services/chat/instances").([]any) {
			if i := i.(map[string]any); i["id"] == id {
				return i
			}
		}
		t.Fatalf("there is no instance %s", id)
		return nil
	}
	is := func(id string, requests, errors, rate float64) {
		t.Helper()
		if e := entry(id); e["requestCount"] != requests || e["errorCount"] != errors || e["successRate"] != rate {
			t.Errorf("%s: %v requests, %v errors, success rate %v; want %v, %v, %v",
				id, e["requestCount"], e["errorCount"], e["successRate"], requests, errors, rate)
		}
	}
	first := "m@" + b.URL()
	is(first, 0, 0, 1)
	b.Script(simulator.Step{Status: 404}, simulator.Step{Status: 404}, simulator.Step{Status: 401})
	for range 3 {
		r.Chat(gatewaytest.PlainHi)
	}
	is(first, 3, 3, 0)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	is(first, 4, 3, 0.25)

	// A client that leaves says nothing about the instance.
	b.Script(simulator.Step{Hang: true})
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	left := make(chan struct{})
	go func() {
		defer close(left)
		if response, err := r.Client.Do(r.Request(ctx, http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi)); err == nil {
			response.Body.Close()
			t.Error("there is an answer")
		}
	}()
	if err := b.WaitRequests(gatewaytest.Deadline(t), 5); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-left
	label := `instance="m@` + strings.TrimPrefix(b.URL(), "http://") + `"`
	gatewaytest.Eventually(t, "the request is settled", func() bool { return gatewaytest.Sum(r.Scrape(), "model_router_cancelled_requests_total", label) == 1 })
	is(first, 5, 3, 0.25)
	s := r.Scrape()
	if good, bad := gatewaytest.Sum(s, "model_router_requests_total", label, `status="success"`), gatewaytest.Sum(s, "model_router_requests_total", label, `status="error"`); good != 1 || bad != 4 {
		t.Errorf("the scrape has %v successes and %v errors, of which one is of a client that left", good, bad)
	}

	// A call after which another instance was tried went badly here, and well there.
	b.ScriptForever(simulator.Step{Status: 503})
	for range 4 {
		r.Chat(strings.Replace(gatewaytest.PlainHi, `"m"`, `"n"`, 1)).Succeeds(t)
	}
	tried := float64(b.Stats().Arrived - 5)
	if tried == 0 {
		t.Error("the failing instance was never tried")
	}
	is("n@"+b.URL(), tried, tried, 0)
	is("n@"+spare.URL(), 4, 0, 1)
}

func TestTagsWithoutAValueAreRefused(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	put := func(body string) gatewaytest.Reply {
		return r.Do(http.MethodPut, "/api/monitoring/config/custom-tags", body)
	}
	put(`{"customTags":{"env":"prod"}}`).Succeeds(t)
	for _, body := range []string{
		`{"customTags":{"team":null}}`, `{"customTags":{"env":"x","team":null}}`, `{"customTags":null}`,
		`{"customTags":{"direction":"x"}}`, `{"customTags":{"store":"x"}}`, `{"customTags":{"uri":"x"}}`,
	} {
		answer := put(body)
		if message, _ := gatewaytest.DecodeObject(t, answer.Body)["error"].(string); answer.Status != 400 || message == "" {
			t.Errorf("%s: %d %s", body, answer.Status, answer.Body)
		}
	}
	tags := gatewaytest.At(t, r.GetObject("/api/monitoring/config"), "customTags").(map[string]any)
	if len(tags) != 1 || tags["env"] != "prod" {
		t.Errorf("a refused change took effect: %v", tags)
	}
	put(`{"customTags":{"env":""}}`).Succeeds(t) // that is a value
	put(`{"customTags":{}}`).Succeeds(t)
}

func TestWaitsInVainAreMeasured(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t, simulator.Step{Hang: true})
	r := gatewaytest.Start(t, gatewaytest.SlotsYAML(b, 1, "size: 5, timeout: 50ms"))
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	left := make(chan struct{})
	go func() {
		defer close(left)
		if response, err := r.Client.Do(r.Request(ctx, http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi)); err == nil {
			response.Body.Close()
		}
	}()
	if err := b.WaitRequests(gatewaytest.Deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 429, "rate_limit_exceeded", "concurrency_limit_reached", "")
	if n := gatewaytest.Sum(r.Scrape(), "model_router_queue_wait_seconds_count", `service="chat"`); n != 1 {
		t.Errorf("%v waits", n)
	}
	for _, m := range gatewaytest.At(t, r.GetObject("/actuator/metrics/model.router.queue.wait?tag=service:chat"), "measurements").([]any) {
		if m := m.(map[string]any); m["statistic"] == "MAX" && m["value"].(float64) < 0.05 {
			t.Errorf("the longest wait was %v", m["value"])
		}
	}
	cancel()
	<-left
}
