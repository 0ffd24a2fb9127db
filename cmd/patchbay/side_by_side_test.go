package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// sideBySide is gateways of the release before and of this one, which share PostgreSQL and
// Redis. The first two are of the release before until they are upgraded.
type sideBySide struct {
	t        *testing.T
	redis    *storetest.Server
	file     string
	dirs     [3]string
	gateways [3]*child
	// masterKey is that of all of them, empty for none, and accepts says that those of this
	// release read what the others did not sign.
	masterKey string
	accepts   bool
}

// startSideBySide needs PATCHBAY_OLD, the program of the release before: see CONTRIBUTING.md.
func startSideBySide(t *testing.T, rateLimit, key, masterKey string) *sideBySide {
	old := os.Getenv("PATCHBAY_OLD")
	if old == "" {
		t.Skip("PATCHBAY_OLD names no program of the release before")
	}
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Body: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":30,"total_tokens":40}}`})
	s := &sideBySide{t: t, redis: storetest.Redis(t), file: filepath.Join(t.TempDir(), "patchbay.yaml"), masterKey: masterKey, accepts: masterKey != ""}
	security := strings.Replace(gatewaytest.SecuredYAML(), "enabled: true,", fmt.Sprintf("enabled: true, keys: [{id: k, key-sha256: %s%s}],", gatewaytest.HashOf("secret"), key), 1)
	gatewaytest.WriteFile(t, s.file, fmt.Sprintf("services: {chat: {rate-limit: {%s}, circuit-breaker: {enabled: false}, health-check: {enabled: false}, instances: [%s]}}\n", rateLimit, gatewaytest.Instance("m", b.URL()))+
		security+fmt.Sprintf("store: {url: %s}\nredis: {url: %s}\nlog: {access: false}\nquota: {enabled: true, flush-interval-seconds: 1, distributed: {enabled: true, timeout: 2s}}\n",
		gatewaytest.Quote(storetest.Postgres(t).URL), gatewaytest.Quote(s.redis.URL)))
	for n := range s.gateways {
		s.dirs[n] = t.TempDir()
		program := old
		if n == 2 {
			program = binary
		}
		s.start(n, program)
	}
	return s
}

func (s *sideBySide) start(n int, program string) {
	var environment []string
	if s.masterKey != "" {
		environment = append(environment, "PATCHBAY_SECURITY_MASTER_KEY="+s.masterKey)
	}
	if s.accepts && program == binary {
		environment = append(environment, "PATCHBAY_SECURITY_ACCEPT_UNSIGNED=true")
	}
	s.gateways[n] = startProgram(s.t, program, environment, "serve", "--listen", "127.0.0.1:0", "--config", s.file, "--data-dir", s.dirs[n])
	s.gateways[n].waitFor(`"msg":"listening"`)
}

// upgrade stops the gateways of the release before, one after the other, and starts this
// one with their data.
func (s *sideBySide) upgrade() {
	for n := range 2 {
		s.gateways[n].signal(syscall.SIGTERM)
		s.gateways[n].exits(0)
		s.start(n, binary)
	}
}

// load makes so many requests at each gateway, and returns how many were let in.
func (s *sideBySide) load(each int) int64 {
	var passed atomic.Int64
	var clients sync.WaitGroup
	for _, g := range s.gateways {
		clients.Go(func() {
			for range each {
				if g.askAs("secret", http.MethodPost, "/v1/chat/completions", gatewaytest.With(`"max_tokens":40`)).Status == http.StatusOK {
					passed.Add(1)
				}
			}
		})
	}
	clients.Wait()
	return passed.Load()
}

// TestGatewaysOfTwoReleasesKeepALimit: while a gateway of this release and two of the one
// before run side by side, a shared limit lets in at most twice what it says, and exactly
// what it says when the last one is upgraded.
func TestGatewaysOfTwoReleasesKeepALimit(t *testing.T) {
	t.Parallel()
	const capacity, window = 60, 10 * time.Second
	s := startSideBySide(t, fmt.Sprintf("algorithm: sliding-window, capacity: %d, refill-rate: 6, shared: true", capacity), "", "")
	began := time.Now()
	var passed int64
	for time.Since(began) < 4*time.Second { // a new store gives little in its first second
		passed += s.load(10)
	}
	if windows := int64(1 + time.Since(began)/window); passed > windows*2*capacity || passed < capacity/2 {
		t.Errorf("%d were let in, with a limit of %d", passed, capacity)
	}
	t.Logf("%d were let in side by side, with a limit of %d", passed, capacity)
	s.upgrade()
	<-time.After(window + window/32) // what was used is forgotten
	began, passed = time.Now(), 0
	for time.Since(began) < 4*time.Second {
		passed += s.load(10)
	}
	if windows := int64(1 + time.Since(began)/window); passed > windows*capacity || passed < capacity*9/10 {
		t.Errorf("%d were let in after the upgrade, with a limit of %d", passed, capacity)
	}
	t.Logf("%d were let in after the upgrade", passed)
}

// TestGatewaysOfTwoReleasesShareBudgetsAndTheLedger: side by side they keep a budget, and
// every one of them knows what all have counted; also after the upgrade. With a master key,
// which makes this release sign totals, security.accept-unsigned does it, and nothing is lost
// when that is off again.
func TestGatewaysOfTwoReleasesShareBudgetsAndTheLedger(t *testing.T) {
	t.Parallel()
	for name, masterKey := range map[string]string{"without a master key": "", "with a master key": "0123456789abcdef0123456789abcdef"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shareBudgets(t, masterKey)
		})
	}
}

func shareBudgets(t *testing.T, masterKey string) {
	const budget, cost, reservation = 6000, 40, 70
	s := startSideBySide(t, "enabled: false", fmt.Sprintf(", budgets: {total: {tokens: %d}}", budget), masterKey)
	var passed int64
	for range 5 {
		passed += s.load(25)
	}
	if spent := passed * cost; spent > budget || spent < budget-3*reservation {
		t.Errorf("%d of %d were spent", spent, budget)
	}
	t.Logf("%d of %d were spent", passed*cost, budget)
	counted := func(when string) {
		t.Helper()
		for n, g := range s.gateways {
			gatewaytest.Eventually(t, fmt.Sprintf("gateway %d has the sum %s", n, when), func() bool {
				var usage []struct {
					RequestCount int64 `json:"requestCount"`
					TokenCount   int64 `json:"tokenCount"`
				}
				reply := g.apiAs("admin-token", http.MethodGet, "/api/monitoring/quota/usage?window=MONTH", "")
				return json.Unmarshal(reply.Data, &usage) == nil && len(usage) == 1 && usage[0].RequestCount == passed && usage[0].TokenCount == cost*passed
			})
		}
	}
	counted("side by side")
	s.upgrade()
	if more := s.load(5); (passed+more)*cost > budget {
		t.Errorf("%d of %d were spent after the upgrade", (passed+more)*cost, budget)
	} else {
		passed += more
	}
	counted("after the upgrade")
	if masterKey == "" {
		return
	}
	s.accepts = false
	s.upgrade()
	for n, g := range s.gateways[:2] {
		gatewaytest.Eventually(t, fmt.Sprintf("gateway %d knows what all have spent when only signed totals are read", n), func() bool {
			return strings.Contains(g.askAs("admin-token", http.MethodGet, "/api/monitoring/budgets", "").Body, fmt.Sprintf(`"used":%d,`, passed*cost))
		})
	}
}

// TestGatewaysOfTwoReleasesWithoutRedis: each kind divides what is left of a budget by its
// own number, so that together they spend at most twice of that.
func TestGatewaysOfTwoReleasesWithoutRedis(t *testing.T) {
	t.Parallel()
	const budget, cost = 6000, 40
	s := startSideBySide(t, "enabled: false", fmt.Sprintf(", budgets: {total: {tokens: %d}}", budget), "")
	spent := s.load(20) * cost
	for n, g := range s.gateways {
		gatewaytest.Eventually(t, fmt.Sprintf("gateway %d knows what all have spent", n), func() bool {
			reply := g.askAs("admin-token", http.MethodGet, "/api/monitoring/budgets", "")
			return strings.Contains(reply.Body, fmt.Sprintf(`"used":%d,`, spent)) && strings.Contains(reply.Body, `"reserved":0,`)
		})
	}
	s.redis.Kill()
	more := s.load(150) * cost
	if left := budget - spent; more > 2*left || more < left/2 {
		t.Errorf("%d were spent without Redis, of %d that were left", more, left)
	}
	t.Logf("%d were spent without Redis, of %d that were left", more, budget-spent)
}
