package proxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/scatter"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// manyInputs is a request for so many vectors of texts of different lengths.
func manyInputs(count int) string {
	var body strings.Builder
	body.WriteString(`{"model":"m","dimensions":4,"input":[`)
	for n := range count {
		if n > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, "%q", strings.Repeat("word ", 5+n*7%60)+fmt.Sprint(n))
	}
	body.WriteString("]}")
	return body.String()
}

// 2,048 inputs on four engines take less than a third of the time that one takes, and
// engines of different speeds are all used to the end.
func TestSharedWorkIsDoneSooner(t *testing.T) {
	const inputs = 2048
	usual := engine.Spec{Block: 16, Cache: 1 << 20, Token: 0.0001, Request: 0.005, Width: 1}
	slow := usual
	slow.Token *= 3
	for name, row := range map[string]struct {
		strategy balance.Strategy
		engines  []engine.Spec
		atLeast  float64
	}{
		"four equal ones":                            {balance.RoundRobin, []engine.Spec{usual, usual, usual, usual}, 3.8},
		"four equal ones, by their speed":            {balance.LeastTime, []engine.Spec{usual, usual, usual, usual}, 3.8},
		"two of which one takes three times as long": {balance.LeastTime, []engine.Spec{usual, slow}, 1}, // halves would take longer than one alone: 0.67,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, end := newClockwork(t, schema.Embedding, row.engines, func(s *config.Service) {
					s.LoadBalancer, s.Split = row.strategy, scatter.Settings{MaxSplit: 4}
				})
				defer end()
				one, endOne := newClockwork(t, schema.Embedding, []engine.Spec{usual}, func(*config.Service) {})
				defer endOne()
				body := manyInputs(inputs)
				if row.strategy == balance.LeastTime {
					var running sync.WaitGroup
					for range 3 * len(row.engines) { // so that all have something to do
						running.Go(func() {
							for range 100 { // the fleet learns how fast they are, whatever the order
								c.ask((*schema.Request).ParseEmbedding, manyInputs(20)) // too few to be shared
							}
						})
					}
					running.Wait()
				}
				alone, wanted := one.ask((*schema.Request).ParseEmbedding, body)
				shared, got := c.ask((*schema.Request).ParseEmbedding, body)
				if got != wanted {
					t.Errorf("got %.300s, want %.300s", got, wanted)
				}
				factor := float64(alone.Upstream) / float64(shared.Upstream)
				t.Logf("%v alone, %v shared by %d: %.2f times faster", alone.Upstream.Round(time.Millisecond), shared.Upstream.Round(time.Millisecond), shared.Pieces, factor)
				if factor < row.atLeast || shared.Pieces != len(row.engines) || alone.Pieces != 0 {
					t.Errorf("%.2f times faster, want at least %.2f; %d pieces", factor, row.atLeast, shared.Pieces)
				}
				if shared.Attempts != len(row.engines) {
					t.Errorf("%d attempts", shared.Attempts)
				}
			})
		})
	}
}

// A panic while a piece is handled is one of the request, and leaves nothing behind.
func TestAPanicInAPieceIsOneOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := engine.Spec{Block: 16, Cache: 1 << 20, Token: 0.001, Request: 0.005, Width: 1}
		c, end := newClockwork(t, schema.Embedding, []engine.Spec{spec, spec}, func(s *config.Service) {
			s.LoadBalancer, s.Split = balance.LeastTime, scatter.Settings{MaxSplit: 2}
		})
		defer end()
		second := c.instances()[1]
		second.Target.Adapter = nil // whoever reads its answer finds none
		func() {
			defer func() {
				if recover() == nil {
					t.Error("nothing was noticed")
				}
			}()
			c.ask((*schema.Request).ParseEmbedding, manyInputs(100))
		}()
		for n, i := range c.instances() {
			if i.InFlight() != 0 || i.Engine().Picture(time.Now()).Waiting != 0 {
				t.Errorf("instance %d has %d calls in flight", n, i.InFlight())
			}
		}
	})
}
