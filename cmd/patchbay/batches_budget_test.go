// This file belongs to the wing batches.

package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

var usedRequests = regexp.MustCompile(`"used":(\d+)`)

// Lines that are in flight when the gateway is killed are sent again. The ledger and the budget
// of their owner count both calls.
func TestLinesThatAreSentAgainAreInLedgerAndBudget(t *testing.T) {
	t.Parallel()
	const lines, atOnce = 12, 4
	held := gate{2, atOnce, make(chan struct{})}
	backend := startGated(t, held)
	args := []string{
		"--data-dir", t.TempDir(), "--set", "batches.enabled=true", "--set", "log.access=false", "--set", "quota.enabled=true",
		"--set", "security.enabled=true",
		"--set", fmt.Sprintf("security.keys=[{id: k, key-sha256: %s, budgets: {total: {requests: 1000}}}]", gatewaytest.HashOf("secret")),
		"--set", fmt.Sprintf("security.tokens=[{name: a, role: ADMIN, token-sha256: %s}]", gatewaytest.HashOf("admin-token")),
		"--set", fmt.Sprintf("services.chat.instances=[{name: m, base-url: '%s', batch-concurrency: %d}]", backend.url, atOnce),
	}
	file := filepath.Join(t.TempDir(), "prompts.txt")
	gatewaytest.WriteFile(t, file, strings.Repeat("Say yes.\n", lines))
	c := serving(t, args...)
	id := batchesVerb(t, c, "submit", file, "--model", "m", "--key", "secret")
	await(backend.entered, atOnce)
	c.kill()
	close(held.open)
	c = serving(t, args...)
	if ended := batchesVerb(t, c, "follow", id, "--key", "secret"); !strings.Contains(ended, fmt.Sprintf("completed: %d of %d", lines, lines)) {
		t.Fatal(ended)
	}
	backend.mu.Lock()
	came := backend.came
	backend.mu.Unlock()
	if came < lines+atOnce { // lines whose answers were not synced are sent again as well
		t.Errorf("the backend got %d requests, want %d", came, lines+atOnce)
	}
	counted, _ := gatewaytest.Counted(t, func() gatewaytest.Reply {
		return c.askAs("admin-token", http.MethodGet, gatewaytest.LongAgo, "")
	})
	budget := usedRequests.FindStringSubmatch(c.askAs("admin-token", http.MethodGet, "/api/monitoring/budgets", "").Succeeds(t).Body)
	if counted != int64(came) || len(budget) != 2 || budget[1] != fmt.Sprint(came) {
		t.Errorf("the ledger has %d requests and the budget %v, and the backend got %d", counted, budget, came)
	}
}

// The ledger and the budget of a key count a request that is in flight when the gateway is killed
// alike: both where it is split over several instances, and neither where another model may take
// over, because the ledger does not know then whose request it is.
func TestAKilledGatewayHasRequestsInLedgerAndBudgetAlike(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		service, policy, path, body string
		pieces                      int
		counted                     int64
	}{
		"split":         {"embedding", "split: {max-split: 2, min-inputs: 1, min-tokens: 1}", "/v1/embeddings", `{"model":"m","input":["the cat","the dog"]}`, 2, 1},
		"one":           {"chat", "fallbacks: {other: [m]}", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 1, 1},
		"may fall back": {"chat", "fallbacks: {m: [other]}", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := gate{0, test.pieces, make(chan struct{})}
			t.Cleanup(func() { close(held.open) })
			backend := startGated(t, held)
			instances := fmt.Sprintf("[{name: m, base-url: '%s'}, {name: m, base-url: '%s/second'}, {name: other, base-url: '%s'}]", backend.url, backend.url, backend.url)
			config := filepath.Join(t.TempDir(), "patchbay.yaml")
			gatewaytest.WriteFile(t, config, fmt.Sprintf("services: {%s: {%s, instances: %s}}\n", test.service, test.policy, instances)+
				"quota: {enabled: true}\nlog: {access: false}\n"+
				fmt.Sprintf("security: {enabled: true, keys: [{id: k, key-sha256: %s, budgets: {total: {requests: 1000}}}], tokens: [{name: a, role: ADMIN, token-sha256: %s}]}\n",
					gatewaytest.HashOf("secret"), gatewaytest.HashOf("admin-token")))
			args := []string{"--data-dir", t.TempDir(), "--config", config}
			c := serving(t, args...)
			var asking sync.WaitGroup
			asking.Go(func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url()+test.path, strings.NewReader(test.body))
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("Authorization", "Bearer secret")
				if response, err := http.DefaultClient.Do(request); err == nil { //nolint:forbidigo // a test's client
					_ = response.Body.Close()
					t.Errorf("the gateway answered with %s", response.Status)
				}
			})
			await(backend.entered, test.pieces)
			c.kill()
			asking.Wait()
			c = serving(t, args...)
			counted, _ := gatewaytest.Counted(t, func() gatewaytest.Reply {
				return c.askAs("admin-token", http.MethodGet, gatewaytest.LongAgo, "")
			})
			budget := usedRequests.FindStringSubmatch(c.askAs("admin-token", http.MethodGet, "/api/monitoring/budgets", "").Succeeds(t).Body)
			if counted != test.counted || len(budget) != 2 || budget[1] != fmt.Sprint(test.counted) {
				t.Errorf("the ledger has %d requests and the budget %v, want %d", counted, budget, test.counted)
			}
		})
	}
}
