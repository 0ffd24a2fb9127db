package live

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// keeps opens an archive of a rig's history in a folder.
func (r *rig) keeps(dir string, keys *seal.Keys, settings metrics.History) *Archive {
	r.t.Helper()
	a, err := OpenArchive(ArchiveOptions{Dir: dir, Settings: settings, Keys: keys, Sampler: r.Sampler,
		IsFull: func() bool { return false }, Flush: func() {},
		Fault: func(operation, text string) { r.t.Errorf("%s: %s", operation, text) }}, r.now)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// minutes lets minutes pass with a request in each, and saves those that have ended.
func (r *rig) minutes(a *Archive, n int) {
	for range n {
		r.pass(30)
		r.count("a", schema.ResultSuccess, 200*time.Millisecond)
		r.pass(30)
		a.save(r.now, false)
	}
}

// whole returns the answered requests of a range, and its p50.
func (r *rig) whole(by Grouping, within Range) (answered int64, p50 float64) {
	for _, one := range r.History(Query{Metrics: []Metric{Whole}, By: by, Range: within}).Series {
		answered += one.Whole.Answered
		if one.Whole.Latency != nil {
			p50 = one.Whole.Latency.P50
		}
	}
	return answered, p50
}

// reopened returns a rig that starts anew at a time, with the history in a folder.
func reopened(t *testing.T, dir string, keys *seal.Keys, settings metrics.History, now time.Time) (*rig, *Archive) {
	t.Helper()
	r := newRig(t, "a")
	r.now = now
	a := r.keeps(dir, keys, settings)
	r.sample(now)
	return r, a
}

func TestTheHistoryOutlivesARestart(t *testing.T) {
	t.Parallel()
	keys, err := seal.New(strings.Repeat("k", 32), "")
	if err != nil {
		t.Fatal(err)
	}
	settings := metrics.DefaultSettings().History
	for name, keys := range map[string]*seal.Keys{"open": nil, "sealed": keys} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := newRig(t, "a")
			begun := r.now
			r.minutes(r.keeps(dir, keys, settings), 20)
			again, _ := reopened(t, dir, keys, settings, r.now.Add(10*time.Minute))
			for _, by := range []Grouping{Total, ByService, ByModel, ByInstance} {
				for _, within := range []Range{OneHour, OneDay, SevenDays, ThirtyDays} {
					n, p50 := again.whole(by, within)
					if n != 20 || p50 < 195 || p50 > 205 {
						t.Errorf("by %s, %s: %d requests, %v ms", by, within, n, p50)
					}
				}
			}
			h := again.History(Query{Metrics: []Metric{Requests}, By: Total, Range: OneDay})
			if h.StartedAt.After(begun) || h.StartedAt.Before(begun.Add(-10*time.Minute)) {
				t.Errorf("the history begins at %s, want about %s", h.StartedAt, begun)
			}
			if n, _ := again.whole(Total, FiveMinutes); n != 0 {
				t.Errorf("%d requests in the last five minutes", n)
			}
			files, _ := filepath.Glob(filepath.Join(dir, folder, "*"))
			for _, file := range files {
				if content, _ := os.ReadFile(file); strings.HasPrefix(string(content), "pbu1") != (keys != nil) {
					t.Errorf("%s begins with %q", file, content[:4])
				}
			}
		})
	}
}

// A crash costs the minute that was not saved, and a record that was cut.
func TestACrashCostsTheRunningMinute(t *testing.T) {
	t.Parallel()
	dir, settings := t.TempDir(), metrics.DefaultSettings().History
	r := newRig(t, "a")
	r.minutes(r.keeps(dir, nil, settings), 5)
	r.count("a", schema.ResultSuccess, time.Second)
	r.pass(20)
	again, _ := reopened(t, dir, nil, settings, r.now)
	if n, _ := again.whole(Total, OneDay); n != 5 {
		t.Errorf("%d requests, want 5", n)
	}
	files, _ := filepath.Glob(filepath.Join(dir, folder, "minutes-*"))
	content, err := os.ReadFile(files[0])
	if err != nil || os.WriteFile(files[0], content[:len(content)-3], 0o600) != nil {
		t.Fatal(err)
	}
	again, a := reopened(t, dir, nil, settings, r.now)
	again.minutes(a, 2)
	last, _ := reopened(t, dir, nil, settings, again.now)
	if n, _ := last.whole(Total, OneDay); n != 6 {
		t.Errorf("%d requests, want 4 from before the cut and 2 from after it", n)
	}
}

// Minutes are kept for a day, steps of ten minutes for longer, and the oldest makes room.
func TestTheHistoryIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	settings := metrics.History{Retention: schema.Duration(10 * 24 * time.Hour), MaxBytes: 256 * schema.MiB}
	r := newRig(t, "a")
	a := r.keeps(dir, nil, settings)
	begin := r.now.Truncate(24 * time.Hour)
	now := begin
	for ; now.Before(begin.Add(14 * 24 * time.Hour)); now = now.Add(30 * time.Minute) {
		for n := range a.logs {
			a.add(n, &past{Begin: now.Unix(), Watched: minute, Series: []pastSeries{{
				Key: pastKey{ByModel, "chat", "a"}, Totals: metrics.Totals{Outcomes: metrics.Outcomes{Answered: 1}},
				Cells: []uint32{uint32(metrics.BucketOf(time.Second))<<countBits | 1}}}})
		}
		a.expire(now)
	}
	for n, want := range [logCount][2]int{{24, 26}, {9, 11}} {
		a.logs[n].End()
		if files := len(a.logs[n].Files); files < want[0] || files > want[1] {
			t.Errorf("%d files of the log %s, want %v", files, logs[n].prefix, want)
		}
	}
	again, a := reopened(t, dir, nil, settings, now)
	if n, p50 := again.whole(ByModel, SevenDays); n < 7*48-2 || n > 7*48 || p50 < 950 || p50 > 1050 {
		t.Errorf("%d requests in seven days, %v ms", n, p50)
	}
	if n, _ := again.whole(ByModel, ThirtyDays); n < 10*48-2 || n > 11*48 {
		t.Errorf("%d requests in thirty days, and ten days are kept", n)
	}
	const most = 100_000
	a.options.Settings.MaxBytes = most
	a.expire(now)
	var size int64
	for _, one := range a.logs[ofTens].Files {
		size += one.Size
	}
	if size == 0 || size > most || !again.History(Query{Range: ThirtyDays}).StartedAt.After(begin.Add(24*time.Hour)) {
		t.Errorf("%d bytes", size)
	}
}

// A gateway that stops saves the running minute too.
func TestAStopSavesTheRunningMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, settings := t.TempDir(), metrics.DefaultSettings().History
		r := newRig(t, "a")
		r.now = time.Now()
		a := r.keeps(dir, nil, settings)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.Run(ctx) }()
		for range 3*60 + 20 {
			r.count("a", schema.ResultSuccess, time.Second)
			<-time.After(time.Second)
			r.sample(time.Now())
		}
		stop()
		<-done
		again, _ := reopened(t, dir, nil, settings, time.Now())
		if n, _ := again.whole(Total, OneDay); n != 200 {
			t.Errorf("%d requests, want 200", n)
		}
	})
}

// The files of a long range are read once in a minute, and the next minute is saved meanwhile.
func TestALongRangeIsReadOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	a := r.keeps(t.TempDir(), nil, metrics.DefaultSettings().History)
	r.minutes(a, 20)
	first := r.of(ThirtyDays)
	if again := r.of(ThirtyDays); again != first {
		t.Error("the files were read twice within a minute")
	}
	before := r.of(ThirtyDays)
	a.reading.Lock() // as if somebody read files for long
	r.minutes(a, 1)
	if begun := a.begun(r.now); !begun.Before(r.now) {
		t.Errorf("the history begins at %s", begun)
	}
	a.reading.Unlock()
	if n, _ := r.whole(Total, ThirtyDays); r.of(ThirtyDays) == before || n != 21 {
		t.Errorf("%d requests, want 21", n)
	}
}

// Readers of the faults do not see the paths of the gateway.
func TestAFaultOfTheHistoryHasNoPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, "a")
	a := r.keeps(dir, nil, metrics.DefaultSettings().History)
	told := ""
	a.options.Fault = func(_, text string) { told = text }
	if err := os.RemoveAll(filepath.Join(dir, folder)); err != nil {
		t.Fatal(err)
	}
	r.minutes(a, 1)
	if told == "" || strings.Contains(told, dir) {
		t.Errorf("the fault is %q", told)
	}
}

// A clock that was ahead for a time does not end the history.
func TestAClockThatWasAheadEndsNoHistory(t *testing.T) {
	t.Parallel()
	dir, settings := t.TempDir(), metrics.DefaultSettings().History
	r := newRig(t, "a")
	a := r.keeps(dir, nil, settings)
	r.minutes(a, 20)
	ahead := r.now.Add(100*24*time.Hour).Unix() / 600 * 600
	a.add(ofTens, &past{Begin: ahead, Watched: minute})
	again, a := reopened(t, dir, nil, settings, r.now.Add(10*time.Minute))
	again.minutes(a, 30)
	if n, _ := again.whole(ByModel, ThirtyDays); n != 50 {
		t.Errorf("%d requests in thirty days, want 50", n)
	}
	a.saved = [logCount]int64{ahead, ahead}
	again.minutes(a, 30)
	last, _ := reopened(t, dir, nil, settings, again.now)
	for within, least := range map[Range]int64{OneDay: 79, ThirtyDays: 70} {
		if n, _ := last.whole(ByModel, within); n < least || n > 80 {
			t.Errorf("%s: %d requests after a restart, want 80 but for those of one step", within, n)
		}
	}
}
