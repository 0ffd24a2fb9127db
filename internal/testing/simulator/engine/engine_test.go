package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// spec is an engine that needs a second for 100 tokens, and one for each request.
var spec = engine.Spec{Block: 10, Cache: 100, Token: 0.01, Request: 1, Decode: 0.5, Width: 1}

func job(tokens int, blocks ...uint64) *engine.Job {
	return &engine.Job{Model: "m", Tokens: tokens, Blocks: blocks}
}

// firsts returns when the first tokens of jobs come that are all there from the beginning.
func firsts(t *testing.T, e *engine.Engine, jobs ...*engine.Job) (at []float64) {
	t.Helper()
	number := map[*engine.Job]int{}
	for n, j := range jobs {
		number[j] = n
		e.Add(j, 0)
	}
	at = make([]float64, len(jobs))
	for j, due := e.Next(); j != nil; j, due = e.Next() {
		if j = e.First(); j != nil {
			at[number[j]] = due
			e.End(j, 1, due)
		}
	}
	return at
}

func TestPrefillsTakeTheTimeOfWhatIsNotCached(t *testing.T) {
	narrow, wide, slotted, loading := spec, spec, spec, spec
	wide.Width = 2
	slotted.Width, slotted.Slots = 2, 1
	loading.Room, loading.Load = 1, 5
	for _, c := range []struct {
		name string
		spec engine.Spec
		jobs []*engine.Job
		want []float64
	}{
		{"one after the other", narrow, []*engine.Job{job(100), job(100)}, []float64{2, 4}},
		{"what came before is cached", narrow, []*engine.Job{job(101, 1, 2, 3), job(101, 1, 2, 9)}, []float64{2.01, 2.01 + 1.81}},
		{"one token is read of a prompt that is all cached", narrow, []*engine.Job{job(20, 1, 2), job(20, 1, 2)}, []float64{1.2, 2.21}},
		{"two share the engine", wide, []*engine.Job{job(100), job(100)}, []float64{4, 4}},
		{"a slot is taken until the answer is complete", slotted, []*engine.Job{job(100), job(100)}, []float64{2, 4}},
		{"a model is loaded once", loading, []*engine.Job{job(100), job(100)}, []float64{7, 9}},
		{"what was not used for longest is forgotten", narrow, []*engine.Job{
			job(50, 1, 2, 3, 4, 5), job(100, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20), job(50, 1, 2, 3, 4, 5),
		}, []float64{1.5, 3.5, 5}},
	} {
		for n, at := range firsts(t, engine.New(c.spec), c.jobs...) {
			if diff := at - c.want[n]; diff > 1e-9 || diff < -1e-9 {
				t.Errorf("%s: first token %d came at %g, want %g", c.name, n, at, c.want[n])
			}
		}
	}
}

func TestRequestThatIsGivenUpMakesRoom(t *testing.T) {
	e := engine.New(spec)
	read, waits, last := job(100), job(100), job(100)
	e.Add(read, 0)
	e.Add(waits, 0)
	e.Add(last, 0)
	e.End(waits, 0, 1)
	e.End(read, 0, 1)
	if next, at := e.Next(); next != last || at != 3 {
		t.Errorf("next is %v at %g, want the last one at 3", next, at)
	}
}

func TestEngineThatIsEmptiedForgets(t *testing.T) {
	e := engine.New(spec)
	answered, waits := job(50, 1, 2, 3), job(50, 1, 2, 3)
	e.Add(answered, 0)
	e.Add(waits, 0)
	e.First()
	waiting, cut := e.Empty()
	if len(waiting) != 1 || waiting[0] != waits || len(cut) != 1 || cut[0] != answered {
		t.Errorf("%d waited and %d were cut off, want one of each", len(waiting), len(cut))
	}
	e.End(answered, 5, 10) // as its client notices
	e.Add(job(50, 1, 2, 3), 10)
	if next, at := e.Next(); next.Cached != 0 || at != 11.5 {
		t.Errorf("%d tokens were cached, first token at %g", next.Cached, at)
	}
	if e.Decoding() != 0 || e.Outputs != 0 {
		t.Errorf("%d answers are written, %d tokens were", e.Decoding(), e.Outputs)
	}
}

func TestLiveEngineKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := engine.NewLive(spec)
		defer l.Close()
		began := time.Now()
		first, second, third := job(100), job(100), job(100)
		ready := []<-chan struct{}{l.Add(first), l.Add(second), l.Add(third)}
		if s := l.State(); s.Waiting != 2 || s.Reading != 1 {
			t.Errorf("%d wait and %d are read", s.Waiting, s.Reading)
		}
		<-ready[0]
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the first token took %s", took)
		}
		if due, ok := l.Due(first, 3); !ok || due.Sub(began) != 3500*time.Millisecond {
			t.Errorf("the fourth token is due after %s", due.Sub(began))
		}
		l.End(first, 1)
		l.End(second, 0)
		<-ready[2]
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("the third request's first token took %s", took)
		}
		l.Slow(10)
		<-l.Add(job(100))
		if took := time.Since(began); took != 24*time.Second {
			t.Errorf("the slow engine's first token came after %s", took)
		}
	})
}

func TestLiveEngineThatRestartsLosesItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := engine.NewLive(spec)
		defer l.Close()
		answered, waits := job(100), job(100)
		<-l.Add(answered)
		ready := l.Add(waits)
		<-time.After(time.Second)
		l.Restart()
		<-ready
		for _, j := range []*engine.Job{answered, waits} {
			if _, ok := l.Due(j, 0); ok {
				t.Error("a request is answered that was lost")
			}
		}
		if s := l.State(); s.Waiting+s.Reading+s.Decoding != 0 || !s.Began.Equal(time.Now()) {
			t.Errorf("after a restart: %+v", s)
		}
	})
}
