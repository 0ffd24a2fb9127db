// This file belongs to the wing backup.

package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Backups of a gateway with requests, changes and flushes on their way are whole: all that was
// acknowledged before a backup began is in it, and nothing of what came after it ended.
func TestBackupsOfABusyGatewayAreWhole(t *testing.T) {
	t.Parallel()
	e := newEstate(t, "")
	content := strings.Replace(string(gatewaytest.ReadFile(t, e.file)), "flush-interval-seconds: 3600", "flush-interval-seconds: 1", 1)
	gatewaytest.WriteFile(t, e.file, content)
	e.start()
	e.key = e.must("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"team-a"}`, "data/key")
	var asked, answered, began, changed atomic.Int64
	done := make(chan struct{})
	var working sync.WaitGroup
	repeat := func(begun, ended *atomic.Int64, path, bearer string, body func(n int64) string) {
		working.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if reply := e.as(bearer, http.MethodPost, path, body(begun.Add(1))); reply.Status >= 300 {
					t.Errorf("%s: %d %s", path, reply.Status, reply.Body)
					return
				}
				ended.Add(1)
			}
		})
	}
	repeat(&asked, &answered, "/v1/chat/completions", e.key, func(int64) string { return gatewaytest.PlainHi })
	repeat(&began, &changed, "/api/auth/keys", "admin-token", func(n int64) string { return fmt.Sprintf(`{"id":"k%d"}`, n) })
	type taken struct {
		file                 string
		requests, most, keys int64
	}
	var all []taken
	for i := range 4 {
		gatewaytest.Eventually(t, "there are more requests and keys", func() bool {
			return answered.Load() >= int64(60*i+20) && changed.Load() >= int64(10*i+5)
		})
		one := taken{file: filepath.Join(t.TempDir(), "b.zip"), requests: answered.Load(), keys: changed.Load()}
		verb(t, exitOK, "backup", one.file, "--config", e.file, "--with", "ledger")
		one.most = asked.Load()
		all = append(all, one)
	}
	close(done)
	working.Wait()
	e.kill()
	for _, one := range all {
		next := newEstate(t, "")
		verb(t, exitOK, "restore", one.file, "--config", next.file)
		next.start()
		usage := gatewaytest.DecodeObject(t, next.must("admin-token", http.MethodGet, "/api/monitoring/quota/usage?window=MONTH", "", ""))
		got, _ := gatewaytest.At(t, any(usage), "data/0/requestCount").(float64)
		keys := int64(strings.Count(next.must("admin-token", http.MethodGet, "/api/auth/keys", "", ""), `"id":"k`))
		if int64(got) < one.requests || int64(got) > one.most || keys < one.keys {
			t.Errorf("the backup has %v requests, want %d to %d; %d keys, want at least %d", got, one.requests, one.most, keys, one.keys)
		}
		next.kill()
	}
}
