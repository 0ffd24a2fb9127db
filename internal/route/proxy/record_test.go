package proxy

import (
	"net/netip"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// BenchmarkRecorded is BenchmarkRouteAndSettle with everything recorded.
func BenchmarkRecorded(b *testing.B) {
	req, record := new(schema.Request), new(calls.Record)
	way := &Request{Asks: req, Caller: &access.Caller{Addr: netip.MustParseAddr("192.0.2.1"), RequestID: "req_1"}, Record: record}
	if err := req.ParseChat([]byte(benchBody)); err != nil {
		b.Fatal(err)
	}
	for name, recorder := range map[string]*calls.Recorder{"off": nil, "on": calls.NewRecorder(metrics.DefaultSettings())} {
		p := benchProxy(b)
		p.SetRecorder(recorder)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.route(b, way)
				recorder.Finish(record)
			}
		})
	}
}
