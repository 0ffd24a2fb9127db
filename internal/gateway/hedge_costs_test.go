package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// A model that costs money is called twice only where that is wanted. Then both calls are
// reserved and paid: what was reported, and an estimate of what was given up.
func TestSecondCallsArePaid(t *testing.T) {
	t.Parallel()
	answer := func(tokens int) simulator.Step {
		return simulator.Step{Body: fmt.Sprintf(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]}],"model":"m","usage":{"prompt_tokens":%d,"total_tokens":%d}}`, tokens, tokens)}
	}
	const learned = 50
	for name, test := range map[string]struct {
		reported              int
		hedge, budgets, price string
		won                   bool
		cost                  int64 // of the request whose first call is slow, in millionths
		tokens                int64 // that the budgets count of it
	}{
		"a price":                   {1000, "", "tokens: 1000000, cost: 50", "2", false, 2000, 1000},
		"a price, and it is wanted": {1000, ", paid: true", "tokens: 1000000, cost: 50", "2", true, 2000 + 200, 1100},
		"no price":                  {1000, "", "tokens: 1000000", "0", true, 0, 1100},
		// Each call reserves 100 tokens and uses 1, so that there is no room for a second.
		"no budget for a second": {1, ", paid: true", "tokens: 230, cost: 50", "2", false, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answered := answer(test.reported)
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			a.ScriptForever(answered)
			b.ScriptForever(answered)
			yaml := "services: {embedding: {hedge: {enabled: true" + test.hedge + "}, circuit-breaker: {enabled: false}, health-check: {enabled: false}, instances: [" +
				gatewaytest.Instance("m", a.URL()) + "," + gatewaytest.Instance("m", b.URL()) + "]}}\n" + gatewaytest.QuotaOn +
				"prices: {currency: EUR, models: [{model: m, input: " + test.price + "}]}\n"
			r := gatewaytest.Start(t, budgeted(yaml, map[string]string{"k": ", budgets: {day: {" + test.budgets + ", requests: 1000}}"}))
			ask := func() gatewaytest.Reply {
				return r.Do(http.MethodPost, "/v1/embeddings", `{"model":"m","input":"`+strings.Repeat("x", 400)+`"}`, bearer("k")...)
			}
			for range learned {
				ask().Succeeds(t)
			}
			pool := r.Current.Load().Service(schema.Embedding).Find("m")
			for range 1000 { // as if a quiet time had been, so that one is allowed
				pool.Watch.Called()
			}
			var before usage
			var usedBefore int64
			slow := answered
			slow.HeaderDelay = 2 * time.Second
			if test.won {
				slow.HeaderDelay = time.Hour
			}
			a.ScriptForever(slow)
			var got gatewaytest.Reply
			for calls := a.Stats().Arrived; a.Stats().Arrived == calls; { // round robin: the second at the latest
				before, usedBefore = counted(t, r, bearer("admin-token")...), usedOf(t, r, "key/k", "tokens")
				got = ask().Succeeds(t)
			}
			wanted, attempts := pool.Instances[0].Handle, "1"
			if test.won {
				wanted, attempts = pool.Instances[1].Handle, "2"
			}
			if got.Header.Get("X-Router-Instance") != wanted || got.Header.Get("X-Router-Attempts") != attempts {
				t.Errorf("%s answered after %s attempts", got.Header.Get("X-Router-Instance"), got.Header.Get("X-Router-Attempts"))
			}
			after := counted(t, r, bearer("admin-token")...)
			if cost := after.Cost - before.Cost; cost != test.cost || after.TokenCount-before.TokenCount != int64(test.reported) || after.RequestCount-before.RequestCount != 1 {
				t.Errorf("it cost %d, the ledger has %+v after %+v", cost, after, before)
			}
			if got := usedOf(t, r, "key/k", "tokens") - usedBefore; got != test.tokens {
				t.Errorf("the budget counts %d tokens", got)
			}
			if counts := r.Scrape(); gatewaytest.Sum(counts, "model_router_budget_refused_requests_total")+gatewaytest.Sum(counts, "model_router_budget_deferred_requests_total") != 0 {
				t.Error("a second call that was not made counts as a request that was refused")
			}
			body := r.Do(http.MethodGet, "/api/monitoring/budgets", "", bearer("admin-token")...).Succeeds(t).Body
			if strings.Contains(body, `"reserved":`) && strings.Count(body, `"reserved":0`) != strings.Count(body, `"reserved":`) {
				t.Errorf("something stays reserved: %s", body)
			}
		})
	}
}
