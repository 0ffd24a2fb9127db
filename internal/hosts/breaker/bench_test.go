package breaker

import (
	"testing"
	"time"
)

func pass(b *Breaker, now time.Time) {
	if !b.Ready(now) {
		return
	}
	if permit, ok := b.Acquire(now); ok {
		b.Done(permit, Success, now)
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	now := time.Now()
	keyed := New(DefaultSettings(), now, nil)
	closed, open := New(DefaultSettings(), now, nil), tripped(DefaultSettings())
	fail := func() {
		permit, _ := closed.Acquire(now)
		closed.Done(permit, Failure, now)
		pass(closed, now)
	}
	for name, f := range map[string]func(){
		"closed":   func() { pass(closed, now) },
		"open":     func() { pass(open, now) },
		"failures": fail,
		"keys": func() {
			for _, key := range []string{"a", "b", "c"} {
				permit, _ := keyed.Acquire(now)
				permit.Key = key
				keyed.Done(permit, Success, now)
				keyed.Done(permit, Errored, now)
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkClosed(b *testing.B) {
	now := time.Now()
	br := New(DefaultSettings(), now, nil)
	b.ReportAllocs()
	for b.Loop() {
		pass(br, now)
	}
}

func BenchmarkClosedParallel(b *testing.B) {
	now := time.Now()
	br := New(DefaultSettings(), now, nil)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			pass(br, now)
		}
	})
}

func BenchmarkOpenReadyParallel(b *testing.B) {
	br := tripped(DefaultSettings())
	now := time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			br.Ready(now)
		}
	})
}

// BenchmarkFailing is the worst case: every call takes the lock.
func BenchmarkFailing(b *testing.B) {
	now := time.Now()
	settings := DefaultSettings()
	settings.FailureThreshold = 1 << 60
	br := New(settings, now, nil)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			permit, _ := br.Acquire(now)
			br.Done(permit, Failure, now)
		}
	})
}
