package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
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
