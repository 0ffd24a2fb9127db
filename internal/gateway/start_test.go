package gateway_test

import (
	"log/slog"
	"net"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// failToStart assembles a gateway whose last step before the wiring fails, after
// everything that can be opened was.
func failToStart(t *testing.T, yaml string) (dataDir, address string) {
	t.Helper()
	dataDir, address = t.TempDir(), storetest.FreeAddress(t)
	gatewaytest.WriteFile(t, filepath.Join(dataDir, "format.json"), `{"format":1}`)
	gatewaytest.WriteFile(t, filepath.Join(dataDir, "keys.json"), "garbage")
	doc := gatewaytest.LoadDocument(t, yaml, dataDir)
	doc.Server.Listen = []string{address}
	if g, err := gateway.New(doc, slog.New(slog.DiscardHandler), gateway.Options{}); err == nil || g != nil || !strings.Contains(err.Error(), "keys") {
		t.Fatalf("it started, or failed too early: %v", err)
	}
	return dataDir, address
}

func TestFailedStartLeavesNothingOpen(t *testing.T) {
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			dir, address := failToStart(t, "telemetry: {enabled: true, metrics: true, protocol: "+protocol+", endpoint: 'http://127.0.0.1:1'}\n")
			goleak.VerifyNone(t, before)
			listener, err := new(net.ListenConfig).Listen(gatewaytest.Deadline(t), "tcp", address)
			if err != nil {
				t.Fatalf("the listener is still open: %v", err)
			}
			_ = listener.Close()
			store, err := files.Open(dir, nil)
			if err != nil {
				t.Fatalf("the data directory is still taken: %v", err)
			}
			_ = store.Close()
		})
	}
}

func TestFailedStartLeavesTheSharedConfiguration(t *testing.T) {
	t.Parallel()
	db := storetest.Postgres(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would close what nobody holds any more
	failToStart(t, "store: {config: "+gatewaytest.Quote(db.URL)+"}\n")
	conn, err := pgx.Connect(gatewaytest.Deadline(t), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(gatewaytest.Deadline(t)) }()
	gatewaytest.Eventually(t, "the database has no connection left", func() bool {
		var count int
		if err := conn.QueryRow(gatewaytest.Deadline(t), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'patchbay'").Scan(&count); err != nil {
			t.Fatal(err)
		}
		return count == 0
	})
}
