package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// After a restart the ledger still has the requests of a key. The key's last use, its calls of
// the day and the points of charts begin anew, and the replies say since when.
func TestWhatIsKnownOfAKeyAfterARestart(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "spend")
	b := gatewaytest.StartBackend(t)
	setup := gatewaytest.Setup{YAML: gatewaytest.PoolYAML(b) + gatewaytest.SecuredYAML() + "quota: {enabled: true}\n", DataDir: t.TempDir()}
	admin := []string{"Authorization", "Bearer admin-token"}
	type seen struct {
		isUsed bool
		calls  any
		spent  string
		began  time.Time
	}
	look := func(r *gatewaytest.Gateway) seen {
		key := gatewaytest.At(t, r.GetObject("/api/auth/keys", admin...), "data/0").(map[string]any)
		began, err := time.Parse(time.RFC3339, gatewaytest.At(t, r.GetObject("/api/monitoring/series?range=5m", admin...), "startedAt").(string))
		if err != nil {
			t.Fatal(err)
		}
		_, isUsed := key["lastUsedAt"]
		return seen{isUsed, key["callsToday"], r.Do(http.MethodGet, "/api/monitoring/spend?by=key", "", admin...).Succeeds(t).Body, began}
	}
	first := gatewaytest.StartWith(t, setup)
	issued := first.API(http.MethodPost, "/api/auth/keys", `{"id":"team-a","tenant":"acme"}`, admin...).Is(t, http.StatusCreated)
	first.Chat(gatewaytest.PlainHi, bearer(gatewaytest.At(t, gatewaytest.DecodeObject(t, issued.Body), "data/key").(string))...).Succeeds(t)
	before := look(first)
	first.Halt()
	after := look(gatewaytest.StartWith(t, setup))
	if !before.isUsed || before.calls != float64(1) {
		t.Errorf("before: used %t, %v calls today", before.isUsed, before.calls)
	}
	if after.isUsed || after.calls != float64(0) {
		t.Errorf("after: used %t, %v calls today, want what this process knows", after.isUsed, after.calls)
	}
	if !after.began.After(before.began) {
		t.Errorf("charts begin at %v, the first process began at %v", after.began, before.began)
	}
	for name, body := range map[string]string{"before": before.spent, "after": after.spent} {
		if !strings.Contains(body, `"name":"team-a"`) || !strings.Contains(body, `"requestCount":1`) {
			t.Errorf("%s: the ledger does not have the request of the key: %s", name, body)
		}
	}
}
