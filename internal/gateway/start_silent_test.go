package gateway_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// TestAStartBesideASilentDatabaseIsBounded restarts a gateway that has everything on its disk
// while its database accepts connections and answers nothing. All readers of the database share
// one bound.
func TestAStartBesideASilentDatabaseIsBounded(t *testing.T) {
	gatewaytest.Needs(t, "runs")
	db := storetest.Postgres(t)
	b := gatewaytest.StartBackend(t)
	setup := gatewaytest.Setup{DataDir: t.TempDir(), YAML: gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())) +
		gatewaytest.SecuredYAML() + "store: {config: " + gatewaytest.Quote(db.URL) + ", url: " + gatewaytest.Quote(db.URL) + "}\n" +
		"quota: {enabled: true}\nruns: {enabled: true}\n"}
	r := gatewaytest.StartWith(t, setup)
	r.Halt()
	db.Freeze()
	t.Cleanup(db.Thaw)
	setup.Patience = 3 * time.Second
	began := time.Now()
	gatewaytest.StartWith(t, setup)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the start took %v, want at most 3 s of waiting for the database", took)
	}
}
