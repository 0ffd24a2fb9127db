package gateway_test

import (
	"io"
	"net"
	"net/url"
	"strings"
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
	began := time.Now()
	gatewaytest.StartWith(t, setup)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the start took %v, want at most 3 s of waiting for the database", took)
	}
}

// TestAStartBesideASlowDatabaseReadsEverything restarts a gateway whose database answers each time after a tenth
// of a second, which is longer than the bound for all readers together.
func TestAStartBesideASlowDatabaseReadsEverything(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs")
	db := storetest.Postgres(t)
	yaml := func(store string) string {
		return gatewaytest.SecuredYAML() + "store: {config: " + gatewaytest.Quote(store) + ", url: " + gatewaytest.Quote(store) + "}\n" +
			"quota: {enabled: true}\nruns: {enabled: true}\n"
	}
	setup := gatewaytest.Setup{DataDir: t.TempDir(), YAML: yaml(db.URL)}
	gatewaytest.StartWith(t, setup).Halt()
	setup.YAML = yaml(slowly(t, db.URL))
	if logs := gatewaytest.StartWith(t, setup).Logs.String(); strings.Contains(logs, "cannot be") {
		t.Errorf("the log says %s", logs)
	}
}

// slowly returns the URL of a database that answers as this one does, a tenth of a second later.
func slowly(t *testing.T, database string) string {
	t.Helper()
	to, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	backend := to.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", backend)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			}()
			go func() {
				defer func() { _ = client.Close() }()
				buffer := make([]byte, 64<<10)
				for {
					n, err := server.Read(buffer)
					if err != nil {
						return
					}
					<-time.After(100 * time.Millisecond) // the database's own time
					if _, err := client.Write(buffer[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	to.Host = listener.Addr().String()
	return to.String()
}
