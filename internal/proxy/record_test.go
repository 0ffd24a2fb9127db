package proxy

import (
	"net/netip"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

func TestVerdicts(t *testing.T) {
	for name, test := range map[string]struct {
		call   calls.Call
		status metrics.Status
		reason metrics.Reason
	}{
		"answered":                {calls.Call{}, metrics.Success, metrics.NotRejected},
		"left during the answer":  {calls.Call{Gone: true, FirstByte: 1, Code: codeCancelled}, metrics.Success, metrics.NotRejected},
		"left before the answer":  {calls.Call{Gone: true, Code: codeCancelled}, metrics.Failed, metrics.NotRejected},
		"too late":                {calls.Call{Code: schema.CodeUpstreamTimeout}, metrics.TimedOut, metrics.NotRejected},
		"breakers open":           {calls.Call{Code: schema.CodeCircuitBreakerOpen}, metrics.BreakerOpen, metrics.NotRejected},
		"nobody":                  {calls.Call{Code: schema.CodeServiceUnavailable}, metrics.Failed, metrics.NotRejected},
		"broken off":              {calls.Call{Code: schema.CodeUpstreamTruncated, FirstByte: 1}, metrics.Failed, metrics.NotRejected},
		"limited":                 {calls.Call{Code: schema.CodeRateLimitExceeded}, metrics.Failed, metrics.RateLimited},
		"limited by the backend":  {calls.Call{Code: schema.CodeUpstreamRateLimit}, metrics.Failed, metrics.NotRejected},
		"no slot":                 {calls.Call{Code: schema.CodeNoSlot}, metrics.Failed, metrics.NoSlot},
		"not in this dialect":     {calls.Call{Code: schema.CodeInvalidValue}, metrics.Failed, metrics.InvalidRequest},
		"refused by the backend":  {calls.Call{Code: schema.CodeUpstreamError}, metrics.Failed, metrics.NotRejected},
		"the gateway shuts down":  {calls.Call{Code: schema.CodeServiceUnavailable, FirstByte: 1}, metrics.Failed, metrics.NotRejected},
		"something never thought": {calls.Call{Code: schema.CodeInternal}, metrics.Failed, metrics.NotRejected},
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
	for name, recorder := range map[string]*calls.Recorder{"off": nil, "on": calls.NewRecorder(metrics.DefaultSettings())} {
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
