package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// TestBudgetsSurviveKill kills a gateway at random moments under load until a budget is
// used up: no more answers come than the budget has, over all processes, and the one after
// the last refuses.
func TestBudgetsSurviveKill(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections) //nolint:forbidigo // a test's client
	const budget, cost = 10_000, 40
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Body: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":30,"total_tokens":40}}`})
	args := []string{
		"--data-dir", t.TempDir(), "--set", "quota.flush-interval-seconds=1", "--set", "log.access=false", "--set", "security.enabled=true",
		"--set", fmt.Sprintf("security.keys=[{id: k, key-sha256: %s, budgets: {total: {tokens: %d}}}]", gatewaytest.HashOf("secret"), budget),
		"--set", "services.chat.instances=[{name: m, base-url: '" + b.URL() + "'}]",
	}
	var answered, refused atomic.Int64
	ask := func(base string) bool {
		request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), http.MethodPost, base+"/v1/chat/completions", strings.NewReader(gatewaytest.With(`"max_tokens":40`)))
		if err != nil {
			return false
		}
		request.Header.Set("Authorization", "Bearer secret")
		response, err := http.DefaultClient.Do(request) //nolint:forbidigo // a test's client
		if err != nil {
			return false
		}
		defer response.Body.Close()
		_, err = io.ReadAll(response.Body)
		switch {
		case err != nil:
			return false
		case response.StatusCode == http.StatusOK:
			answered.Add(1)
		case response.StatusCode == http.StatusTooManyRequests:
			refused.Add(1)
			return false
		}
		return true
	}
	for range killRounds(4) {
		c := serving(t, args...)
		base, before := c.url(), answered.Load()+refused.Load()
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
		<-time.After(rand.N(200 * time.Millisecond))
		c.kill()
		clients.Wait()
	}
	c := serving(t, args...)
	for ask(c.url()) {
	}
	spent := answered.Load() * cost
	t.Logf("%d tokens of %d are spent", spent, budget)
	if spent > budget || spent < budget/2 || refused.Load() == 0 {
		t.Errorf("%d tokens of %d are spent, %d requests refused", spent, budget, refused.Load())
	}
}
