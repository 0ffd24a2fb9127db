package main

import (
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// Beyond max-in-flight requests are turned away at once, while those that run go
// on undisturbed; p99 of the refusals is under 50 ms.
func TestOverloadIsShedEarly(t *testing.T) {
	held := startGate(t)
	r := startGateway(t, chatYAML(instance("m", held.url))+"limits: {max-in-flight: 20}\n")
	var running []*eventReader
	for range 20 {
		running = append(running, r.stream(deadline(t), streamHi))
		<-held.entered
	}
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 50 {
				began := time.Now()
				refused := r.try(deadline(t), plainHi)
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				if refused.status != http.StatusServiceUnavailable || refused.header.Get("Retry-After") != "1" || refused.header.Get("X-Should-Retry") != "" {
					t.Errorf("status %d, %v: %s", refused.status, refused.err, refused.body)
					return
				}
			}
		})
	}
	all.Wait()
	r.chat(plainHi).failsWith(t, 503, "service_unavailable", "overloaded", "")
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("%d refusals: p50 %v, p99 %v", len(took), took[len(took)/2], p99)
	if p99 > 50*time.Millisecond {
		t.Errorf("p99 of the refusals is %v", p99)
	}
	close(held.open)
	for _, stream := range running {
		if events, err := stream.rest(); err != nil || events[len(events)-1] != "[DONE]" {
			t.Errorf("a stream ended with %v, %v", events, err)
		}
	}
	// There is room again, and a health check never needed any.
	eventually(t, "there is room", func() bool { return r.try(deadline(t), streamHi).status == http.StatusOK })
}

// At three times the capacity the backend is as busy with useful work as at its
// peak: what is too much is refused before it costs anything.
func TestGoodputAtThreeTimesTheCapacity(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three seconds")
	}
	const slots, service, run = 8, 40 * time.Millisecond, 1200 * time.Millisecond
	b := startBackend(t)
	b.ScriptForever(simulator.Step{HeaderDelay: service})
	r := startGateway(t, slotsYAML(b, slots, "size: 8, timeout: 1s"))
	ctx := deadline(t)
	// The peak: as many callers as there are slots, each asking again at once.
	var peak atomic.Int64
	end := time.Now().Add(run)
	var all sync.WaitGroup
	for range slots {
		all.Go(func() {
			for time.Now().Before(end) {
				if r.try(ctx, plainHi).status == http.StatusOK {
					peak.Add(1)
				}
			}
		})
	}
	all.Wait()
	// The flood: requests come at three times that rate, whoever is served.
	var good, refused atomic.Int64
	rate := 3 * float64(peak.Load()) / run.Seconds()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	sent := 0
	for time.Since(began) < run {
		<-tick.C
		for due := int(rate * time.Since(began).Seconds()); sent < due; sent++ {
			all.Go(func() {
				switch r.try(ctx, plainHi).status {
				case http.StatusOK:
					good.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				}
			})
		}
	}
	all.Wait()
	took := time.Since(began)
	goodput, atPeak := float64(good.Load())/took.Seconds(), float64(peak.Load())/run.Seconds()
	t.Logf("peak %.0f/s; at three times that: goodput %.0f/s (%.0f %%), %d of %d refused", atPeak, goodput, 100*goodput/atPeak, refused.Load(), sent)
	if goodput < 0.9*atPeak {
		t.Errorf("goodput fell from %.0f/s to %.0f/s", atPeak, goodput)
	}
	if refused.Load()+good.Load() != int64(sent) || refused.Load() < int64(sent)/3 {
		t.Errorf("%d sent, %d good, %d refused", sent, good.Load(), refused.Load())
	}
}

// When memory is short new requests are turned away; what runs ends well.
func TestShortMemoryIsShed(t *testing.T) {
	held := startGate(t)
	limit := debug.SetMemoryLimit(-1)
	r := startGateway(t, chatYAML(instance("m", held.url))+"limits: {memory: 1MiB}\n") // less than any program has
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	debug.SetMemoryLimit(math.MaxInt64) // the collector need not suffer for it
	eventually(t, "memory is short", r.memory.Short)
	refused := r.chat(plainHi)
	refused.failsWith(t, 503, "service_unavailable", "overloaded", "")
	if refused.retryOf(t) != time.Second || len(held.entered) != 0 {
		t.Errorf("headers %v, %d reached the backend", refused.header, len(held.entered))
	}
	if got := r.do(http.MethodGet, "/actuator/health/liveness", "").status; got != http.StatusOK {
		t.Errorf("liveness %d", got)
	}
}
