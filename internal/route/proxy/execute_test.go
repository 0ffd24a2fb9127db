package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
	"github.com/patchbay-ai/patchbay/internal/route/scatter"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// outcomes are the ways in which instances count the end of a call: all failures are one.
var outcomes = [...]breaker.Outcome{breaker.Success, breaker.Failure, breaker.Cancelled}

// misbehave makes the next calls of all engines fail, break off, take long or hang, at random.
func (c *clockwork) misbehave(random *rand.Rand) {
	for _, b := range c.engines {
		steps := make([]simulator.Step, random.IntN(12))
		for n := range steps {
			steps[n] = [...]simulator.Step{
				{}, {Status: 500}, {Status: 400}, {Status: 429}, {Hang: true}, {HeaderDelay: time.Duration(random.IntN(2000)) * time.Millisecond},
				{Stop: simulator.StopClose, After: random.IntN(4)}, {Body: "no answer"},
			}[random.IntN(8)]
		}
		b.Script(steps...)
	}
}

// askRandomly sends a request, whose client may leave, and returns its record and what it got.
func (c *clockwork) askRandomly(random *rand.Rand, leaves bool, body string) (*calls.Record, string, error) {
	req, record, to := new(schema.Request), newRecord(), newClientConn()
	parse := (*schema.Request).ParseEmbedding
	if c.service == schema.Chat {
		parse = (*schema.Request).ParseChat
	}
	if err := parse(req, []byte(body)); err != nil {
		c.t.Fatal(err)
	}
	record.Service, record.Door = req.Service, req.Door
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if leaves {
		timer := time.AfterFunc(time.Duration(random.IntN(3000))*time.Millisecond, cancel)
		defer timer.Stop()
	}
	err := c.Do(ctx, &Request{Asks: req, Caller: &access.Caller{}, Record: record}, to)
	text := ""
	for _, sent := range to.got() {
		text += sent.text
	}
	return record, text + to.held.String(), err
}

// Whatever becomes of the calls of random plans, with retries, second calls, pieces, answers that
// are resumed and clients that leave: every instance is told of each call that was made, once,
// has its slot back and no call in the picture of the fleet, and a request that is answered has
// one whole answer.
func TestRandomPlansGiveEverythingBackOnce(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			service := [...]schema.ServiceType{schema.Embedding, schema.Chat}[seed%2]
			engines := make([]engine.Spec, 2+random.IntN(3))
			for n := range engines {
				engines[n] = hedgedEngine
			}
			c, end := newClockwork(t, service, engines, func(s *config.Service) {
				s.LoadBalancer = balance.Strategy(random.IntN(5))
				if service == schema.Embedding {
					s.Hedge.Enabled, s.Split = true, scatter.Settings{MaxSplit: 1 + random.IntN(3), MinInputs: 2, MinTokens: 1}
				} else {
					s.Streams.Resume = resume.Continue
				}
				s.Timeouts.FirstByte = schema.Duration(time.Second)
				for n := range s.Instances {
					s.Instances[n].MaxConcurrency = 2
				}
				s.Queue.Size = random.IntN(2) * 10
			})
			defer end()
			if service == schema.Embedding {
				c.learnAll()
			}
			before := c.told()
			c.misbehave(random)
			var mu sync.Mutex
			var running sync.WaitGroup
			var attempts int64
			for n := range 12 {
				<-time.After(time.Duration(random.IntN(300)) * time.Millisecond)
				body, inputs := hedgedRequest(random), 1
				if service == schema.Chat {
					body = fmt.Sprintf(`{"model":"m","stream":true,"temperature":0,"messages":[{"role":"user","content":"%d"}]}`, n)
				} else if random.IntN(2) == 0 {
					inputs = 20
					body = manyInputs(inputs)
				}
				leaves, own := random.IntN(5) == 0, rand.New(rand.NewPCG(seed, uint64(n)))
				running.Go(func() {
					record, text, err := c.askRandomly(own, leaves, body)
					mu.Lock()
					defer mu.Unlock()
					attempts += int64(record.Attempts)
					note(seen, record)
					if err != nil && text != "" && !errors.Is(err, ErrBrokenOff) {
						t.Errorf("seed %d: %v, and an answer: %s", seed, err, text)
					}
					if err != nil || record.Code != "" {
						return
					}
					if service == schema.Embedding && strings.Count(text, `"index":`) != inputs ||
						service == schema.Chat && strings.Count(text, "data: [DONE]") != 1 {
						t.Errorf("seed %d: %d inputs, code %q, the answer is %s", seed, inputs, record.Code, text)
					}
				})
			}
			running.Wait()
			if told := c.told() - before; told != attempts {
				t.Errorf("seed %d: instances were told of %d calls, %d were made", seed, told, attempts)
			}
			for n, i := range c.instances() {
				if i.InFlight() != 0 || i.Engine() != nil && i.Engine().Picture(time.Now()).Waiting != 0 {
					t.Errorf("seed %d: instance %d has %d calls in flight", seed, n, i.InFlight())
				}
			}
			if budget := &c.retryBudgets[service]; budget.inFlight.Load() != 0 || budget.retries.Load() != 0 {
				t.Errorf("seed %d: %d requests and %d retries are in flight", seed, budget.inFlight.Load(), budget.retries.Load())
			}
		})
	}
	for _, plan := range []string{"failed over", "second won", "second lost", "split", "resumed", "gone"} {
		if seen[plan] == 0 {
			t.Errorf("no request was %s", plan)
		}
	}
	t.Logf("%v", seen)
}

// told returns how many calls the instances were told the end of.
func (c *clockwork) told() (all int64) {
	for _, i := range c.instances() {
		for _, outcome := range outcomes {
			all += i.Ended(outcome)
		}
	}
	return all
}

// note counts which plans a request had.
func note(seen map[string]int, record *calls.Record) {
	for name, had := range map[string]bool{
		"failed over": record.Attempts > 1 && record.Pieces == 0, "second won": record.Hedge == metrics.HedgeWon,
		"second lost": record.Hedge == metrics.HedgeLost, "split": record.Pieces > 1, "resumed": record.Resumed > 0,
		"gone": record.Gone,
	} {
		if had {
			seen[name]++
		}
	}
}
