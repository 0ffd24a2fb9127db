package proxy

import (
	"net/netip"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

func TestVerdicts(t *testing.T) {
	for name, test := range map[string]struct {
		call   metrics.Call
		status metrics.Status
		reason metrics.Reason
	}{
		"answered":                {metrics.Call{}, metrics.Success, metrics.NotRejected},
		"left during the answer":  {metrics.Call{Gone: true, FirstByte: 1, Code: codeCancelled}, metrics.Success, metrics.NotRejected},
		"left before the answer":  {metrics.Call{Gone: true, Code: codeCancelled}, metrics.Failed, metrics.NotRejected},
		"too late":                {metrics.Call{Code: schema.CodeUpstreamTimeout}, metrics.TimedOut, metrics.NotRejected},
		"breakers open":           {metrics.Call{Code: schema.CodeCircuitBreakerOpen}, metrics.BreakerOpen, metrics.NotRejected},
		"nobody":                  {metrics.Call{Code: schema.CodeServiceUnavailable}, metrics.Failed, metrics.NotRejected},
		"broken off":              {metrics.Call{Code: schema.CodeUpstreamTruncated, FirstByte: 1}, metrics.Failed, metrics.NotRejected},
		"limited":                 {metrics.Call{Code: schema.CodeRateLimitExceeded}, metrics.Failed, metrics.RateLimited},
		"limited by the backend":  {metrics.Call{Code: schema.CodeUpstreamRateLimit}, metrics.Failed, metrics.NotRejected},
		"no slot":                 {metrics.Call{Code: schema.CodeNoSlot}, metrics.Failed, metrics.NoSlot},
		"not in this dialect":     {metrics.Call{Code: schema.CodeInvalidValue}, metrics.Failed, metrics.InvalidRequest},
		"refused by the backend":  {metrics.Call{Code: schema.CodeUpstreamError}, metrics.Failed, metrics.NotRejected},
		"the gateway shuts down":  {metrics.Call{Code: schema.CodeServiceUnavailable, FirstByte: 1}, metrics.Failed, metrics.NotRejected},
		"something never thought": {metrics.Call{Code: schema.CodeInternal}, metrics.Failed, metrics.NotRejected},
	} {
		if status, reason := verdict(&test.call); status != test.status || reason != test.reason {
			t.Errorf("%s: %v, %q", name, status, reason)
		}
	}
}

// BenchmarkRecorded is BenchmarkRouteAndSettle with everything recorded.
func BenchmarkRecorded(b *testing.B) {
	caller := &schema.Caller{Addr: netip.MustParseAddr("192.0.2.1"), RequestID: "req_1"}
	req := new(schema.Request)
	if err := req.ParseChat([]byte(benchBody)); err != nil {
		b.Fatal(err)
	}
	for name, recorder := range map[string]*metrics.Recorder{"off": nil, "on": metrics.NewRecorder(metrics.DefaultSettings())} {
		p := benchProxy(b)
		p.Record(recorder)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.route(b, req, caller)
			}
		})
	}
}
