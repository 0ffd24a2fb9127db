package gateway_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

func TestReloadThatFailsChangesNothing(t *testing.T) {
	outside := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(outside) })
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL))})
	reload := r.ReloadWith
	before := debug.SetMemoryLimit(-1)
	versions := filepath.Join(r.Document.Server.DataDir, "versions")
	if err := os.Rename(versions, versions+".away"); err != nil {
		t.Fatal(err)
	}
	next := gatewaytest.ChatYAML(gatewaytest.Instance("two", simulator.DownURL)) + "quota: {enabled: true, windows: [DAY]}\nlimits: {memory: 64GiB, uploads: 5GiB}\nserver: {shutdown-grace: 7s}\n"
	reload(next)
	if !strings.Contains(r.Logs.String(), "the configuration was not taken") {
		t.Fatalf("it did not fail:\n%s", r.Logs.String())
	}
	if r.Ledger.On() || debug.SetMemoryLimit(-1) != before || strings.Contains(r.Logs.String(), "take effect at the next start") {
		t.Errorf("the ledger is on: %v, the memory limit is %d\n%s", r.Ledger.On(), debug.SetMemoryLimit(-1), r.Logs.String())
	}
	if err := os.Rename(versions+".away", versions); err != nil {
		t.Fatal(err)
	}
	reload(next)
	if r.Memory.Bodies().Limit() != 32<<30 || r.Uploads.Limit() != 5<<30 {
		t.Errorf("%d bytes for bodies, %d for uploads", r.Memory.Bodies().Limit(), r.Uploads.Limit())
	}
	if !r.Ledger.On() || debug.SetMemoryLimit(-1) != 64<<30 || !strings.Contains(r.Logs.String(), `take effect at the next start","settings":["server"]`) {
		t.Errorf("the ledger is on: %v, the memory limit is %d\n%s", r.Ledger.On(), debug.SetMemoryLimit(-1), r.Logs.String())
	}
	reload(gatewaytest.ChatYAML(gatewaytest.Instance("two", simulator.DownURL)))
	if r.Ledger.On() || debug.SetMemoryLimit(-1) != before || r.Uploads.Limit() != 1<<30 {
		t.Errorf("the ledger is on: %v, the memory limit is %d", r.Ledger.On(), debug.SetMemoryLimit(-1))
	}
}

// What every gateway has for itself does not wait for what all share.
func TestReloadWithoutTheSharedDatabase(t *testing.T) {
	db := storetest.Postgres(t)
	shared := "store: {config: " + gatewaytest.Quote(db.URL) + "}\n"
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL)) + shared})
	reload := r.ReloadWith
	db.Kill()
	reload(gatewaytest.ChatYAML(gatewaytest.Instance("two", simulator.DownURL)) + shared + "quota: {enabled: true}\n")
	if !r.Ledger.On() || !strings.Contains(r.Logs.String(), "wait for the database") {
		t.Errorf("the ledger is on: %v\n%s", r.Ledger.On(), r.Logs.String())
	}
	db.Start()
	gatewaytest.Eventually(t, "the services of the file are in force", func() bool { return len(r.Models()) == 1 && r.Models()[0] == "two" })
}
