// This file belongs to the wing runs.

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// runTeam is a run at three gateways in processes of their own, which share Redis and the
// configuration, beside a plain model: how much it may use and what its client got.
type runTeam struct {
	t        *testing.T
	redis    *storetest.Server
	args     [3][]string
	gateways [3]*child
	limit    int64
	answered atomic.Int64
	history  []string
}

func newRunTeam(t *testing.T, limit int64) *runTeam {
	t.Helper()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Body: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":30,"total_tokens":40}}`})
	team := &runTeam{t: t, redis: storetest.Redis(t), limit: limit}
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.PoolYAML(b)+fmt.Sprintf("runs: {enabled: true, loops: {repeats: 0}, limits: {tokens: %d}}\nredis: {url: %s}\nstore: {config: %s}\nlog: {access: false}\nquota: {flush-interval-seconds: 1, distributed: {enabled: true, timeout: 2s}}\n",
		limit, gatewaytest.Quote(team.redis.URL), gatewaytest.Quote(storetest.Postgres(t).URL)))
	for n := range team.gateways {
		team.args[n] = []string{"--config", file, "--data-dir", t.TempDir()}
		team.gateways[n] = serving(t, team.args[n]...)
	}
	for _, c := range team.gateways {
		c.waitFor(`"gateways":3`)
	}
	return team
}

// ask has clients ask so many times each, at gateways by chance, and reports whether any of them found
// the limit used up.
func (r *runTeam) ask(clients, each int) (isUsedUp bool) {
	var all sync.WaitGroup
	var refused atomic.Bool
	for range clients {
		all.Go(func() {
			for range each {
				switch askWithin(r.t, r.gateways[rand.N(len(r.gateways))].url(), "task") {
				case http.StatusOK:
					r.answered.Add(1)
				case http.StatusBadRequest:
					refused.Store(true)
				}
			}
		})
	}
	all.Wait()
	return refused.Load()
}

// check compares what was answered with the limit.
func (r *runTeam) check() {
	r.t.Helper()
	if spent := r.answered.Load() * requestCost; spent > r.limit {
		r.t.Fatalf("%d tokens of %d are spent after %s", spent, r.limit, strings.Join(r.history, ", "))
	}
}

// settle waits until all gateways know of the same use, of all answers at least.
func (r *runTeam) settle() {
	r.t.Helper()
	gatewaytest.Eventually(r.t, "the gateways agree about the run", func() bool {
		var known [3]agentRun
		for n, c := range r.gateways {
			known[n] = c.agentRun("task")
		}
		return known[0].Used == known[1].Used && known[1].Used == known[2].Used && known[0].Limits == known[1].Limits &&
			known[1].Limits == known[2].Limits && known[0].Used.Tokens >= r.answered.Load()*requestCost
	})
}

// kill kills one gateway while clients ask, and starts it again. Clients ask on when it knows what the others
// know: docs/quota.md gives it a second for that, and a busy machine needs longer.
func (r *runTeam) kill(n int) {
	var asking sync.WaitGroup
	asking.Go(func() { r.ask(3, 5) })
	<-time.After(rand.N(30 * time.Millisecond))
	r.gateways[n].kill()
	asking.Wait()
	r.gateways[n] = serving(r.t, r.args[n]...)
	r.gateways[n].waitFor("the number of gateways that share Redis has changed")
	r.settle()
}

// allSay waits until the log of each gateway has one more line with this part than it had.
func (r *runTeam) allSay(part string, before [3]int) {
	r.t.Helper()
	for n, c := range r.gateways {
		gatewaytest.Eventually(r.t, "a gateway says "+part, func() bool { return strings.Count(c.stderr.String(), part) > before[n] })
	}
}

// outage takes Redis away, from gateways that agree, and gives it back empty. All of them are to find it
// before the next fault: docs/quota.md promises nothing of a gateway that starts before others have told
// an empty Redis what they know.
func (r *runTeam) outage() {
	const away, back = "what gateways share cannot be reached", "what gateways share is exact again"
	var gone, found [3]int
	for n, c := range r.gateways {
		gone[n], found[n] = strings.Count(c.stderr.String(), away), strings.Count(c.stderr.String(), back)
	}
	r.settle()
	r.redis.Kill()
	r.ask(3, 5)
	r.allSay(away, gone)
	r.ask(3, 5)
	r.check()
	r.redis.Start()
	r.ask(3, 3)
	r.allSay(back, found)
	r.settle()
}

// TestRunOverThreeGatewaysInRandomHistories: what a run may use is kept over three gateways and a real
// Redis, through requests, raises, killed gateways and outages by chance; all of it can be used in the
// end. PATCHBAY_RUN_ROUNDS makes it longer, and PATCHBAY_RUN_SEED repeats a history as far as the
// machine does.
func TestRunOverThreeGatewaysInRandomHistories(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections) //nolint:forbidigo // a test's client
	rounds := 10
	if more, err := strconv.Atoi(os.Getenv("PATCHBAY_RUN_ROUNDS")); err == nil {
		rounds = more
	}
	seed := uint64(time.Now().UnixNano())
	if known, err := strconv.ParseUint(os.Getenv("PATCHBAY_RUN_SEED"), 10, 64); err == nil {
		seed = known
	}
	t.Logf("seed %d", seed)
	by := rand.New(rand.NewPCG(seed, 0))
	r := newRunTeam(t, 2000)
	r.ask(1, 3)
	// Each round of the usual ones has one outage and one killed gateway at least.
	for round := range rounds {
		action := by.IntN(10)
		if round < 2 {
			action = round
		}
		switch action {
		case 0:
			r.history = append(r.history, "an outage")
			r.outage()
		case 1, 2:
			r.history = append(r.history, "a kill")
			r.kill(by.IntN(3))
		case 3, 4:
			r.history = append(r.history, "a raise")
			more := int64(by.IntN(500))
			c := r.gateways[by.IntN(3)]
			c.ask(http.MethodPost, "/api/runs/"+c.agentRun("task").ID+"/raise", fmt.Sprintf(`{"tokens":%d}`, more)).Succeeds(t)
			r.limit += more
		default:
			r.history = append(r.history, "requests")
			r.ask(by.IntN(4)+1, by.IntN(8)+1)
		}
		r.check()
	}
	r.settle() // a gateway that has not heard of a raise refuses for good
	gatewaytest.Eventually(t, "all of the limit can be used", func() bool { return r.ask(1, 10) })
	r.check()
	r.settle()
	found := r.gateways[0].agentRun("task")
	t.Logf("%d answers, %d of %d tokens used, after %s", r.answered.Load(), found.Used.Tokens, r.limit, strings.Join(r.history, ", "))
	if found.Used.Tokens > r.limit || found.Limits.Tokens != r.limit || found.Used.Tokens < r.limit-mostReservation {
		t.Errorf("%+v, want all of %d used", found, r.limit)
	}
}
