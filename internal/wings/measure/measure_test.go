package measure_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/wings/measure"
)

func TestBothSidesAreMeasured(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	var asked, done, total atomic.Int64
	result, err := measure.Run(t.Context(), measure.Options{
		Gateway: measure.Target{URL: r.URL + "/v1", Model: "m"}, Direct: measure.Target{URL: b.URL() + "/v1", Model: "m", Key: "k"},
		Requests: 25, Concurrency: 3, Prompt: "hi", MaxTokens: 5,
		CPU: func(context.Context) (time.Duration, error) {
			return time.Duration(asked.Add(1)) * time.Millisecond, nil
		},
		Progress: func(d, all int) {
			done.Store(int64(d))
			total.Store(int64(all))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Kinds) != 2 || done.Load() != 100 || total.Load() != 100 {
		t.Fatalf("%+v, %d of %d", result, done.Load(), total.Load())
	}
	for _, kind := range result.Kinds {
		for name, side := range map[string]measure.Side{"direct": kind.Direct, "gateway": kind.Gateway} {
			if side.Failed != 0 || side.Latency.P50 <= 0 || side.Latency.P99 < side.Latency.P50 || (side.FirstToken != nil) != (kind.Kind == "stream") {
				t.Errorf("%s %s: %+v", kind.Kind, name, side)
			}
		}
		if got := kind.Gateway.Latency.P50 - kind.Direct.Latency.P50 - kind.Added.P50; got > 0.01 || got < -0.01 {
			t.Errorf("%s: added %v of %v and %v", kind.Kind, kind.Added, kind.Gateway.Latency, kind.Direct.Latency)
		}
		if kind.CPUMicros != 40 { // one millisecond for 25 requests
			t.Errorf("%s: %v µs", kind.Kind, kind.CPUMicros)
		}
	}
	var direct int
	for _, request := range b.Requests() {
		if request.Header.Get("Authorization") == "Bearer k" {
			direct++
		}
	}
	if all := len(b.Requests()); direct != 52 || all != 104 { // one more of each kind, to warm up
		t.Errorf("%d of %d requests were direct", direct, all)
	}
}

// The first event of a stream has only the role, and the next one comes later.
func TestFirstTokenIsTheFirstContent(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	const gap = 50 * time.Millisecond
	b.ScriptForever(simulator.Step{EventDelay: gap})
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
	result, err := measure.Run(t.Context(), measure.Options{
		Gateway: measure.Target{URL: r.URL + "/v1", Model: "m"}, Direct: measure.Target{URL: b.URL() + "/v1", Model: "m"},
		Requests: 1, Concurrency: 1, Prompt: "hi", MaxTokens: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range result.Kinds {
		if least := float64(gap.Milliseconds()); kind.Kind == "stream" && (kind.Direct.FirstToken.P50 < least || kind.Gateway.FirstToken.P50 < least) {
			t.Errorf("first token after %v ms directly and %v ms through the gateway, want %v at least", kind.Direct.FirstToken.P50, kind.Gateway.FirstToken.P50, least)
		}
	}
}

func TestATargetThatCannotAnswerIsNamed(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	good := measure.Target{URL: b.URL() + "/v1", Model: "m"}
	options := measure.Options{Gateway: measure.Target{URL: r.URL + "/v1", Model: "nobody"}, Direct: good, Requests: 1, Concurrency: 1, Prompt: "hi", MaxTokens: 1}
	if _, err := measure.Run(t.Context(), options); err == nil || !strings.HasPrefix(err.Error(), "the gateway: status 503") {
		t.Error(err)
	}
	options.Gateway, options.Direct = good, measure.Target{URL: simulator.DownURL}
	if _, err := measure.Run(t.Context(), options); err == nil || !strings.HasPrefix(err.Error(), "the backend directly:") {
		t.Error(err)
	}
}
