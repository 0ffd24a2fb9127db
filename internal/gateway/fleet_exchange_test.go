package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// fleetYAML is a gateway that sends requests where their first token is expected soonest.
func fleetYAML(backends ...*simulator.Backend) string {
	return strings.Replace(gatewaytest.PoolYAML(backends...), "chat: {", "chat: {load-balancer: least-time, ", 1)
}

func redisYAML(redis *storetest.Server) string {
	return "redis: {url: " + gatewaytest.Quote(redis.URL) + "}\n"
}

// isWith reports whether a gateway hears so many others.
func isWith(g *gatewaytest.Gateway, others int) bool {
	s := g.Exchange.Stats()
	return s.Others == others && s.Failure == nil
}

// TestGatewaysSendAConversationToTheSameInstance, whichever of them gets its requests, as
// soon as they have told each other.
func TestGatewaysSendAConversationToTheSameInstance(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	var backends []*simulator.Backend
	for range 4 {
		// Reading a prompt takes longer than a busy machine delays an answer: else one engine
		// looks so slow that another one without the prompt is the better choice.
		b, err := simulator.Start(simulator.Options{Engine: &engine.Spec{Block: 16, Cache: 100_000, Token: 100e-6, Decode: 100e-6, Width: 1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		backends = append(backends, b)
	}
	var all []*gatewaytest.Gateway
	for range 3 {
		all = append(all, gatewaytest.Start(t, fleetYAML(backends...)+redisYAML(redis)))
	}
	for _, g := range all {
		gatewaytest.Eventually(t, "the gateways know each other", func() bool { return isWith(g, 2) })
	}
	turn := func(g *gatewaytest.Gateway, conversation, turns int) string {
		t.Helper()
		var messages []string
		for n := range turns {
			messages = append(messages, fmt.Sprintf(`{"role":"user","content":"%d of %d: %s"}`, n, conversation, strings.Repeat(fmt.Sprintf("word %d ", conversation), 500)))
		}
		reply := g.Chat(`{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`).Succeeds(t)
		return reply.Header.Get("X-Router-Instance")
	}
	const conversations, blocks = 9, 13 // of 512 bytes, in the two messages of a conversation
	homes := make([]string, conversations)
	for n := range homes {
		homes[n] = turn(all[n%3], n, 2)
	}
	began := time.Now()
	for _, g := range all {
		gatewaytest.Eventually(t, "the gateway knows all conversations", func() bool { return knownBytes(g) == blocks*512*conversations })
	}
	t.Logf("known everywhere after %v", time.Since(began))
	for n, home := range homes {
		if got := turn(all[(n+1)%3], n, 3); got != home {
			t.Errorf("conversation %d went to %s, and was at %s before", n, got, home)
		}
	}
}

// knownBytes returns how much of prompts a gateway believes to be in caches.
func knownBytes(g *gatewaytest.Gateway) (bytes int64) {
	for _, p := range g.Fleet.Pictures(time.Now()) {
		bytes += p.Cached
	}
	return bytes
}

// TestFleetExchangeShowsInHealthAndMetrics: how many others there are, and that a gateway is
// alone without Redis. It serves on, and is in rotation.
func TestFleetExchangeShowsInHealthAndMetrics(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	b := gatewaytest.StartBackend(t)
	yaml := fleetYAML(b) + redisYAML(redis)
	r, other := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
	gatewaytest.Eventually(t, "the gateways know each other", func() bool { return isWith(r, 1) && isWith(other, 1) })
	component := func() string { return r.Do(http.MethodGet, "/actuator/health/fleetExchange", "").Body }
	if health := component(); !strings.Contains(health, `"UP"`) || !strings.Contains(health, `"others":1`) {
		t.Errorf("%s", health)
	}
	gatewaytest.Eventually(t, "a message counts", func() bool {
		other.Chat(gatewaytest.PlainHi).Succeeds(t)
		metrics := r.Do(http.MethodGet, "/actuator/prometheus", "").Succeeds(t).Body
		return strings.Contains(metrics, "model_router_fleet_exchange_healthy 1") && strings.Contains(metrics, "model_router_fleet_exchange_gateways 1") &&
			!strings.Contains(metrics, "model_router_fleet_exchange_received_messages_total 0\n") &&
			strings.Contains(metrics, `model_router_fleet_exchange_ignored_messages_total{reason="secret"} 0`)
	})
	redis.Kill()
	gatewaytest.Eventually(t, "the outage shows", func() bool { return strings.Contains(component(), `"DEGRADED"`) })
	if health := component(); !strings.Contains(health, `"others":0`) {
		t.Errorf("%s", health)
	}
	metrics := r.Do(http.MethodGet, "/actuator/prometheus", "").Succeeds(t).Body
	if !strings.Contains(metrics, "model_router_fleet_exchange_healthy 0") {
		t.Error("the metrics do not say that the gateway is alone")
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.Do(http.MethodGet, "/actuator/health/readiness", "").Succeeds(t)
	redis.Start()
	gatewaytest.Eventually(t, "the gateways know each other again", func() bool { return isWith(r, 1) && isWith(other, 1) })
	if strings.Count(r.Logs.String(), "what gateways know about the fleet cannot be exchanged") != 1 {
		t.Error("the log does not say so once")
	}
}

// TestExchangeNeedsAFleetAndARedis: gateways that balance otherwise tell nothing, nor do
// those that were not told of a Redis. An edit changes that.
func TestExchangeNeedsAFleetAndARedis(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	b := gatewaytest.StartBackend(t)
	without := gatewaytest.Start(t, fleetYAML(b))
	other := gatewaytest.Start(t, fleetYAML(b)+redisYAML(redis))
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+redisYAML(redis))
	gatewaytest.Eventually(t, "the other one is there", func() bool { return isWith(other, 0) && other.Exchange.Stats().Sent > 0 })
	for _, g := range []*gatewaytest.Gateway{without, r} {
		if s := g.Exchange.Stats(); s.IsOn || s.Sent+s.Failures != 0 {
			t.Errorf("%+v", s)
		}
		if reply := g.Do(http.MethodGet, "/actuator/health/fleetExchange", ""); reply.Status != http.StatusNotFound {
			t.Errorf("%d %s", reply.Status, reply.Body)
		}
	}
	r.ChangeChat(func(s *config.Service) { s.LoadBalancer = balance.LeastTime })
	gatewaytest.Eventually(t, "it takes part", func() bool { return isWith(r, 1) && isWith(other, 1) })
	r.ChangeChat(func(s *config.Service) { s.LoadBalancer = balance.RoundRobin })
	gatewaytest.Eventually(t, "it does not any more", func() bool { return !r.Exchange.Stats().IsOn })
}
