package live

import (
	"math"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// near reports whether a figure is within 5 % of the true one.
func near(got *float64, want float64) bool { return got != nil && math.Abs(*got/want-1) <= 0.05 }

func TestServicesAreNeverMixedInOneFigure(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	embed := func(took time.Duration) {
		r.registry.Count(nil, &metrics.Request{Service: schema.Embedding, Result: schema.ResultSuccess, Duration: took, Overhead: -1})
	}
	r.count("a", schema.ResultSuccess, 1505*time.Millisecond)
	r.pass(20)
	embed(300 * time.Microsecond)
	r.pass(20)
	r.count("a", schema.ResultSuccess, 1505*time.Millisecond)
	embed(300 * time.Microsecond)
	r.pass(1)
	h := r.History(Query{Metrics: Metrics(), By: Total, Range: FiveMinutes})
	all, end := h.Series[0], h.Points-1
	if last(all.Requests.Answered, 0) != "2" || all.Latency.P95[end] != nil || all.Latency.Count[end] != 0 || all.Overhead.P50[end] != nil {
		t.Errorf("where both ended: %s requests, p95 %v of %d", last(all.Requests.Answered, 0), all.Latency.P95[end], all.Latency.Count[end])
	}
	if !near(all.Latency.P95[end-20], 0.3) || !near(all.Latency.P99[end-40], 1505) || all.Latency.Count[end-20] != 1 {
		t.Errorf("where one ended: %v, %v", all.Latency.P95[end-20], all.Latency.P95[end-40])
	}
	if whole := all.Whole; whole.Requests != 4 || whole.Latency != nil || whole.TTFT != nil {
		t.Errorf("the whole of both: %+v", whole)
	}
	if total := r.Activities().Total.LastMinute; total.Requests != 4 || total.Latency != nil {
		t.Errorf("the last minute of both: %+v", total)
	}
	by := r.History(Query{Metrics: Metrics(), By: ByService, Range: FiveMinutes}).Series
	if len(by) != 2 || !near(by[0].Latency.P50[end], 1505) || !near(by[1].Latency.P50[end], 0.3) || !near(&by[1].Whole.Latency.P99, 0.3) || by[1].Whole.Latency.Count != 2 {
		t.Errorf("by service: %+v", by)
	}
}

// An instance is not to blame for the time before it was picked: a wait for a slot, or a try of
// another instance.
func TestTheTimeOfAnInstanceBeginsWhenItIsPicked(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	series := r.current.Load().Service(schema.Chat).Find("a").Instances[0].Series
	r.registry.Count(series, &metrics.Request{
		Service: schema.Chat, Result: schema.ResultSuccess, Duration: 10100 * time.Millisecond, FirstToken: 10020 * time.Millisecond,
		PerToken: 4 * time.Millisecond, Picked: 10 * time.Second, Overhead: 40 * time.Microsecond,
	})
	r.pass(1)
	for by, want := range map[Grouping][3]float64{ByService: {10100, 10020, 4}, ByModel: {10100, 10020, 4}, ByInstance: {100, 20, 4}, ByHost: {100, 20, 4}} {
		h := r.History(Query{Metrics: Metrics(), By: by, Range: FiveMinutes})
		if len(h.Series) != 1 {
			t.Fatalf("by %s: %+v", by, h.Series)
		}
		one := h.Series[0]
		if w := one.Whole; !near(&w.Latency.P50, want[0]) || !near(&w.TTFT.P95, want[1]) || !near(&w.PerToken.P99, want[2]) || !near(&w.TokensPerSecond.P50, 1000/want[2]) {
			t.Errorf("by %s: %v, first token %v, per token %v", by, *w.Latency, *w.TTFT, *w.PerToken)
		}
		if !near(one.Latency.P99[h.Points-1], want[0]) || !near(one.TTFT.P50[h.Points-1], want[1]) || !near(one.PerToken.P50[h.Points-1], want[2]) {
			t.Errorf("by %s, the last step: %v", by, *one.Latency.P99[h.Points-1])
		}
		if (one.Host == "backend:1") != (by == ByHost) || (one.Overhead != nil) != (by == ByService) {
			t.Errorf("by %s: host %q, overhead %v", by, one.Host, one.Overhead)
		}
	}
}

// More requests than a cell of a point has room for are still counted.
func TestACellThatIsFullHasAnother(t *testing.T) {
	t.Parallel()
	var own track
	for range 3 {
		own.add(60, &counts{cells: []cell{{7, mostInCell - 1}, {5, 1}, {9, 2*mostInCell + 3}}})
	}
	var to times
	if own.times(OneDay, 0, 0, &to); to[duration].Count() != 3*(mostInCell-1)+3+3*(2*mostInCell+3) {
		t.Errorf("%d are counted", to[duration].Count())
	}
}
