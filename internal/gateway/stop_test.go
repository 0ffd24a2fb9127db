package gateway_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A client that has connected and says nothing does not delay a stop, whichever server
// has its connection. The best of several tries counts, because the machine of the tests
// is shared: a gateway that waits a second does so in all of them.
func TestSilentConnectionsDoNotDelayAStop(t *testing.T) {
	t.Parallel()
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	encrypted := func(protocol string) func(*testing.T, net.Conn) net.Conn {
		return func(t *testing.T, c net.Conn) net.Conn {
			config := authority.Client()
			config.NextProtos, config.ServerName = []string{protocol}, "gateway.test"
			secured := tls.Client(c, config)
			if err := secured.Handshake(); err != nil {
				t.Fatal(err)
			}
			return secured
		}
	}
	for name, test := range map[string]struct {
		yaml    string
		connect func(*testing.T, net.Conn) net.Conn
	}{
		"plain":  {"", nil},
		"TLS":    {serverTLS(certificate, key, ""), encrypted("http/1.1")},
		"HTTP/2": {serverTLS(certificate, key, ""), encrypted("h2")},
	} {
		t.Run(name, func(t *testing.T) {
			const tries, limit = 10, 500 * time.Millisecond
			best := time.Hour
			for try := 0; try < tries && best > limit; try++ {
				r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: test.yaml, TLS: authority.Client()})
				silent := r.DialRaw()
				if test.connect != nil {
					silent = test.connect(t, silent)
				}
				r.Do(http.MethodGet, "/v1/models", "").Succeeds(t) // on a connection that is accepted later
				began := time.Now()
				r.Stop(gatewaytest.Deadline(t))
				best = min(best, time.Since(began))
				_, _ = io.Copy(io.Discard, silent) // it has ended
			}
			if best > limit {
				t.Errorf("a stop took %s at best", best)
			}
		})
	}
}
