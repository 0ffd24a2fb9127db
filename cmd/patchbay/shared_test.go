package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// Three processes share one configuration: what one is told all do within a
// second, nothing that any of them acknowledged is lost, and without the
// database they go on with what they know.
func TestThreeGatewaysShareOneConfiguration(t *testing.T) {
	t.Parallel()
	db := storetest.Postgres(t)
	upstream := gatewaytest.StartBackend(t)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	start := func(i int) *child {
		return serving(t, "--data-dir", dirs[i], "--set", "store.config="+db.URL)
	}
	gateways := []*child{start(0), start(1), start(2)}
	add := func(i int, name string) gatewaytest.Reply {
		return gateways[i].ask(http.MethodPost, gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":%q,"baseUrl":%q}`, name, upstream.URL()))
	}
	// On a busy machine the database may not answer within the time that a gateway
	// waits for it. Who made the change asks again then, and it may have been stored.
	isAdded := func(i int, name string) bool {
		got := add(i, name)
		for got.Status == http.StatusServiceUnavailable {
			if got = add(i, name); strings.Contains(got.Body, "exists already") {
				return true
			}
		}
		if got.Status != http.StatusCreated {
			t.Errorf("gateway %d: %d %s", i, got.Status, got.Body)
		}
		return got.Status == http.StatusCreated
	}
	chats := func(i int, model string) bool {
		return gateways[i].ask(http.MethodPost, "/v1/chat/completions",
			fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}]}`, model)).Status == http.StatusOK
	}
	everywhere := func(model string) time.Duration {
		began := time.Now()
		for i := range gateways {
			gatewaytest.Eventually(t, "a gateway knows "+model, func() bool { return chats(i, model) })
		}
		return time.Since(began)
	}
	var took []time.Duration
	for n := range 9 {
		model := fmt.Sprint("first-", n)
		if !isAdded(n%3, model) {
			return
		}
		took = append(took, everywhere(model))
	}
	// The median is the gateway's own; the slowest may be the machine's.
	slices.Sort(took)
	t.Logf("a change serves on all three after %v in the median, at most %v", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > time.Second {
		t.Error("changes reach the other gateways too late")
	}

	const each = 15
	var writers sync.WaitGroup
	for i := range gateways {
		writers.Go(func() {
			for n := range each {
				isAdded(i, fmt.Sprintf("p%d-%d", i, n))
			}
		})
	}
	writers.Wait()
	versions := func(i int) string { return gateways[i].ask(http.MethodGet, "/api/config/version", "").Body }
	same := func(i int) func() bool {
		return func() bool {
			list := gateways[i].ask(http.MethodGet, gatewaytest.InstancesPath+"chat", "").Body
			for g := range gateways {
				for n := range each {
					if !strings.Contains(list, fmt.Sprintf(`"name":"p%d-%d"`, g, n)) {
						return false
					}
				}
			}
			return true
		}
	}
	for i := range gateways {
		gatewaytest.Eventually(t, "every change is there", same(i))
	}

	db.Kill()
	gateways[2].kill()
	gateways[2] = start(2)
	for i := range gateways {
		if !chats(i, "p1-0") || !same(i)() {
			t.Errorf("gateway %d forgot its configuration without the database", i)
		}
		if got := add(i, "refused"); got.Status != http.StatusServiceUnavailable || strings.Contains(got.Body, db.Address) {
			t.Errorf("a write without the database: %d %s", got.Status, got.Body)
		}
	}
	db.Start()
	began := time.Now()
	gatewaytest.Eventually(t, "writes are taken again", func() bool { return add(0, "back").Status == http.StatusCreated })
	everywhere("back")
	t.Logf("all three are together again %v after the database is back", time.Since(began))
	for i := range gateways {
		gatewaytest.Eventually(t, "the versions are the same", func() bool { return versions(i) == versions(0) })
		if chats(i, "refused") {
			t.Error("a refused change is in force")
		}
	}
	gateways[1].signal(syscall.SIGTERM)
	gateways[1].exits(0)
}
