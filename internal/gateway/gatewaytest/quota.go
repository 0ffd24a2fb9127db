package gatewaytest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// QuotaEntry is an entry of GET /api/monitoring/quota/usage.
type QuotaEntry struct {
	Dimensions   map[string]string `json:"dimensions"`
	Window       string            `json:"window"`
	WindowStart  time.Time         `json:"windowStart"`
	RequestCount int64             `json:"requestCount"`
	TokenCount   int64             `json:"tokenCount"`
}

// QuotaAnswer is the envelope of the quota operations.
type QuotaAnswer[T any] struct {
	Success   bool   `json:"success"`
	Message   string `json:"message"`
	ErrorCode string `json:"errorCode"`
	Data      T      `json:"data"`
}

// DecodeQuota decodes an answer of a quota operation.
func DecodeQuota[T any](t *testing.T, answer Reply) QuotaAnswer[T] {
	t.Helper()
	var decoded QuotaAnswer[T]
	if err := json.Unmarshal([]byte(answer.Body), &decoded); err != nil {
		t.Fatalf("%v in %s", err, answer.Body)
	}
	return decoded
}

// LongAgo is a query that selects every count ever made: no test depends on the minute of
// its run.
const LongAgo = "/api/monitoring/quota/usage?from=2000-01-01T00:00:00Z&window=MINUTE"

// Counted asks for entries and returns the requests and tokens in them. On a busy machine
// a store may not answer in time, and the entries then come from the gateway's memory;
// Counted asks again until none is missing.
func Counted(t *testing.T, ask func() Reply) (requests, tokens int64) {
	t.Helper()
	var answer QuotaAnswer[[]QuotaEntry]
	Eventually(t, "the store of the ledger answers", func() bool {
		answer = DecodeQuota[[]QuotaEntry](t, ask().Succeeds(t))
		return !strings.Contains(answer.Message, "a store did not answer")
	})
	for _, entry := range answer.Data {
		requests, tokens = requests+entry.RequestCount, tokens+entry.TokenCount
	}
	return requests, tokens
}

// HasCounted checks the ledger's counts in the entries that a query selects.
func (r *Gateway) HasCounted(requests, tokens int64, query string) {
	r.T.Helper()
	gotRequests, gotTokens := Counted(r.T, func() Reply { return r.Do(http.MethodGet, LongAgo+query, "") })
	if gotRequests != requests || gotTokens != tokens {
		r.T.Errorf("%s: %d requests and %d tokens, want %d and %d", query, gotRequests, gotTokens, requests, tokens)
	}
}

// QuotaOn is a configuration of the ledger that writes often.
const QuotaOn = "quota: {enabled: true, flush-interval-seconds: 1}\n"
