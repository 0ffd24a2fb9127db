package proxy_test

import (
	"fmt"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// from names a client by its address, as a trusted proxy does.
func from(client string) []string { return []string{"X-Forwarded-For", client} }

// What may not be picked is never picked, whatever the strategy.
func TestIneligibleInstancesGetNothing(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"random", "round-robin", "least-connections", "ip-hash", "least-time"} {
		t.Run(strategy, func(t *testing.T) {
			good, off, none, open, sick := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			sick.SetProbe(simulator.Step{Status: 500})
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: "+strategy+", health-check: {interval: 100ms, unhealthy-threshold: 1}",
				gatewaytest.Instance("m", off.URL(), "enabled: false"), gatewaytest.Instance("m", none.URL(), "weight: 0"), gatewaytest.Instance("m", open.URL(), "weight: 100"),
				gatewaytest.Instance("m", sick.URL(), "weight: 100"), gatewaytest.Instance("m", good.URL())))
			all := r.Instances("m")
			all[2].Breaker.Force(breaker.ForcedOpen, breaker.Hold{}, all[2].Since())
			gatewaytest.Eventually(t, "the sick one is found out", func() bool { return !all[3].Health.Healthy() })
			for n := range 40 {
				r.Chat(gatewaytest.PlainHi, from(fmt.Sprintf("203.0.113.%d", n))...).Succeeds(t)
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
	t.Parallel()
	held, free := gatewaytest.StartHeldBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: least-connections, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", free.URL()), gatewaytest.Instance("m", held.URL)))
	at := r.Instances("m")[1]
	// Among idle ones turns go round: the second call at the latest is held.
	var stream *gatewaytest.EventReader
	for n := 0; at.InFlight() == 0; n++ {
		stream = r.Stream(gatewaytest.Deadline(t), gatewaytest.StreamHi)
		if n > 1 {
			t.Fatal("idle instances do not take turns")
		}
	}
	<-held.Entered
	before := free.Stats().Arrived
	for range 20 {
		r.Chat(gatewaytest.StreamHi).Succeeds(t)
	}
	if got := free.Stats().Arrived - before; got != 20 || at.InFlight() != 1 {
		t.Errorf("the idle instance got %d of 20, %d in flight at the other", got, at.InFlight())
	}
	close(held.Open)
	if _, err := stream.Rest(); err != nil {
		t.Error(err)
	}
	gatewaytest.Eventually(t, "the stream has ended", func() bool { return at.InFlight() == 0 })
	for range 10 {
		r.Chat(gatewaytest.StreamHi).Succeeds(t)
	}
	if got := at.Ended(breaker.Success); got < 4 {
		t.Errorf("after its stream the instance got %d of 10", got-1)
	}
}

func TestIPHashKeepsClientsWhereTheyAre(t *testing.T) {
	t.Parallel()
	a, b, c := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: ip-hash, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("m", c.URL())))
	const clients = 40
	homes := func() (at []string) {
		for n := range clients {
			at = append(at, r.Chat(gatewaytest.PlainHi, from(fmt.Sprintf("203.0.113.%d", n))...).Succeeds(t).Header.Get("X-Router-Instance"))
		}
		return at
	}
	first := homes()
	gone := r.Instances("m")[2].Handle
	r.ChangeChat(func(s *config.Service) { s.Instances = s.Instances[:2] })
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
	t.Parallel()
	// The window is a minute, so that none of the two requests leaves it meanwhile.
	const limit = "rate-limit: {capacity: 60, refill-rate: 1, client-ip-enable: true, algorithm: sliding-window}, " + gatewaytest.NoBreakerNoChecks
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
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML(limit, gatewaytest.Instance("m", b.URL()))+row.trusted)
			r.Chat(gatewaytest.PlainHi, from(row.first)...).Succeeds(t)
			_, left, _ := r.Chat(gatewaytest.PlainHi, from(row.second)...).Succeeds(t).LimitOf(t)
			if want := map[bool]int{true: 58, false: 59}[row.same]; left != want {
				t.Errorf("%d requests left, want %d", left, want)
			}
		})
	}
}
