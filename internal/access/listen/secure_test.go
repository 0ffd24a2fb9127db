package listen_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// secure returns a listener of encrypted connections in memory.
func secure(t *testing.T) (*listen.Secure, *pipes, *gatewaytest.Authority) {
	t.Helper()
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	certificates, err := listen.LoadCertificates(listen.TLS{Certificate: certificate, Key: key}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	inner := newPipes()
	return listen.NewSecure(inner, listen.SecureOptions{Certificates: certificates, NoTLS: []byte("no"), Log: slog.New(slog.DiscardHandler)}), inner, authority
}

// A client that does not go on with its handshake keeps nobody waiting, and is cut off
// after ten seconds.
func TestSlowHandshakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, inner, authority := secure(t)
		accepted := make(chan net.Conn)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					close(accepted)
					return
				}
				accepted <- conn
			}
		}()
		silent, began := inner.dial(), time.Now()
		ended := make(chan time.Duration, 1)
		go func() {
			_, _ = io.Copy(io.Discard, silent)
			ended <- time.Since(began)
		}()
		config := authority.Client()
		config.ServerName = "gateway.test"
		client := tls.Client(inner.dial(), config)
		go func() { _ = client.Handshake() }()
		conn := <-accepted
		if time.Since(began) != 0 {
			t.Error("a client waits for another one's handshake")
		}
		if after := <-ended; after != 10*time.Second {
			t.Errorf("the slow one is cut off after %s", after)
		}
		_ = conn.Close()
		_ = client.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if conn, open := <-accepted; open {
			t.Errorf("%v is accepted", conn)
		}
	})
}

// Closing the listener ends handshakes that are going on, and waits for that.
func TestCloseEndsHandshakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, inner, _ := secure(t)
		failed := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			failed <- err
		}()
		silent := inner.dial()
		synctest.Wait()
		began := time.Now()
		_ = l.Close()
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := silent.Read(make([]byte, 1)); err == nil || time.Since(began) != 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// Who asks for HTTP/2 is accepted by the listener for that.
func TestHTTP2IsAcceptedApart(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"h2", "http/1.1", ""} {
		synctest.Test(t, func(t *testing.T) {
			l, inner, authority := secure(t)
			apart, ordinary := make(chan net.Conn, 1), make(chan net.Conn, 1)
			for to, from := range map[chan net.Conn]net.Listener{apart: l.HTTP2(), ordinary: l} {
				go func() {
					if conn, err := from.Accept(); err == nil {
						to <- conn
					}
				}()
			}
			config := authority.Client()
			config.ServerName = "gateway.test"
			if protocol != "" {
				config.NextProtos = []string{protocol}
			}
			client := tls.Client(inner.dial(), config)
			go func() { _ = client.Handshake() }()
			var conn net.Conn
			isApart := false
			select {
			case conn = <-apart:
				isApart = true
			case conn = <-ordinary:
			}
			if state := conn.(*tls.Conn).ConnectionState(); state.NegotiatedProtocol != protocol || !state.HandshakeComplete || isApart != (protocol == "h2") {
				t.Errorf("%q: %q, apart %t", protocol, state.NegotiatedProtocol, isApart)
			}
			_ = conn.Close()
			_ = client.Close()
			_ = l.Close()
		})
	}
}

// The files are looked at without being told to.
func TestFilesAreWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		authority := gatewaytest.NewAuthority(t)
		certificate, key := authority.Pair(t, "one.test")
		var logged bytes.Buffer
		certificates, err := listen.LoadCertificates(listen.TLS{Certificate: certificate, Key: key}, slog.New(slog.NewTextHandler(&logged, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			certificates.Run(ctx)
			close(ended)
		}()
		name := func() string {
			time.Sleep(10 * time.Second) //nolint:forbidigo // the time is the test's own
			synctest.Wait()
			return certificates.Leaf().Subject.CommonName
		}
		authority.Issue(t, "two.test", certificate, key)
		if got := name(); got != "two.test" {
			t.Errorf("it shows %s", got)
		}
		gatewaytest.WriteFile(t, key, "")
		if got := name(); got != "two.test" || strings.Count(logged.String(), "cannot be read; the certificate that is in use stays") != 1 {
			t.Errorf("it shows %s and says %s", got, logged.String())
		}
		authority.Issue(t, "three.test", certificate, key)
		if got := name(); got != "three.test" {
			t.Errorf("it shows %s", got)
		}
		cancel()
		<-ended
	})
}

func TestSettingsOfTLSAreChecked(t *testing.T) {
	t.Parallel()
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	_, foreign := authority.Pair(t, "other.test")
	text, empty, dir := t.TempDir()+"/text", t.TempDir()+"/empty", t.TempDir()
	gatewaytest.WriteFile(t, text, "secret text")
	gatewaytest.WriteFile(t, empty, "")
	locked := t.TempDir() + "/locked"
	gatewaytest.WriteFile(t, locked, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	for name, c := range map[string]struct {
		settings listen.TLS
		want     string
	}{
		"nothing":           {listen.TLS{}, ""},
		"a pair":            {listen.TLS{Certificate: certificate, Key: key}, ""},
		"with clients":      {listen.TLS{Certificate: certificate, Key: key, ClientCA: authority.File}, ""},
		"clients alone":     {listen.TLS{ClientCA: authority.File}, ": needs both certificate and key"},
		"no key":            {listen.TLS{Certificate: certificate}, ": needs both certificate and key"},
		"no file":           {listen.TLS{Certificate: certificate, Key: key + ".gone"}, "key: the file does not exist: " + key + ".gone"},
		"a directory":       {listen.TLS{Certificate: dir, Key: key}, "certificate: is no file of certificates or keys"},
		"empty":             {listen.TLS{Certificate: certificate, Key: empty}, "key: the file is empty"},
		"text":              {listen.TLS{Certificate: text, Key: key}, ": certificate and key are not a pair (PEM): tls: failed to find any PEM data in certificate input"},
		"another's key":     {listen.TLS{Certificate: certificate, Key: foreign}, ": certificate and key are not a pair (PEM): tls: private key does not match public key"},
		"a pass phrase":     {listen.TLS{Certificate: certificate, Key: locked}, "key: is protected by a pass phrase, which the gateway cannot ask for: openssl pkey -in FILE writes the key without it"},
		"clients from text": {listen.TLS{Certificate: certificate, Key: key, ClientCA: text}, "clientCa: the file holds no certificate (PEM)"},
	} {
		var found []string
		c.settings.Check(func(path string, fault say.Sentence) { found = append(found, path+": "+fault.String()) })
		if got := strings.Join(found, "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
