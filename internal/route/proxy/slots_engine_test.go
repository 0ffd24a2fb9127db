package proxy

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// What is learned of simulated engines of different capacity, through the proxy, is within 15 %
// of the best fixed number of slots.
func TestLearnedSlotsSuitEngines(t *testing.T) {
	const clients, tokens = 30, 40
	const learned, measured = 60 * time.Second, 30 * time.Second
	// score runs an engine with so many slots and returns what slots are learned for:
	// throughput, and the time per token half as much.
	score := func(t *testing.T, spec engine.Spec, limit backend.Concurrency) (got float64, slots int) {
		synctest.Test(t, func(t *testing.T) {
			c, end := newClockwork(t, schema.Chat, []engine.Spec{spec}, func(s *config.Service) {
				s.Queue.Size, s.Queue.Timeout, s.Instances[0].MaxConcurrency = clients, schema.Duration(time.Hour), limit
			})
			defer end()
			var written atomic.Int64
			var clientsDone sync.WaitGroup
			over := make(chan struct{})
			for n := range clients {
				body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":"client %d"}]}`, tokens, n)
				clientsDone.Go(func() {
					for {
						select {
						case <-over:
							return
						default:
						}
						c.ask((*schema.Request).ParseChat, body)
						written.Add(tokens)
					}
				})
			}
			<-time.After(learned)
			before, running, samples := written.Load(), 0, 0
			for began := time.Now(); time.Since(began) < measured; samples++ {
				<-time.After(100 * time.Millisecond)
				running += int(c.instances()[0].InFlight())
			}
			throughput := float64(written.Load()-before) / measured.Seconds()
			perToken := float64(running) / float64(samples) / throughput
			got, slots = throughput/math.Sqrt(perToken), int(c.instances()[0].InFlight())
			close(over)
			clientsDone.Wait()
		})
		return got, slots
	}
	for _, capacity := range []int{3, 10} {
		spec := engine.Spec{Block: 16, Cache: 1 << 20, Token: 0.0001, Request: 0.01, Decode: 0.04, Width: capacity, Slots: capacity}
		best, at := 0.0, 0
		for _, fixed := range []int{capacity / 2, capacity, capacity + 2, 2 * capacity} {
			if got, _ := score(t, spec, backend.Concurrency(fixed)); got > best {
				best, at = got, fixed
			}
		}
		got, slots := score(t, spec, backend.AutoConcurrency)
		t.Logf("an engine with %d slots: %d learned, %.0f %% of the best fixed number, which is %d", capacity, slots, 100*got/best, at)
		if got < 0.85*best {
			t.Errorf("an engine with %d slots: %.1f is learned with %d, and %.1f is possible with %d", capacity, got, slots, best, at)
		}
	}
}
