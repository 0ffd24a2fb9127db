package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/balance"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator/engine"
)

// People who chat wait hardly longer for their first token because a batch runs beside them:
// the 99th percentile is at most 1.2 times that without, and the batch moves all the same.
func TestABatchBesideInteractiveTrafficDelaysItLittle(t *testing.T) {
	// A third of the slots is in use. Where three quarters are, with 50 ms, it is 1.6 times.
	const people, every = 600, 100 * time.Millisecond
	spec := engine.Spec{Block: 16, Cache: 1 << 20, Token: 0.0005, Request: 0.01, Decode: 0.02, Width: 16, Slots: 16}
	run := func(t *testing.T, lines string) (p99 time.Duration, ended int) {
		synctest.Test(t, func(t *testing.T) {
			c, end := newClockwork(t, schema.Chat, []engine.Spec{spec, spec}, func(s *config.Service) {
				s.LoadBalancer, s.Queue.Size, s.Queue.Timeout = balance.LeastTime, 1000, schema.Duration(time.Hour)
				for n := range s.Instances {
					s.Instances[n].MaxConcurrency = 16
				}
			})
			defer end()
			var batch, all sync.WaitGroup
			over, stop := context.WithCancel(context.Background())
			var mu sync.Mutex
			if lines != "" {
				for n := range 4 { // as many as two instances take at a time
					batch.Go(func() {
						for number := n; over.Err() == nil; number += 4 {
							if c.AwaitSpare(over, schema.Chat, "m", "owner") != nil {
								return
							}
							c.askSpare(over, fmt.Sprintf(lines, number))
							mu.Lock()
							ended++
							mu.Unlock()
						}
					})
				}
			}
			random := rand.New(rand.NewPCG(1, 2))
			var waits []time.Duration
			for n := range people {
				<-time.After(time.Duration(random.ExpFloat64() * float64(every)))
				all.Go(func() {
					record, _ := c.ask((*schema.Request).ParseChat, fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":60,"ignore_eos":true,"messages":[{"role":"user","content":"person %d says something"}]}`, n))
					mu.Lock()
					defer mu.Unlock()
					waits = append(waits, record.FirstToken)
				})
			}
			all.Wait()
			stop()
			batch.Wait()
			slices.Sort(waits)
			p99 = waits[len(waits)*99/100]
		})
		return p99, ended
	}
	alone, _ := run(t, "")
	beside, ended := run(t, `{"model":"m","stream":true,"max_tokens":100,"ignore_eos":true,"messages":[{"role":"user","content":"line %d of a batch"}]}`)
	t.Logf("first tokens at the 99th percentile: %s alone, %s beside a batch, of which %d lines ended", alone, beside, ended)
	if float64(beside) > 1.2*float64(alone) || ended < 20 {
		t.Errorf("first tokens at the 99th percentile: %s alone, %s beside a batch, of which %d lines ended", alone, beside, ended)
	}
}

// askSpare sends a line of a batch.
func (c *clockwork) askSpare(ctx context.Context, body string) {
	req, record := new(schema.Request), newRecord()
	if err := req.ParseChat([]byte(body)); err != nil {
		c.t.Error(err)
		return
	}
	record.Service, record.Door = req.Service, req.Door
	if err := c.Do(ctx, &Request{Asks: req, Caller: &access.Caller{KeyID: "owner"}, Record: record, Class: schema.Spare}, newClientConn()); err != nil && ctx.Err() == nil {
		c.t.Error(err)
	}
}
