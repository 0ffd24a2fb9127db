package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// Policies that stay out of tests which are not about them.
const (
	noBreaker = "circuit-breaker: {enabled: false}"
	noChecks  = "health-check: {enabled: false}"
	quietOnes = noBreaker + ", " + noChecks
)

// policyYAML is a configuration whose chat service has this policy.
func policyYAML(policy string, instances ...string) string {
	return "services: {chat: {" + policy + ", instances: [\n  " + strings.Join(instances, ",\n  ") + "]}}\n"
}

// revise changes the chat service while the gateway runs.
func (r *rig) revise(edit func(*config.Service)) {
	r.t.Helper()
	if _, err := r.Control.Apply(control.Change{Origin: "test", Summary: "revised"}, func(doc *config.Document) error {
		chat := doc.Services[schema.Chat]
		edit(&chat)
		doc.Services[schema.Chat] = chat
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
}

// line returns the pool of the model m that is in force.
func (r *rig) line() *routing.Pool { return r.Current.Load().Service(schema.Chat).Find("m") }

// try sends a chat request from any goroutine.
func (r *rig) try(ctx context.Context, body string, headers ...string) reply {
	response, err := r.client.Do(r.request(ctx, http.MethodPost, "/v1/chat/completions", body, headers...))
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(content), err, response.Close}
}

// later sends a chat request in the background.
func (r *rig) later(ctx context.Context, body string, headers ...string) <-chan reply {
	done := make(chan reply, 1)
	go func() { done <- r.try(ctx, body, headers...) }()
	return done
}

// from names a client by its address, as a trusted proxy does.
func from(client string) []string { return []string{"X-Forwarded-For", client} }

// What may not be picked is never picked, whatever the strategy.
func TestIneligibleInstancesGetNothing(t *testing.T) {
	for _, strategy := range []string{"random", "round-robin", "least-connections", "ip-hash"} {
		t.Run(strategy, func(t *testing.T) {
			good, off, none, open, sick := startBackend(t), startBackend(t), startBackend(t), startBackend(t), startBackend(t)
			sick.SetProbe(simulator.Step{Status: 500})
			r := startGateway(t, policyYAML("load-balancer: "+strategy+", health-check: {interval: 100ms, unhealthy-threshold: 1}",
				instance("m", off.URL(), "enabled: false"), instance("m", none.URL(), "weight: 0"), instance("m", open.URL(), "weight: 100"),
				instance("m", sick.URL(), "weight: 100"), instance("m", good.URL())))
			all := r.instances("m")
			all[2].Breaker.Force(breaker.ForcedOpen, "", all[2].Since())
			eventually(t, "the sick one is found out", func() bool { return !all[3].Health.Healthy() })
			for n := range 40 {
				r.chat(plainHi, from(fmt.Sprintf("203.0.113.%d", n))...).succeeds(t)
			}
			if got := good.Stats().Arrived; got != 40 {
				t.Errorf("the good one got %d of 40", got)
			}
			for _, b := range []*simulator.Backend{off, none, open, sick} {
				if got := b.Stats().Arrived; got != 0 {
					t.Errorf("one that may not be picked got %d", got)
				}
			}
		})
	}
}

// A call is in flight until the last byte of its stream, so that new ones go
// elsewhere meanwhile, in proportion to the weights.
func TestLeastConnectionsCountsAStreamToItsEnd(t *testing.T) {
	held, free := startGate(t), startBackend(t)
	r := startGateway(t, policyYAML("load-balancer: least-connections, "+quietOnes, instance("m", free.URL()), instance("m", held.url)))
	at := r.instances("m")[1]
	// Among idle ones turns go round: the second call at the latest is held.
	var stream *eventReader
	for n := 0; at.InFlight() == 0; n++ {
		stream = r.stream(deadline(t), streamHi)
		if n > 1 {
			t.Fatal("idle instances do not take turns")
		}
	}
	<-held.entered
	before := free.Stats().Arrived
	for range 20 {
		r.chat(streamHi).succeeds(t)
	}
	if got := free.Stats().Arrived - before; got != 20 || at.InFlight() != 1 {
		t.Errorf("the idle instance got %d of 20, %d in flight at the other", got, at.InFlight())
	}
	close(held.open)
	if _, err := stream.rest(); err != nil {
		t.Error(err)
	}
	eventually(t, "the stream has ended", func() bool { return at.InFlight() == 0 })
	for range 10 {
		r.chat(streamHi).succeeds(t)
	}
	if got := at.Ended(breaker.Success); got < 4 {
		t.Errorf("after its stream the instance got %d of 10", got-1)
	}
}

func TestIPHashKeepsClientsWhereTheyAre(t *testing.T) {
	a, b, c := startBackend(t), startBackend(t), startBackend(t)
	r := startGateway(t, policyYAML("load-balancer: ip-hash, "+quietOnes, instance("m", a.URL()), instance("m", b.URL()), instance("m", c.URL())))
	const clients = 40
	homes := func() (at []string) {
		for n := range clients {
			at = append(at, r.chat(plainHi, from(fmt.Sprintf("203.0.113.%d", n))...).succeeds(t).header.Get("X-Router-Instance"))
		}
		return at
	}
	first := homes()
	gone := r.instances("m")[2].Handle
	r.revise(func(s *config.Service) { s.Instances = s.Instances[:2] })
	moved := 0
	for n, at := range homes() {
		if at == first[n] {
			continue
		}
		moved++
		if first[n] != gone {
			t.Errorf("client %d left an instance that is still there", n)
		}
	}
	if moved == 0 || moved == clients {
		t.Errorf("%d of %d clients moved", moved, clients)
	}
}

// The client's address is the socket's, or the right-most one that no trusted
// proxy wrote. What clients write to the left of it buys them nothing.
func TestClientAddressCannotBeForged(t *testing.T) {
	const limit = "rate-limit: {capacity: 1, refill-rate: 1, client-ip-enable: true, algorithm: sliding-window}, " + quietOnes
	for _, row := range []struct {
		name, trusted string
		first, second string // X-Forwarded-For of two requests
		same          bool   // whether they are one client
	}{
		{"the proxy's word", "", "198.51.100.1", "198.51.100.2", false},
		{"the same client", "", "198.51.100.1", "198.51.100.1", true},
		{"forged on the left", "", "1.1.1.1, 198.51.100.1", "2.2.2.2, 198.51.100.1", true},
		{"two trusted proxies", "", "198.51.100.1, 127.0.0.2", "198.51.100.2, 127.0.0.2", false},
		{"forged before two proxies", "", "1.1.1.1, 198.51.100.1, 127.0.0.2", "2.2.2.2, 198.51.100.1, 127.0.0.3", true},
		{"garbage on the right", "", "198.51.100.1, x", "198.51.100.2, x", true},
		{"with a port", "", "198.51.100.1:1234", "198.51.100.1:5678", true},
		{"one IPv6 network", "", "2001:db8::1", "2001:db8::2", true},
		{"two IPv6 networks", "", "2001:db8::1", "2001:db8:0:1::1", false},
		{"no trusted proxy", "server: {trusted-proxies: []}\n", "198.51.100.1", "198.51.100.2", true},
		{"another trusted proxy", "server: {trusted-proxies: [192.0.2.0/24]}\n", "198.51.100.1", "198.51.100.2", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := startBackend(t)
			r := startGateway(t, policyYAML(limit, instance("m", b.URL()))+row.trusted)
			r.chat(plainHi, from(row.first)...).succeeds(t)
			if second := r.chat(plainHi, from(row.second)...); second.status != map[bool]int{true: 429, false: 200}[row.same] {
				t.Errorf("status %d: %s", second.status, second.body)
			}
		})
	}
}
