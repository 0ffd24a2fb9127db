package calls

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// scrape returns what a scrape of a recorder in a state of one instance shows, in
// the format that has exemplars.
func scrape(t *testing.T, r *Recorder, series *metrics.Instance) string {
	t.Helper()
	state := func(to *metrics.State) {
		to.Instances = []metrics.InstanceView{{Service: schema.Chat, Label: "m@gpu0:8000", Series: series}}
	}
	e, err := metrics.NewExposition(metrics.Options{Registry: r.Registry(), State: state, Failed: t.FailNow})
	if err != nil {
		t.Fatal(err)
	}
	all, err := e.Scrape()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeOpenMetrics))
	for _, f := range all {
		if err := encoder.Encode(f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestResultsOfRoutedCalls(t *testing.T) {
	for name, test := range map[string]struct {
		call   Record
		result schema.Result
	}{
		"answered":                {Record{}, schema.ResultSuccess},
		"left during the answer":  {Record{Gone: true, FirstByte: 1, Code: schema.CodeCancelled}, schema.ResultSuccess},
		"left before the answer":  {Record{Gone: true, Code: schema.CodeCancelled}, schema.ResultFailed},
		"too late":                {Record{Code: schema.CodeUpstreamTimeout}, schema.ResultTimedOut},
		"breakers open":           {Record{Code: schema.CodeCircuitBreakerOpen}, schema.ResultBreakerOpen},
		"nobody":                  {Record{Code: schema.CodeServiceUnavailable}, schema.ResultFailed},
		"broken off":              {Record{Code: schema.CodeUpstreamTruncated, FirstByte: 1}, schema.ResultFailed},
		"limited":                 {Record{Code: schema.CodeRateLimitExceeded}, schema.ResultRateLimited},
		"limited by the backend":  {Record{Code: schema.CodeUpstreamRateLimit}, schema.ResultFailed},
		"no slot":                 {Record{Code: schema.CodeNoSlot}, schema.ResultNoSlot},
		"not in this dialect":     {Record{Code: schema.CodeInvalidValue}, schema.ResultInvalid},
		"refused by the backend":  {Record{Code: schema.CodeUpstreamError}, schema.ResultFailed},
		"the gateway shuts down":  {Record{Code: schema.CodeServiceUnavailable, FirstByte: 1}, schema.ResultFailed},
		"something never thought": {Record{Code: schema.CodeInternal}, schema.ResultFailed},
	} {
		test.call.Routed = true
		if result := test.call.result(); result != test.result {
			t.Errorf("%s: %v", name, result)
		}
	}
}

// What is refused before routing is a rejection, whatever its code.
func TestResultsOfCallsThatWereNotRouted(t *testing.T) {
	for code, want := range map[string]schema.Result{
		schema.CodeInvalidAPIKey:    schema.ResultUnauthorized,
		schema.CodePermissionDenied: schema.ResultForbidden,
		schema.CodeRequestTooLarge:  schema.ResultTooLarge,
		schema.CodeRequestTimeout:   schema.ResultBodyTimeout,
		schema.CodeUnsupportedMedia: schema.ResultUnsupportedMedia,
		schema.CodeInvalidJSON:      schema.ResultInvalid,
		schema.CodeTooManyAttempts:  schema.ResultInvalid,
		schema.CodeModelNotFound:    schema.ResultInvalid,
		schema.CodeInternal:         schema.ResultInvalid,
	} {
		if result := (&Record{Code: code}).result(); result != want {
			t.Errorf("%s: %v", code, result)
		}
	}
}

func TestExemplarsNameTheTrace(t *testing.T) {
	r, series := NewRecorder(metrics.DefaultSettings()), metrics.NewInstance()
	r.Finish(&Record{Series: series, RequestID: "a", Service: schema.Chat, Started: time.Now(), Ended: 3 * time.Second, Trace: Trace{ID: TraceID{0xab}, Span: SpanID{1}}})
	if len(ids(r)) != 1 {
		t.Fatal("not recorded")
	}
	if !strings.Contains(scrape(t, r, series), `le="5.0"} 1 # {trace_id="ab000000000000000000000000000000"} 3.0`) {
		t.Error("no exemplar")
	}
}

func TestTheGatewaysOwnTimeLeavesOutWaiting(t *testing.T) {
	r, series := NewRecorder(metrics.DefaultSettings()), metrics.NewInstance()
	r.Finish(&Record{
		Series: series, Service: schema.Chat, Started: time.Now(), Ready: time.Second, Queued: 2 * time.Second, Upstream: 3 * time.Second, Ended: 10 * time.Second, Attempts: 1,
	})
	r.Finish(&Record{Service: schema.Chat, Started: time.Now(), Ended: time.Second}) // no backend was called
	text := scrape(t, r, series)
	for _, line := range []string{
		`model_router_gateway_overhead_seconds_max{service="chat"} 4.0`,
		`model_router_gateway_overhead_seconds_count{service="chat"} 1`,
		`model_router_queue_wait_seconds_max{service="chat"} 2.0`,
		`model_router_request_duration_seconds_max{instance="m@gpu0:8000",service="chat"} 10.0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// A call as the proxy makes it.
func benchCall() *Record {
	c := &Record{
		Series: metrics.NewInstance(), RequestID: "req_ABCDEFGHIJKLMNOPQRSTUVWXYZ", Service: schema.Chat, Model: "llama3", Started: time.Now(), Streamed: true,
		Usage: schema.Usage{Prompt: 12, Completion: 345, Total: 357, Known: true},
		Ready: time.Microsecond, FirstByte: 80 * time.Millisecond, Ended: 2 * time.Second, Upstream: 79 * time.Millisecond, Queued: time.Microsecond,
	}
	c.Begin("llama3@http://gpu1:8000", "openai", c.Started)
	return c
}

func TestRecordingDoesNotAllocate(t *testing.T) {
	r, c := NewRecorder(metrics.DefaultSettings()), benchCall()
	if n := testing.AllocsPerRun(1000, func() {
		r.Finish(c)
		r.Registry().HTTP("/v1/chat/completions", 200, time.Millisecond)
		r.Registry().Shed(schema.Chat, metrics.ShedNoSlot)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFinish(b *testing.B) {
	c := benchCall()
	run := func(name string, change func(*metrics.Settings)) {
		settings := metrics.DefaultSettings()
		change(&settings)
		r := NewRecorder(settings)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				r.Finish(c)
				if n++; n%(bufferSize/2) == 0 {
					b.StopTimer()
					r.ClearCache()
					b.StartTimer()
				}
			}
		})
	}
	run("counted and recorded", func(*metrics.Settings) {})
	run("counted", func(s *metrics.Settings) { s.Sampling = metrics.Sampling{Enabled: true, Rate: 0} })
	run("off", func(s *metrics.Settings) { s.Enabled = false })
}
