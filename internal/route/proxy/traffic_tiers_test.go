package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// tiersYAML has two instances of tier 0 with so many slots each, and one of tier 1.
func tiersYAML(policy string, slots int, a, b, cloud string) string {
	return gatewaytest.PolicyYAML(policy+", "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", a, fmt.Sprintf("max-concurrency: %d", slots)),
		gatewaytest.Instance("m", b, fmt.Sprintf("max-concurrency: %d", slots)),
		gatewaytest.Instance("m", cloud, "tier: 1", "max-concurrency: 1"))
}

func TestHigherTierGetsNothingWhileALowerOneIsReady(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"round_robin", "random", "least_connections", "ip_hash"} {
		a, b, cloud := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, tiersYAML("load-balancer: "+strategy, 10, a.URL(), b.URL(), cloud.URL()))
		for n := range 40 {
			r.Chat(gatewaytest.PlainHi, from(fmt.Sprintf("203.0.113.%d", n))...).Succeeds(t)
		}
		first, second, third := a.Stats().Arrived, b.Stats().Arrived, cloud.Stats().Arrived
		if first+second != 40 || third != 0 || strategy == "round_robin" && first != second {
			t.Errorf("%s: %d, %d and %d requests", strategy, first, second, third)
		}
		r.ChangeChat(func(s *config.Service) { s.Instances[0].Enabled, s.Instances[1].Weight = false, 0 })
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
		if cloud.Stats().Arrived != 1 {
			t.Errorf("%s: tier 1 got nothing although tier 0 is out", strategy)
		}
	}
}

// A tier whose slots are taken passes requests on before any of them waits; they wait
// when all tiers are full, and then the first slot that becomes free is theirs.
func TestFullTierSpillsBeforeAnybodyQueues(t *testing.T) {
	t.Parallel()
	held, cloud := gatewaytest.StartHeldBackend(t), gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, tiersYAML("queue: {size: 10, timeout: 10m}", 1, held.URL+"/a", held.URL+"/b", cloud.URL))
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	var running []<-chan gatewaytest.Reply
	for range 2 {
		running = append(running, r.ChatLater(ctx, gatewaytest.StreamHi))
		<-held.Entered
	}
	explained := explain(r)
	if tier := gatewaytest.At(t, explained, "tier"); tier != 1.0 {
		t.Errorf("tier %v would be used: %v", tier, explained)
	}
	running = append(running, r.ChatLater(ctx, gatewaytest.StreamHi))
	<-cloud.Entered
	if waiting := r.ChatPool().Queue.Len(); waiting != 0 {
		t.Errorf("%d requests wait", waiting)
	}
	waits := r.ChatLater(ctx, gatewaytest.StreamHi, "X-Request-Id", "the-one-that-waits")
	gatewaytest.Eventually(t, "all tiers are full, so that one waits", func() bool { return r.ChatPool().Queue.Len() == 1 })
	held.Open <- struct{}{}
	if id := <-held.Entered; id != "the-one-that-waits" {
		t.Errorf("the free slot of tier 0 went to %q", id)
	}
	cancel()
	for _, done := range append(running, waits) {
		<-done
	}
}

func explain(r *gatewaytest.Gateway) any {
	r.T.Helper()
	return gatewaytest.DataOf[any](r.T, r.API(http.MethodGet, "/api/route/explain?service=chat&model=m", ""))
}

func TestExplainAndMonitoringNameTheTier(t *testing.T) {
	t.Parallel()
	a, b, cloud := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, tiersYAML("load-balancer: round_robin", 10, a.URL(), b.URL(), cloud.URL()))
	x := explain(r)
	for path, want := range map[string]any{
		"tier": 0.0, "candidates/0/tier": 0.0, "candidates/0/chance": 0.5, "candidates/2/tier": 1.0, "candidates/2/chance": 0.0,
		"candidates/2/reason": "tier 1 is used only while no instance of a lower tier is ready", "why": "round_robin would pick it now; in tier 0",
	} {
		if got := gatewaytest.At(t, x, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	r.ChangeChat(func(s *config.Service) { s.Instances[0].Enabled, s.Instances[1].Enabled = false, false })
	x = explain(r)
	if gatewaytest.At(t, x, "tier") != 1.0 || !strings.HasSuffix(gatewaytest.At(t, x, "why").(string), "in tier 1: no instance of a lower tier is ready") {
		t.Errorf("with tier 0 out: %v", x)
	}
	instances := r.GetObject("/api/monitoring/instances")
	if tier := gatewaytest.At(t, instances, "services/chat/instances/2/tier"); tier != 1.0 {
		t.Errorf("monitoring shows tier %v", tier)
	}
	label := "m@" + strings.TrimPrefix(cloud.URL(), "http://")
	if got := gatewaytest.Sum(r.Scrape(), "model_router_load_balancer_tier", `instance="`+label+`"`); got != 1 {
		t.Errorf("the metric has tier %v", got)
	}
}

// A request that failed in tier 0 goes to an instance in good state, and only then to
// one that has failed before.
func TestFailoverPrefersAnInstanceInGoodStateOfAnyTier(t *testing.T) {
	t.Parallel()
	a, b, cloud := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	for _, failing := range []*simulator.Backend{a, b} {
		failing.ScriptForever(simulator.Step{Status: 503})
	}
	r := gatewaytest.Start(t, tiersYAML("load-balancer: round_robin", 10, a.URL(), b.URL(), cloud.URL()))
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 503, "api_error", "upstream_error", "") // both failed once
	for range 10 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	if got := cloud.Stats().Arrived; got != 10 {
		t.Errorf("%d requests went to tier 1", got)
	}
}

func TestTierIsManagedLikeOtherSettings(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b))
	const spare = `{"name":"m","baseUrl":"http://127.0.0.1:9","tier":%s}`
	r.API(http.MethodPost, "/api/config/instance/add/chat", fmt.Sprintf(spare, "101")).Is(t, 400, "tier", "between 0")
	r.API(http.MethodPost, "/api/config/instance/add/chat", fmt.Sprintf(spare, "-1")).Is(t, 400, "tier", "between 0")
	dry := r.API(http.MethodPost, "/api/config/instance/add/chat?dryRun=true", fmt.Sprintf(spare, "1")).Is(t, 200)
	if after := gatewaytest.At(t, gatewaytest.DataOf[any](t, dry), "shares/1/after"); after != 0.0 {
		t.Errorf("an instance of tier 1 would get a share of %v", after)
	}
	r.API(http.MethodPost, "/api/config/instance/add/chat", fmt.Sprintf(spare, "1")).Is(t, 201)
	update := `{"instanceId":"m@http://127.0.0.1:9","instance":{"tier":2}}`
	r.API(http.MethodPut, "/api/config/instance/update/chat", update).Is(t, 200)
	tier := func(want float64) {
		t.Helper()
		list := gatewaytest.DataOf[any](t, r.API(http.MethodGet, "/api/config/instance/type/chat", ""))
		if got := gatewaytest.At(t, list, "1/tier"); got != want {
			t.Errorf("tier %v, want %v", got, want)
		}
	}
	tier(2)
	r.API(http.MethodPost, "/api/config/version/rollback/2", "")
	tier(1)
}
