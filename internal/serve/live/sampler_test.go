package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// rig is a sampler whose clock the test moves.
type rig struct {
	*Sampler
	t       *testing.T
	doc     *config.Document
	now     time.Time
	current *routing.Current
}

func newRig(t *testing.T, models ...string) *rig {
	t.Helper()
	settings := metrics.DefaultSettings()
	r := &rig{t: t, doc: config.Default(), now: time.Unix(1_700_000_100, 0), current: new(routing.Current)}
	r.use(models...)
	r.Sampler = NewSampler(metrics.NewRegistry(&settings), r.current)
	r.sample(r.now)
	return r
}

// use configures one chat instance for each model.
func (r *rig) use(models ...string) {
	r.t.Helper()
	chat := r.doc.Services[schema.Chat]
	chat.Instances = nil
	for _, model := range models {
		one := backend.DefaultSettings()
		one.Name, one.BaseURL = model, "http://backend:1"
		chat.Instances = append(chat.Instances, one)
	}
	r.doc.Services[schema.Chat] = chat
	table, err := routing.Compile(r.doc.Routed(), r.current.Load(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.current.Store(table)
}

// pass lets seconds pass, with a sample after each.
func (r *rig) pass(seconds int) {
	for range seconds {
		r.now = r.now.Add(time.Second)
		r.sample(r.now)
	}
}

func (r *rig) count(model string, result schema.Result, took time.Duration) {
	var series *metrics.Instance
	if pool := r.current.Load().Service(schema.Chat).Find(model); pool != nil {
		series = pool.Instances[0].Series
	}
	r.registry.Count(series, &metrics.Request{
		Service: schema.Chat, Result: result, Duration: took, FirstToken: took / 2, Overhead: 40 * time.Microsecond,
		Usage: schema.Usage{Known: true, Prompt: 2, Completion: 3},
	})
}

func last(c Counts, back int) string {
	p := c[len(c)-1-back]
	if p == nil {
		return "null"
	}
	return fmt.Sprint(*p)
}

func TestHistoryCountsWhatHappenedInEachStep(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a", "b")
	r.pass(3)
	r.count("a", schema.ResultSuccess, 200*time.Millisecond)
	r.count("a", schema.ResultSuccess, 200*time.Millisecond)
	r.count("b", schema.ResultFailed, time.Second)
	r.count("", schema.ResultBreakerOpen, time.Millisecond)
	r.count("", schema.ResultRateLimited, time.Millisecond)
	r.count("", schema.ResultInvalid, time.Millisecond)
	r.pass(2)
	for _, within := range []Range{FiveMinutes, OneHour, OneDay} {
		h := r.History(Query{Metrics: Metrics(), By: Total, Range: within})
		one := h.Series[0]
		back := 0
		if within == FiveMinutes {
			back = 1 // the second after it was quiet
		}
		got := last(one.Requests.Answered, back) + last(one.Requests.Failed, back) + last(one.Requests.BreakerOpen, back) +
			last(one.Requests.Limited, back) + last(one.Requests.Rejected, back) + " " + last(one.Tokens.Input, back) + " " + last(one.Tokens.Output, back)
		if got != "21111 8 12" {
			t.Errorf("%v: %s", within, got)
		}
		if int64(len(one.Requests.Answered)) != h.Points || int64(len(one.Latency.P95)) != h.Points || int64(len(one.Overhead.P50)) != h.Points {
			t.Errorf("%v: %d points", within, len(one.Requests.Answered))
		}
		if one.Latency.P95[h.Points-1] == nil || *one.Latency.P95[h.Points-1] < 500 || *one.Latency.P50[h.Points-1] > 250 {
			t.Errorf("%v: quantiles %v %v", within, one.Latency.P50[h.Points-1], one.Latency.P95[h.Points-1])
		}
	}
	h := r.History(Query{Metrics: []Metric{Requests}, By: ByInstance, Range: FiveMinutes})
	if len(h.Series) != 2 || h.Series[0].Model != "a" || last(h.Series[0].Requests.Answered, 1) != "2" || last(h.Series[1].Requests.Failed, 1) != "1" || h.Series[0].Latency != nil {
		t.Errorf("by instance: %+v", h.Series)
	}
	if h := r.History(Query{Metrics: []Metric{Requests}, By: ByInstance, Model: "b", Range: FiveMinutes}); len(h.Series) != 1 || h.Series[0].Model != "b" {
		t.Errorf("of a model: %+v", h.Series)
	}
	if h := r.History(Query{Metrics: Metrics(), By: ByService, Range: FiveMinutes}); len(h.Series) != 1 || *h.Series[0].Service != schema.Chat {
		t.Errorf("by service: %+v", h.Series)
	}
}

func TestHistoryEndsAtTheStartBeforeTheFirstSample(t *testing.T) {
	t.Parallel()
	settings := metrics.DefaultSettings()
	registry := metrics.NewRegistry(&settings)
	for _, within := range []Range{FiveMinutes, OneHour, OneDay, SevenDays, ThirtyDays} {
		h := NewSampler(registry, new(routing.Current)).History(Query{Range: within})
		end := h.From.Add(time.Duration(h.StepSeconds*h.Points) * time.Second)
		if started := registry.Started(); end.Before(started) || end.After(started.Add(time.Hour)) {
			t.Errorf("%s: got a history that ends at %s, want the start %s", within, end, started)
		}
	}
}

func TestWhatWasNotWatchedIsNull(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	r.pass(2)
	off := metrics.DefaultSettings()
	off.Enabled = false
	r.registry.Configure(&off)
	r.pass(3)
	on := metrics.DefaultSettings()
	r.registry.Configure(&on)
	r.pass(1)
	r.now = r.now.Add(3 * time.Second) // late, and not by much
	r.sample(r.now)
	r.now = r.now.Add(time.Minute) // the machine slept
	r.pass(1)
	one := r.History(Query{Metrics: []Metric{Requests}, Range: FiveMinutes}).Series[0].Requests.Answered
	got := ""
	for back := 72; back >= 0; back-- {
		got += last(one, back)[:1]
	}
	want := "nnn" + "000" + "nnn" + "0" + "000"
	for range 60 {
		want += "n"
	}
	if want = want[len(want)-72:] + "0"; got != want {
		t.Errorf("\n%s\n%s", got, want)
	}
}

func TestHistoryOfAnInstanceOutlivesEditsAndEndsWithIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	r.count("a", schema.ResultSuccess, time.Millisecond)
	r.pass(1)
	r.use("a", "b")
	r.count("a", schema.ResultSuccess, time.Millisecond)
	r.pass(1)
	if used := r.Usage(FiveMinutes); used[InstanceKey{schema.Chat, "a@http://backend:1"}].Calls != 2 {
		t.Errorf("%v", used)
	}
	r.use("b")
	r.pass(1)
	r.use("a", "b")
	r.pass(1)
	if used := r.Usage(FiveMinutes); used[InstanceKey{schema.Chat, "a@http://backend:1"}].Calls != 0 {
		t.Errorf("%v", used)
	}
	if total := r.Activities().Total.Requests.Answered; total != 2 {
		t.Errorf("in total %d", total)
	}
}

func TestHistoryIsBoundedInInstances(t *testing.T) {
	t.Parallel()
	models := make([]string, maxInstances+3)
	for i := range models {
		models[i] = fmt.Sprintf("m%03d", i)
	}
	r := newRig(t, models...)
	for _, model := range models {
		r.count(model, schema.ResultSuccess, time.Millisecond)
	}
	r.pass(1)
	for _, by := range []Grouping{ByInstance, ByModel} {
		h := r.History(Query{Metrics: []Metric{Requests}, By: by, Range: FiveMinutes})
		if len(h.Series) != maxInstances || h.Omitted != 3 {
			t.Fatalf("by %s: %d histories, %d omitted", by, len(h.Series), h.Omitted)
		}
		omitted := 0
		for _, model := range models {
			one := r.History(Query{Metrics: []Metric{Requests}, By: by, Model: model, Range: FiveMinutes})
			if omitted += one.Omitted; len(one.Series)+one.Omitted != 1 {
				t.Errorf("by %s: %s has %d histories, %d omitted", by, model, len(one.Series), one.Omitted)
			}
		}
		if omitted != 3 {
			t.Errorf("by %s: %d models lack a history", by, omitted)
		}
	}
	if h := r.History(Query{Metrics: []Metric{Requests}, By: Total, Range: FiveMinutes}); last(h.Series[0].Requests.Answered, 0) != fmt.Sprint(len(models)) {
		t.Error("the total lacks those without a history")
	}
	// Those that are idle for long make room.
	r.now = r.now.Add((idleAfter + 1) * time.Second)
	for _, model := range models[:len(models)-1] {
		r.count(model, schema.ResultSuccess, time.Millisecond)
	}
	r.pass(1)
	for _, model := range models {
		r.count(model, schema.ResultSuccess, time.Millisecond)
	}
	r.pass(1)
	if h := r.History(Query{Metrics: []Metric{Requests}, By: ByInstance, Range: FiveMinutes}); len(h.Series) != maxInstances {
		t.Errorf("%d histories", len(h.Series))
	}
}

// A sample of an idle gateway must cost next to nothing.
func BenchmarkIdleSample(b *testing.B) {
	settings := metrics.DefaultSettings()
	table, err := routing.Compile(config.Default().Routed(), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	current := new(routing.Current)
	current.Store(table)
	s := NewSampler(metrics.NewRegistry(&settings), current)
	now := time.Unix(1_700_000_000, 0)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		s.sample(now)
	}
}

func TestAPointThatHasNotEndedTellsHowLongItWasWatched(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a") // the first sample is of the last second of a step of each range
	r.pass(20)
	for within, want := range map[Range][]int64{FiveMinutes: {1, 1, 1}, OneHour: {1, 15, 5}, OneDay: {0, 1, 20}} {
		h := r.History(Query{Metrics: []Metric{Requests}, Range: within})
		if got := h.Watched[len(h.Watched)-3:]; int64(len(h.Watched)) != h.Points || !slices.Equal(got, want) {
			t.Errorf("%v: %d points end with %v, not %v", within, len(h.Watched), got, want)
		}
	}
}

func TestTheWholeOfARangeTellsRefusalsFromErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a", "b")
	r.count("a", schema.ResultSuccess, 200*time.Millisecond)
	r.pass(40)
	r.count("a", schema.ResultFailed, time.Second)
	r.count("b", schema.ResultSuccess, time.Millisecond)
	r.count("", schema.ResultRateLimited, time.Millisecond)
	r.count("", schema.ResultInvalid, time.Millisecond)
	r.pass(400)
	for by, want := range map[Grouping]string{Total: " 5/1", ByService: " 5/1", ByModel: "a 2/1 b 1/0", ByInstance: "a 2/1 b 1/0"} {
		var got []string
		for _, one := range r.History(Query{Metrics: []Metric{Whole}, By: by, Range: OneDay}).Series {
			got = append(got, fmt.Sprintf("%s %d/%d", one.Model, one.Whole.Requests, one.Whole.Errors))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %q, not %q", by, got, want)
		}
	}
	if whole := r.History(Query{Metrics: []Metric{Whole}, Range: FiveMinutes}).Series[0].Whole; whole.Requests != 0 {
		t.Errorf("the last minutes have what was before: %+v", whole)
	}
}

func TestAModelCountsARequestOnceAndItsInstancesEachCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	series := r.current.Load().Service(schema.Chat).Find("a").Instances[0].Series
	series.Failovers.Add(1)
	r.count("a", schema.ResultSuccess, time.Millisecond)
	r.pass(1)
	for by, want := range map[Grouping]int64{ByModel: 1, ByInstance: 2} {
		if got := r.History(Query{Metrics: []Metric{Whole}, By: by, Range: OneHour}).Series[0].Whole.Requests; got != want {
			t.Errorf("by %s: %d requests, not %d", by, got, want)
		}
	}
}
