package proxy

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// beside is a batch beside interactive requests at simulated engines.
type beside struct {
	name    string
	engines int
	slots   int // of each engine
	spec    engine.Spec
	// perSecond is how many interactive requests come.
	perSecond float64
	// tokens and outputs are those of an interactive request, on average, and lineTokens and
	// lineOutputs those of a line.
	tokens, outputs, lineTokens, lineOutputs int
	// The batch has so many lines, or lasts for as long where it has none.
	lines int
	lasts time.Duration
}

// observed is what a run saw.
type observed struct {
	waits []time.Duration // of interactive requests for their first tokens
	lines int             // that ended
	took  time.Duration
}

// run lets interactive requests come for as long as the batch lasts, or for a time where there
// is none.
func (b *beside) run(t *testing.T, withBatch bool, lasts time.Duration) (saw observed) {
	d := newDesk(t, b.engines, func(s *config.Service) {
		s.LoadBalancer, s.Queue = balance.LeastTime, waiting(100_000, time.Hour)
		for n := range s.Instances {
			s.Instances[n].MaxConcurrency = backend.Concurrency(b.slots)
		}
	})
	known := fleet.New(fleet.Options{}, time.Now())
	var engines []*engine.Live
	for _, i := range d.pool().Instances {
		i.Join(known)
		live := engine.NewLive(b.spec)
		t.Cleanup(live.Close)
		engines = append(engines, live)
	}
	serve := func(r *run, tokens, outputs int) time.Time {
		r.choice.noteCall(r.attempt.instance)
		at := engines[r.attempt.instance.Position]
		job := &engine.Job{Model: "m", Tokens: tokens}
		<-at.Add(job)
		first := time.Now()
		if r.attempt.followed != nil {
			r.attempt.followed.First(first)
		}
		if outputs > 0 {
			<-time.After(time.Duration(float64(outputs) * b.spec.Decode * float64(time.Second)))
		}
		at.End(job, outputs)
		r.release(breaker.Success)
		r.end(false)
		return first
	}
	ctx, began := context.Background(), time.Now()
	var all sync.WaitGroup
	var begun, running, ended atomic.Int64
	over, end := context.WithCancel(ctx)
	defer end()
	if lasts > 0 {
		time.AfterFunc(lasts, end)
	}
	if withBatch {
		var workers sync.WaitGroup
		for range d.pool().SpareSlots() {
			workers.Go(func() {
				for b.lines == 0 || begun.Add(1) <= int64(b.lines) {
					var r *run
					for err := error(nil); r == nil || err != nil; {
						if over.Err() != nil {
							return // the time is over
						}
						if r != nil { // it missed its slot
							running.Add(-1)
							<-time.After(100 * time.Millisecond)
						}
						d.AwaitSpareSlot(over, schema.Chat, "m", func() int { return int(running.Load()) })
						running.Add(1)
						r = d.spare(200)
						streamed(t, r)
						err = r.choice.pick(over, &r.attempt)
					}
					serve(r, b.lineTokens, b.lineOutputs)
					running.Add(-1)
					ended.Add(1)
				}
			})
		}
		all.Go(func() {
			workers.Wait()
			end()
		})
	}
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	for open := true; open; {
		gap := time.Duration(random.ExpFloat64() / b.perSecond * float64(time.Second))
		tokens, outputs := int(random.ExpFloat64()*float64(b.tokens))+1, int(random.ExpFloat64()*float64(b.outputs))
		select {
		case <-over.Done():
			open = false
			continue
		case <-time.After(gap):
		}
		all.Go(func() {
			came := time.Now()
			r := d.request(1 + tokens%50)
			r.Class = schema.Interactive
			streamed(t, r)
			if err := r.choice.pick(ctx, &r.attempt); err != nil {
				t.Error(err)
				return
			}
			first := serve(r, tokens, outputs)
			mu.Lock()
			defer mu.Unlock()
			saw.waits = append(saw.waits, first.Sub(came))
		})
	}
	saw.took, saw.lines = time.Since(began), int(ended.Load())
	all.Wait()
	return saw
}

// streamed gives a request a body that asks for a stream.
func streamed(t *testing.T, r *run) {
	if err := r.Asks.ParseChat([]byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)); err != nil {
		t.Error(err)
	}
}

func p99(waits []time.Duration) time.Duration {
	slices.Sort(waits)
	return waits[len(waits)*99/100]
}

// Interactive requests wait hardly longer because a batch runs beside them. With
// PATCHBAY_BATCH_GAINS the batches have 100,000 embeddings and 20,000 chats.
func TestABatchBesideInteractiveRequests(t *testing.T) {
	cases := []beside{
		{
			name: "embeddings", engines: 2, slots: 16, spec: engine.Spec{Block: 16, Cache: 1 << 12, Token: 0.00004, Request: 0.002, Width: 1},
			perSecond: 60, tokens: 400, lineTokens: 256, lines: 4_000,
		},
		{
			name: "chats", engines: 4, slots: 16, spec: engine.Spec{Block: 16, Cache: 1 << 16, Token: 0.0002, Request: 0.01, Decode: 0.02, Width: 1, Drag: 0.01},
			perSecond: 9, tokens: 1000, outputs: 150, lineTokens: 400, lineOutputs: 200, lines: 1_200,
		},
		{
			name: "chats at a third", engines: 2, slots: 16, spec: engine.Spec{Block: 16, Cache: 1 << 16, Token: 0.0005, Request: 0.01, Decode: 0.02, Width: 1},
			perSecond: 9, tokens: 20, outputs: 60, lineTokens: 20, lineOutputs: 100, lines: 1_200,
		},
		{
			name: "chats at three quarters", engines: 2, slots: 16, spec: engine.Spec{Block: 16, Cache: 1 << 16, Token: 0.0005, Request: 0.01, Decode: 0.02, Width: 1},
			perSecond: 20, tokens: 20, outputs: 60, lineTokens: 20, lineOutputs: 100, lasts: 10 * time.Minute,
		},
	}
	if os.Getenv("PATCHBAY_BATCH_GAINS") != "" {
		cases[0].lines, cases[1].lines = 100_000, 20_000
	}
	for _, b := range cases {
		t.Run(b.name, func(t *testing.T) {
			var with, without observed
			synctest.Test(t, func(t *testing.T) { with = b.run(t, true, b.lasts) })
			synctest.Test(t, func(t *testing.T) { without = b.run(t, false, with.took) })
			ratio := float64(p99(with.waits)) / float64(p99(without.waits))
			t.Logf("%d lines in %v (%.1f a second) beside %d interactive requests: p99 of the wait for the first token %v, without the batch %v: %.2f times",
				with.lines, with.took.Round(time.Second), float64(with.lines)/with.took.Seconds(), len(with.waits), p99(with.waits).Round(time.Millisecond),
				p99(without.waits).Round(time.Millisecond), ratio)
			if ratio > 1.2 || with.lines < 20 {
				t.Errorf("p99 is %.2f times that without the batch, of which %d lines ended", ratio, with.lines)
			}
		})
	}
}
