package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// A handler behind the shell, the router and the gate takes a connection over. A stop waits
// for it as for any request, and ends it when its time is over.
func TestUpgradesBehindTheShell(t *testing.T) {
	t.Parallel()
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	long := "shutdown-grace: 10m"
	secured := strings.Replace(serverTLS(certificate, key, ""), "server: {", "server: {"+long+", ", 1)
	for name, yaml := range map[string]string{"plain": "server: {" + long + "}\n", "TLS": secured} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			echo := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "echo")
				w.WriteHeader(http.StatusSwitchingProtocols)
				conn, both, err := http.NewResponseController(w).Hijack()
				if err != nil {
					ended <- err
					return
				}
				defer context.AfterFunc(r.Context(), func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
				_, _ = io.Copy(conn, both)
				ended <- context.Cause(r.Context())
			}
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, TLS: authority.Client(), Routes: []web.Route{
				{Pattern: "GET /echo", Permission: access.Anyone, Handler: echo, Undescribed: true},
			}})
			conn := r.DialRaw()
			if yaml == secured {
				config := authority.Client()
				config.ServerName, config.NextProtos = "gateway.test", []string{"http/1.1"}
				conn = tls.Client(conn, config)
			}
			from := bufio.NewReader(conn)
			exchange := func(conn net.Conn, text string) {
				t.Helper()
				if _, err := io.WriteString(conn, text); err != nil {
					t.Fatal(err)
				}
				if got, err := from.ReadString('\n'); got != text || err != nil {
					t.Fatalf("%q, %v", got, err)
				}
			}
			if _, err := io.WriteString(conn, "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(from, nil)
			if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(response, err)
			}
			exchange(conn, "before\n")
			ctx, cancel := context.WithCancel(t.Context())
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				r.Stop(ctx)
			}()
			gatewaytest.Eventually(t, "the gateway is stopping", func() bool {
				return r.Do(http.MethodGet, "/actuator/health/readiness", "").Status == http.StatusServiceUnavailable
			})
			exchange(conn, "while it stops\n")
			cancel()
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "shutting down") {
				t.Errorf("the connection ended with %v", err)
			}
			<-stopped
		})
	}
}
