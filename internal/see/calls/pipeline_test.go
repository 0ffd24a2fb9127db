package calls

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// running starts the pipeline of a new recorder for the length of a test.
func running(t *testing.T, change func(*metrics.Settings)) *Recorder {
	t.Helper()
	settings := metrics.DefaultSettings()
	if change != nil {
		change(&settings)
	}
	r := NewRecorder(settings)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// pass lets time pass on the fake clock.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock is a fake one
}

// finish records a call that belongs to a trace.
func finish(r *Recorder, id string) { finishOn(r, nil, id) }

func finishOn(r *Recorder, series *metrics.Instance, id string) {
	r.Finish(&Record{Series: series, RequestID: id, Service: schema.Chat, Started: time.Now(), Trace: Trace{ID: TraceID{1}, Span: SpanID{1}}})
}

func ids(r *Recorder) (list []string) {
	for c := range r.Calls() {
		list = append(list, c.RequestID)
	}
	return list
}

func TestReadersSeeWhatWasNotFlushedYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t, nil)
		finish(r, "a")
		finish(r, "b")
		if r.Cache().Current != 2 {
			t.Errorf("%d records wait", r.Cache().Current)
		}
		if got := ids(r); len(got) != 2 || got[0] != "b" {
			t.Errorf("calls %v", got)
		}
		finish(r, "c")
		pass(11 * time.Second)
		synctest.Wait()
		if r.Cache().Current != 0 || len(ids(r)) != 3 {
			t.Errorf("after the flush interval %d records wait", r.Cache().Current)
		}
	})
}

func TestRingKeepsTheLatest(t *testing.T) {
	r := NewRecorder(func() metrics.Settings { s := metrics.DefaultSettings(); s.Calls = 3; return s }())
	for i := range 10 {
		finish(r, fmt.Sprint(i))
	}
	if got := fmt.Sprint(ids(r)); got != "[9 8 7]" {
		t.Errorf("calls %s", got)
	}
	none := NewRecorder(func() metrics.Settings { s := metrics.DefaultSettings(); s.Calls = 0; return s }())
	finish(none, "x")
	if got := ids(none); len(got) != 0 {
		t.Errorf("a ring of 0 holds %v", got)
	}
}

func TestExporterIsRetriedAndSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t, func(s *metrics.Settings) {
			s.Performance.BatchSize = 1
			s.Performance.FlushInterval = metrics.Interval(time.Second)
		})
		var mu sync.Mutex
		broken, tries, delivered := true, 0, 0
		r.Export(func(_ context.Context, batch []Record) error {
			mu.Lock()
			defer mu.Unlock()
			tries++
			if broken {
				return errors.New("unreachable")
			}
			delivered += len(batch)
			return nil
		})
		finish(r, "a")
		pass(2 * time.Second)
		synctest.Wait()
		if s := r.Cache(); s.QueuedRetries != 1 || s.Current != 1 {
			t.Errorf("after a failure %+v", s)
		}
		for i := range 9 {
			finish(r, fmt.Sprint(i))
		}
		pass(5 * time.Second)
		synctest.Wait()
		if g := r.Breaker(); g.State != BreakerOpen || g.FailureRate != 1 {
			t.Errorf("after failures the breaker is %+v", g)
		}
		mu.Lock()
		broken = false
		before := tries
		mu.Unlock()
		pass(10 * time.Second)
		synctest.Wait()
		if mu.Lock(); tries != before {
			t.Error("an open breaker let deliveries pass")
		}
		mu.Unlock()
		if len(ids(r)) != 10 {
			t.Error("a failing exporter keeps calls from being read here")
		}
		pass(60 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if s := r.Cache(); delivered == 0 || s.Current != 0 || s.QueuedRetries != 0 || r.Breaker().State != BreakerClosed {
			t.Errorf("after the recovery %d were delivered, %+v, %+v", delivered, s, r.Breaker())
		}
	})
}

func TestBatchesAreGivenUpAfterTheLastRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t, nil)
		r.Export(func(context.Context, []Record) error { return errors.New("status 500") })
		finish(r, "a")
		pass(2 * time.Minute)
		synctest.Wait()
		faults := r.Faults()
		if r.Cache().Current != 0 || faults.Active != 2 || faults.Faults[0].Count != 1+maxRetries || faults.Faults[1].Operation != "give-up" {
			t.Errorf("cache %+v, faults %+v", r.Cache(), faults)
		}
	})
}

func TestForcedOpenStopsDelivery(t *testing.T) {
	r := NewRecorder(metrics.DefaultSettings())
	r.ForceOpen()
	finish(r, "a")
	if got := ids(r); len(got) != 0 || r.Breaker().State != BreakerOpen || r.Cache().Current != 1 {
		t.Errorf("while forced open %v was delivered", got)
	}
	r.ForceClose()
	if got := ids(r); len(got) != 1 || r.Breaker().State != BreakerClosed {
		t.Errorf("after it was closed %v", got)
	}
	r.ForceOpen()
	finish(r, "b")
	r.ClearCache()
	r.ForceClose()
	if got := ids(r); len(got) != 1 || r.Cache().Current != 0 {
		t.Errorf("the cache was not cleared: %v", got)
	}
}

func TestAutomaticModeFollowsTheComponents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t, nil)
		degrade := func(component string) {
			for range degradedFrom {
				r.NoteFault(component, "x", "why")
			}
			pass(2 * time.Second)
			synctest.Wait()
		}
		is := func(level Level, rate float64) {
			t.Helper()
			if got := r.Degradation(); got.Level != level || r.SamplingRate() != rate {
				t.Errorf("level %v, rate %v; want %v, %v", got.Level, r.SamplingRate(), level, rate)
			}
		}
		is(LevelNormal, 1)
		degrade("a")
		is(LevelPartial, 0.5)
		degrade("b")
		is(LevelMinimal, 0.1)
		r.SetLevel(LevelNormal) // by hand, until the components say something new
		pass(5 * time.Second)
		is(LevelNormal, 1)
		degrade("c")
		is(LevelDisabled, 0)
		r.ResetFault("c", "x")
		is(LevelMinimal, 0.1)
		pass(degradedFor + time.Second)
		synctest.Wait()
		is(LevelNormal, 1)
		if r.Faults().Active != 2 {
			t.Errorf("%+v", r.Faults())
		}
		pass(faultsForget)
		if r.Faults().Active != 0 {
			t.Errorf("old errors stay: %+v", r.Faults())
		}
		r.SetAutoMode(false)
		degrade("d")
		is(LevelNormal, 1)
		r.SetLevel(LevelDisabled)
		r.Recover()
		is(LevelNormal, 1)
		if r.Faults().Active != 0 {
			t.Error("recovery keeps errors")
		}
	})
}

// Turned on, automatic mode takes over from whatever level was left, at once.
func TestAutomaticModeTakesOver(t *testing.T) {
	r := NewRecorder(metrics.DefaultSettings())
	degrade := func(component string) {
		for range degradedFrom {
			r.NoteFault(component, "x", "why")
		}
	}
	is := func(level Level, rate float64) {
		t.Helper()
		if got := r.Degradation(); got.Level != level || r.SamplingRate() != rate {
			t.Errorf("level %v, rate %v; want %v, %v", got.Level, r.SamplingRate(), level, rate)
		}
	}
	r.SetAutoMode(false)
	r.SetLevel(LevelMinimal)
	r.SetAutoMode(true)
	is(LevelNormal, 1) // no component is degraded
	r.SetAutoMode(false)
	degrade("a")
	is(LevelNormal, 1)
	r.SetAutoMode(true)
	is(LevelPartial, 0.5)
	r.SetAutoMode(false)
	r.ResetFault("a", "x")
	is(LevelPartial, 0.5)
	r.SetAutoMode(true)
	is(LevelNormal, 1)
	r.SetLevel(LevelMinimal)
	r.SetAutoMode(true) // it was on: the level that was set by hand stays
	is(LevelMinimal, 0.1)
}

func TestFullBufferDropsAndDegrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t, nil)
		r.ForceOpen()
		series := metrics.NewInstance()
		for i := range bufferSize + degradedFrom {
			finishOn(r, series, fmt.Sprint(i))
		}
		pass(2 * time.Second)
		synctest.Wait()
		if r.Degradation().Level != LevelPartial || r.Faults().Total != degradedFrom {
			t.Errorf("%+v, %+v", r.Degradation(), r.Faults())
		}
		if n := series.Requests(schema.ResultSuccess); n != bufferSize+degradedFrom {
			t.Errorf("counts were lost: %d", n)
		}
	})
}

// readAll reads the records that wait for a cursor, and returns how many.
func readAll(c *Cursor) (count int) {
	for record := range c.Waiting() {
		c.Done(record.Sequence)
		count++
	}
	return count
}

func TestSlowSubscribersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := running(t, nil)
		slow, err := r.Subscribe()
		if err != nil {
			t.Fatal(err)
		}
		quick, _ := r.Subscribe()
		got := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !quick.HasEnded() {
				<-quick.Ready()
				got += readAll(quick)
			}
		}()
		for range 3 {
			for i := range feedRoom / 2 {
				finish(r, fmt.Sprint(i))
			}
			pass(time.Second)
			synctest.Wait()
		}
		r.EndStreams()
		<-done
		if n := readAll(slow); n != feedRoom || !slow.HasEnded() || got != 3*feedRoom/2 || r.Faults().Active != 1 {
			t.Errorf("the slow one got %d, the quick one %d, %+v", n, got, r.Faults())
		}
		if _, err := r.Subscribe(); !errors.Is(err, ErrClosed) {
			t.Errorf("a subscription after the end: %v", err)
		}
	})
}

func TestSubscribersAreBounded(t *testing.T) {
	r := NewRecorder(metrics.DefaultSettings())
	for range maxFeeds {
		if _, err := r.Subscribe(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Subscribe(); !errors.Is(err, ErrSubscribers) {
		t.Errorf("one too many: %v", err)
	}
}

func TestSamplingGovernsRecordsAndNotCounts(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Recorder)
		least  int
		most   int
		counts int64
	}{
		"all": {func(*Recorder) {}, 1000, 1000, 1000},
		"sampling": {func(r *Recorder) {
			_ = r.Update(func(s *metrics.Settings) { s.Sampling = metrics.Sampling{Enabled: true, Rate: 0.2} })
		}, 120, 280, 1000},
		"partial": {func(r *Recorder) { r.SetLevel(LevelPartial) }, 400, 600, 1000},
		"both": {func(r *Recorder) {
			r.SetLevel(LevelPartial)
			_ = r.Update(func(s *metrics.Settings) { s.Sampling = metrics.Sampling{Enabled: true, Rate: 0.2} })
		}, 50, 160, 1000},
		"level off":    {func(r *Recorder) { r.SetLevel(LevelDisabled) }, 0, 0, 1000},
		"category off": {func(r *Recorder) { _ = r.Update(func(s *metrics.Settings) { s.EnabledCategories = nil }) }, 0, 0, 1000},
		"switched off": {func(r *Recorder) { _ = r.Update(func(s *metrics.Settings) { s.Enabled = false }) }, 0, 0, 0},
		"sampling of 0": {func(r *Recorder) {
			_ = r.Update(func(s *metrics.Settings) { s.Sampling = metrics.Sampling{Enabled: true, Rate: 0} })
		}, 0, 0, 1000},
	} {
		r := NewRecorder(metrics.DefaultSettings())
		test.change(r)
		series := metrics.NewInstance()
		for i := range 1000 {
			finishOn(r, series, fmt.Sprint(i))
		}
		if n := len(ids(r)); n < test.least || n > test.most {
			t.Errorf("%s: %d records", name, n)
		}
		if n := series.Requests(schema.ResultSuccess); n != test.counts {
			t.Errorf("%s: %d counts", name, n)
		}
	}
}

func TestTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	trace, sampled, ok := ParseTraceparent(good)
	if !ok || !sampled || Traceparent(trace.ID, trace.Parent) != good {
		t.Errorf("%v %v %v", trace, sampled, ok)
	}
	if _, _, ok := ParseTraceparent("cc" + good[2:] + "-what-the-future-brings"); !ok {
		t.Error("a later version is not read")
	}
	for _, bad := range []string{
		"", "00", good[:54], good + "-x", "ff" + good[2:], "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
		"zz" + good[2:], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333g-01",
	} {
		if _, _, ok := ParseTraceparent(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
	r := NewRecorder(metrics.DefaultSettings())
	r.TraceNew(0)
	if (r.StartTrace("") != Trace{}) || (r.StartTrace(good[:53]+"00") != Trace{}) {
		t.Error("what is not sampled is traced")
	}
	if got := r.StartTrace(good); got.ID != trace.ID || got.Parent != trace.Parent || got.Span == (SpanID{}) {
		t.Errorf("the caller's trace is not followed: %v", got)
	}
	r.TraceNew(1)
	if r.StartTrace("") == (Trace{}) {
		t.Error("no new trace")
	}
}

func TestEveryObserverGetsEveryRecord(t *testing.T) {
	r := NewRecorder(metrics.DefaultSettings())
	var got [2]int
	for i := range got {
		r.Observe(func(batch []Record) { got[i] += len(batch) })
	}
	finish(r, "a")
	finish(r, "b")
	r.Flush()
	if got != [2]int{2, 2} {
		t.Errorf("the observers got %v records", got)
	}
}
