// This file belongs to the wing runs.

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// agentRun is a run as the process shows it.
type agentRun struct {
	ID, Name, State string
	Used            struct{ Tokens, Requests int64 }
	Limits          struct{ Tokens int64 }
}

// agentRun returns the run with a name, which another gateway may have to tell of.
func (c *child) agentRun(name string) (found agentRun) {
	c.t.Helper()
	gatewaytest.Eventually(c.t, "the run is listed", func() bool {
		answer := c.ask(http.MethodGet, "/api/runs?search="+name, "")
		var reply struct {
			Data []agentRun `json:"data"`
		}
		err := json.Unmarshal([]byte(answer.Body), &reply, json.MatchCaseInsensitiveNames(true))
		if err != nil || answer.Status != http.StatusOK || len(reply.Data) > 1 {
			c.t.Fatalf("%d %v %s", answer.Status, err, answer.Body)
		}
		if len(reply.Data) == 1 {
			found = reply.Data[0]
		}
		return len(reply.Data) == 1
	})
	return found
}

// askWithin sends a request of a run, and returns 0 where no whole answer came.
func askWithin(t *testing.T, base, run string) (status int) {
	body := strings.NewReader(gatewaytest.With(`"max_tokens":40`))
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), http.MethodPost, base+"/v1/chat/completions", body)
	if err != nil {
		return 0
	}
	request.Header.Set("X-Router-Run", run)
	response, err := http.DefaultClient.Do(request) //nolint:forbidigo // a test's client
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}

// TestRunsSurviveKill kills a gateway at random moments while a run is under way, just after it was
// raised, and just after another one was ended. Each answer is counted after the restart, all answers
// together cost no more than the limit and its raises, and the ended run stays ended.
func TestRunsSurviveKill(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections) //nolint:forbidigo // a test's client
	const limit, raise, cost = 4000, 1000, 40
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Body: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":30,"total_tokens":40}}`})
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.PoolYAML(b)+fmt.Sprintf("runs: {enabled: true, limits: {tokens: %d}}\n", limit))
	args := []string{
		"--config", file, "--data-dir", t.TempDir(), "--set", "quota.flush-interval-seconds=1", "--set", "log.access=false",
	}
	var answered, refused atomic.Int64
	ask := func(base string) bool {
		switch askWithin(t, base, "task") {
		case http.StatusOK:
			answered.Add(1)
			return true
		case http.StatusTooManyRequests: // others have reserved the rest
			return true
		case http.StatusBadRequest:
			refused.Add(1)
		}
		return false
	}
	rounds, raised := killRounds(4), int64(0)
	for round := range rounds {
		c := serving(t, args...)
		base, before := c.url(), answered.Load()+refused.Load()
		if round > 0 {
			found := c.agentRun("task")
			if found.Used.Tokens < answered.Load()*cost || found.Limits.Tokens != limit+raised {
				t.Fatalf("%+v after a kill, although %d answers came and %d were added", found, answered.Load(), raised)
			}
			if ended := c.agentRun("other"); ended.State != "ENDED" || askWithin(t, base, "other") != http.StatusBadRequest {
				t.Fatalf("an ended run goes on after a kill: %+v", ended)
			}
		}
		var clients sync.WaitGroup
		for range 3 {
			clients.Go(func() {
				for range 30 {
					if !ask(base) {
						return
					}
				}
			})
		}
		gatewaytest.Eventually(t, "there is traffic", func() bool { return answered.Load()+refused.Load() > before })
		if round == 0 {
			if status := askWithin(t, base, "other"); status != http.StatusOK {
				t.Fatal(status)
			}
			c.ask(http.MethodPost, "/api/runs/"+c.agentRun("other").ID+"/end", "").Succeeds(t)
		}
		<-time.After(rand.N(200 * time.Millisecond))
		c.ask(http.MethodPost, "/api/runs/"+c.agentRun("task").ID+"/raise", fmt.Sprintf(`{"tokens":%d}`, raise)).Succeeds(t)
		raised += raise
		c.kill()
		clients.Wait()
	}
	c := serving(t, args...)
	for ask(c.url()) {
	}
	spent := answered.Load() * cost
	t.Logf("%d tokens of %d are spent", spent, limit+raised)
	if spent > limit+raised || spent < limit/2 || refused.Load() == 0 {
		t.Errorf("%d tokens of %d are spent, %d requests refused", spent, limit+raised, refused.Load())
	}
	if found := c.agentRun("task"); found.State != "STOPPED" || found.Used.Tokens > limit+raised {
		t.Errorf("%+v", found)
	}
}
