package transport

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// secureBackend is an HTTPS server and a client that trusts it.
func secureBackend(t *testing.T, h http.HandlerFunc, edit func(*tls.Config)) (*Client, Origin) {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{}
	if edit != nil {
		edit(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return client(t, Options{TLS: &tls.Config{RootCAs: roots}}), origin(t, s.URL)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	c, to := secureBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Proto", r.Proto)
		w.Header().Set("X-Resumed", map[bool]string{true: "yes", false: "no"}[r.TLS.DidResume])
		body, _ := io.ReadAll(r.Body) // the server does not read and write at once
		w.Write(body)
	}, nil)
	for i, size := range []int{0, 1, 3000, recordSize, inlineLimit + 1, 1 << 20} {
		text := strings.Repeat("x", size)
		r, body := mustAsk(t, c, to, post(text[:size/2], text[size/2:]))
		if body != text {
			t.Errorf("size %d: %d bytes came back", size, len(body))
		}
		if r.Header("X-Proto") != "HTTP/1.1" || r.Reused != (i > 0) || r.resent {
			t.Errorf("size %d: %s, reused %v, resent %v", size, r.Header("X-Proto"), r.Reused, r.resent)
		}
	}
	held, err := c.Send(t.Context(), &to, post("x"), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if r, _ := mustAsk(t, c, to, post("x")); r.Reused || r.Header("X-Resumed") != "yes" {
		t.Error("a second connection does not resume the session")
	}
}

func TestTLSRefusals(t *testing.T) {
	t.Parallel()
	h := func(w http.ResponseWriter, _ *http.Request) {}
	c, to := secureBackend(t, h, nil)
	_, err := client(t, Options{}).Send(t.Context(), &to, post("x"), Timeouts{})
	is(t, err, ErrConnect)
	if _, _, err := ask(t, c, to, post("x")); err != nil {
		t.Errorf("trusted server: %v", err)
	}
	elsewhere := to
	elsewhere.name = "other.test"
	fresh, _ := secureBackend(t, h, nil)
	_, err = fresh.Send(t.Context(), &elsewhere, post("x"), Timeouts{})
	is(t, err, ErrConnect)

	c, to = secureBackend(t, h, func(t *tls.Config) { t.MaxVersion = tls.VersionTLS11; t.MinVersion = tls.VersionTLS10 })
	_, err = c.Send(t.Context(), &to, post("x"), Timeouts{})
	is(t, err, ErrConnect)

	plain := answering(t, ok)
	_, err = c.Send(t.Context(), new(origin(t, "https://"+plain.Addr())), post("x"), Timeouts{Connect: waittest.Limit})
	is(t, err, ErrConnect)
}

// A TLS backend that closes idle connections is noticed like any other.
func TestTLSStaleConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	c, to := client(t, Options{TLS: &tls.Config{RootCAs: roots}}), origin(t, server.URL)
	for range 20 {
		if r, body := mustAsk(t, c, to, post("x")); body != "ok" || r.Reused && !r.resent {
			t.Fatalf("got %q, reused %v", body, r.Reused)
		}
		server.CloseClientConnections()
	}
}

// TLS survives the wake-ups that turn out to be too early.
func TestTLSIdleTimeout(t *testing.T) {
	t.Parallel()
	const idle, events = 3 * time.Second, 12 // events last longer than the limit, and may come late
	c, to := secureBackend(t, func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(idle / 10)
		defer tick.Stop()
		for range events {
			<-tick.C
			io.WriteString(w, "x")
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}, nil)
	r, err := c.Send(t.Context(), &to, post("x"), Timeouts{Idle: idle})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	is(t, err, ErrIdleTimeout)
	if len(body) != events {
		t.Errorf("%d events came", len(body))
	}
}

// Bytes behind a reply that TLS has decrypted already are found before the
// connection is used again.
func TestTLSSmuggledReply(t *testing.T) {
	t.Parallel()
	c, to := secureBackend(t, func(w http.ResponseWriter, _ *http.Request) {
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer nc.Close()
		body := strings.Repeat("x", 2*bufferSize)
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 8192\r\n\r\n"+body+"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		io.Copy(io.Discard, nc)
	}, nil)
	for range 3 {
		r, err := c.Send(t.Context(), &to, &wire.Call{Method: "GET", Path: "/"}, Timeouts{Idle: waittest.Limit})
		if err != nil {
			t.Fatal(err)
		}
		// Long reads stop exactly at the end of the body.
		body, err := io.ReadAll(io.LimitReader(struct{ io.Reader }{r}, 8192))
		if err != nil || strings.Trim(string(body), "x") != "" || r.Reused {
			t.Fatalf("reused %v, %v", r.Reused, err)
		}
		r.Close()
	}
}
