package spend_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

type spent struct {
	Data struct {
		Enabled  bool   `json:"enabled"`
		Currency string `json:"currency"`
		Step     string `json:"step"`
		Complete bool   `json:"complete"`
		Total    struct {
			Cost     int64   `json:"cost"`
			Costs    []int64 `json:"costs"`
			Forecast *int64  `json:"forecast"`
		} `json:"total"`
		Groups []struct {
			Name         string `json:"name"`
			Cost         int64  `json:"cost"`
			RequestCount int64  `json:"requestCount"`
			Unpriced     int64  `json:"unpriced"`
		} `json:"groups"`
		Unpriced []string `json:"unpriced"`
	} `json:"data"`
}

// askSpend asks until no store is missing in the answer.
func askSpend(t *testing.T, r *gatewaytest.Gateway, query string) (answer spent) {
	t.Helper()
	gatewaytest.Eventually(t, "the store of the ledger answers", func() bool {
		answer = spent{}
		body := r.Do(http.MethodGet, "/api/monitoring/spend?"+query, "").Succeeds(t).Body
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		return answer.Data.Complete
	})
	return answer
}

func TestWhatWasSpentIsToldByTenantModelAndUser(t *testing.T) {
	t.Parallel()
	answer := simulator.Step{Body: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":500,"total_tokens":1500}}`}
	b := gatewaytest.StartBackend(t, answer, answer, answer)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))+gatewaytest.QuotaOn+"prices:\n  currency: EUR\n  models: [{model: m, input: 2, output: 10}]\n")
	for _, tenant := range []string{"acme", "acme", "=cmd"} {
		r.Chat(`{"model":"m","user":"bob","messages":[{"role":"user","content":"hi"}]}`, "X-Tenant-Id", tenant).Succeeds(t)
	}
	now := time.Now().UTC()
	days := "from=" + now.AddDate(0, 0, -3).Format(time.RFC3339) + "&to=" + now.AddDate(0, 0, 4).Format(time.RFC3339)
	got := askSpend(t, r, days).Data
	if !got.Enabled || got.Currency != "EUR" || got.Step != "DAY" || got.Total.Cost != 21_000 || got.Total.Forecast != nil {
		t.Errorf("%+v", got)
	}
	if len(got.Groups) != 2 || got.Groups[0].Name != "acme" || got.Groups[0].Cost != 14_000 || got.Groups[0].RequestCount != 2 || got.Groups[1].Name != "=cmd" {
		t.Errorf("%+v", got.Groups)
	}
	for _, by := range []string{"user", "model", "service", "key"} {
		if got := askSpend(t, r, days+"&by="+by+"&tenantId=acme").Data; len(got.Groups) != 1 || got.Groups[0].Cost != 14_000 {
			t.Errorf("by %s: %+v", by, got.Groups)
		}
	}
	if month := askSpend(t, r, "").Data; len(month.Total.Costs) < 28 {
		t.Errorf("this month has %d days", len(month.Total.Costs))
	}
}

// TestModelsWithoutAPrice: what has no price is told apart from what costs nothing by its price.
func TestModelsWithoutAPrice(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("own", b.URL()), gatewaytest.Instance("new", b.URL()))+gatewaytest.QuotaOn+"prices: {models: [{model: m, input: 2, output: 10}, {model: own, input: 0, output: 0}]}\n")
	for _, model := range []string{"m", "own", "new", "new"} {
		r.Chat(`{"model":"`+model+`",`+gatewaytest.SomeMessages+`}`, "X-Tenant-Id", "acme").Succeeds(t)
	}
	models := askSpend(t, r, "by=model").Data
	unpriced := map[string]int64{}
	for _, group := range models.Groups {
		unpriced[group.Name] = group.Unpriced
	}
	if len(unpriced) != 3 || unpriced["m"] != 0 || unpriced["own"] != 0 || unpriced["new"] != 2 || strings.Join(models.Unpriced, " ") != "new" {
		t.Errorf("%+v", models)
	}
	if tenants := askSpend(t, r, "by=tenant").Data; len(tenants.Groups) != 1 || tenants.Groups[0].Unpriced != 2 || tenants.Groups[0].RequestCount != 4 {
		t.Errorf("%+v", tenants)
	}
}

func TestSpendRefusesWhatIsNoPeriod(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
	for query, part := range map[string]string{
		"by=team": "by", "limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "from=yesterday": "from", "to=2026-01-01T00:00:00Z": "from",
		"from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": "to", "from=1990-01-02T00:00:00Z": "to",
		"from=2026-01-02T00:00:00Z;": "the query", "by=%zz": "the query",
	} {
		if got := r.Do(http.MethodGet, "/api/monitoring/spend?"+query, ""); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"`+part) && !strings.Contains(got.Body, part+" ") && !strings.Contains(got.Body, part+":") {
			t.Errorf("%s: %d %s", query, got.Status, got.Body)
		}
	}
	if got := askSpend(t, r, "").Data; got.Enabled || len(got.Groups) != 0 {
		t.Errorf("the ledger is off: %+v", got)
	}
}
