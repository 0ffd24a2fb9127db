package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// Every piece of a request is paid, and nothing twice: what the client gets, what is lost
// because another piece failed, and what a fallback does again.
func TestSplitRequestsCostTheirPieces(t *testing.T) {
	t.Parallel()
	fails := simulator.Step{Status: http.StatusBadRequest}
	vectors := func(tokens string) simulator.Step {
		return simulator.Step{Body: `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]}],"model":"m"` + tokens + `}`}
	}
	for name, test := range map[string]struct {
		a, b   simulator.Step
		status int
		want   usage
		tokens int64 // that the budget has counted
	}{
		"both are answered":                    {vectors(`,"usage":{"prompt_tokens":1000,"total_tokens":1000}`), vectors(`,"usage":{"prompt_tokens":500,"total_tokens":500}`), 200, usage{1, 1500, 1500, 0, 3000}, 1500},
		"one is answered, one is not":          {vectors(`,"usage":{"prompt_tokens":1000,"total_tokens":1000}`), fails, 400, usage{1, 1000, 1000, 0, 2000}, 1000},
		"neither is answered":                  {fails, fails, 400, usage{1, 0, 0, 0, 0}, 0},
		"nobody reports":                       {vectors(""), vectors(""), 200, usage{1, 0, 0, 0, 44}, 22},
		"one is answered and lost, unreported": {vectors(""), fails, 400, usage{1, 0, 0, 0, 22}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := gatewaytest.StartBackend(t, test.a), gatewaytest.StartBackend(t, test.b)
			// The second is called when the first has answered, so that what fails does not
			// cut off what is answered.
			var r *gatewaytest.Gateway
			gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				for r.Current.Load().Service(schema.Embedding).Find("m").Instances[0].InFlight() > 0 && q.Context().Err() == nil {
					runtime.Gosched()
				}
				(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
					p.Out.URL.Scheme, p.Out.URL.Host = "http", strings.TrimPrefix(b.URL(), "http://")
				}}).ServeHTTP(w, q)
			}))
			defer gate.Close()
			yaml := "services: {embedding: {split: {max-split: 2, min-inputs: 1, min-tokens: 1}, circuit-breaker: {enabled: false}, health-check: {enabled: false}, instances: [" +
				gatewaytest.Instance("m", a.URL()) + "," + gatewaytest.Instance("m", gate.URL) + "]}}\n" + gatewaytest.QuotaOn +
				"prices: {currency: EUR, models: [{model: m, input: 2}]}\n"
			r = gatewaytest.Start(t, budgeted(yaml, map[string]string{"k": ", budgets: {day: {tokens: 1000000, cost: 50, requests: 10}}"}))
			texts := `["` + strings.Repeat("x", 44) + `","` + strings.Repeat("y", 44) + `"]`
			if answer := r.Do(http.MethodPost, "/v1/embeddings", `{"model":"m","input":`+texts+`}`, bearer("k")...); answer.Status != test.status {
				t.Fatalf("%d %s", answer.Status, answer.Body)
			}
			got := counted(t, r, bearer("admin-token")...)
			if got != test.want {
				t.Errorf("counted %+v, want %+v", got, test.want)
			}
			if tokens, cost, requests := usedOf(t, r, "key/k", "tokens"), usedOf(t, r, "key/k", "cost"), usedOf(t, r, "key/k", "requests"); tokens != test.tokens || cost != test.want.Cost || requests != 1 {
				t.Errorf("the budgets have %d tokens, %d of money and %d requests", tokens, cost, requests)
			}
		})
	}
}
