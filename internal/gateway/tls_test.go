package gateway_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// serverTLS is the setting of a gateway with a certificate.
func serverTLS(certificate, key, clientCA string) string {
	settings := "server: {tls: {certificate: " + gatewaytest.Quote(certificate) + ", key: " + gatewaytest.Quote(key)
	if clientCA != "" {
		settings += ", client-ca: " + gatewaytest.Quote(clientCA)
	}
	return settings + "}}\n"
}

// Clients speak HTTP/1.1 or, where they ask for it, HTTP/2, and both get plain
// replies, streams and management alike.
func TestClientsWithTLS(t *testing.T) {
	t.Parallel()
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	for _, c := range []struct {
		protocol string
		http2    bool
	}{{"HTTP/1.1", false}, {"HTTP/2.0", true}} {
		t.Run(c.protocol, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{
				YAML: serverTLS(certificate, key, "") + gatewaytest.PoolYAML(b), TLS: authority.Client(), HTTP2: c.http2,
			})
			large := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 3<<20) + `"}]}`
			for _, body := range []string{gatewaytest.PlainHi, gatewaytest.StreamHi, large, gatewaytest.PlainHi} {
				response := r.Open(gatewaytest.Deadline(t), http.MethodPost, "/v1/chat/completions", body)
				reply, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK || response.Proto != c.protocol || !strings.Contains(string(reply), "usage") && body != gatewaytest.StreamHi {
					t.Errorf("%s with %d: %.300s (%v)", response.Proto, response.StatusCode, reply, err)
				}
				if body == gatewaytest.StreamHi && !strings.HasSuffix(string(reply), "data: [DONE]\n\n") {
					t.Errorf("the stream ends with %q", reply)
				}
			}
			if index := r.Do(http.MethodGet, "/actuator", ""); !strings.Contains(index.Body, `"href":"`+r.URL+"/actuator") {
				t.Errorf("the links of the actuator are not those of %s: %s", r.URL, index.Body)
			}
			r.API(http.MethodGet, "/api/config/instance/type/chat", "").Is(t, http.StatusOK)
		})
	}
}

// A backend is let go when its client leaves in the middle of a stream.
func TestClientWithTLSThatLeaves(t *testing.T) {
	t.Parallel()
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %t", http2), func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{
				YAML: serverTLS(certificate, key, "") + gatewaytest.PoolYAML(b), TLS: authority.Client(), HTTP2: http2,
			})
			b.ScriptForever(simulator.Step{Stop: simulator.StopStall, After: 1})
			ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
			stream := r.Stream(ctx, gatewaytest.StreamHi)
			if _, err := stream.Next(); err != nil {
				t.Fatal(err)
			}
			cancel()
			gatewaytest.Eventually(t, "the request has ended", func() bool { return r.Instances("m")[0].InFlight() == 0 })
		})
	}
}

func TestClientsThatTLSRefuses(t *testing.T) {
	t.Parallel()
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: serverTLS(certificate, key, ""), TLS: authority.Client()})
	r.Do(http.MethodGet, "/v1/models", "").Succeeds(t)
	t.Run("without TLS", func(t *testing.T) {
		said := r.SendRaw("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
		if said.Status != http.StatusBadRequest || !strings.Contains(said.Body, "use https://") {
			t.Errorf("%d: %s", said.Status, said.Body)
		}
	})
	t.Run("with an old version", func(t *testing.T) {
		old := authority.Client()
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if conn, err := tls.Dial("tcp", r.Address(), old); err == nil {
			_ = conn.Close()
			t.Error("TLS 1.1 is spoken")
		}
	})
	t.Run("with TLS 1.2", func(t *testing.T) {
		old := authority.Client()
		old.MaxVersion = tls.VersionTLS12
		conn, err := tls.Dial("tcp", r.Address(), old)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	})
}

// curl gets HTTP/2 where it was built with it, and HTTP/1.1 where it is told to.
func TestCurlWithTLS(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("there is no curl")
	}
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: serverTLS(certificate, key, "") + gatewaytest.PoolYAML(b), TLS: authority.Client()})
	features, err := exec.CommandContext(gatewaytest.Deadline(t), curl, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"--http1.1": "1.1"}
	if strings.Contains(string(features), "HTTP2") {
		want["--http2"] = "2"
	}
	for flag, version := range want {
		for _, body := range []string{gatewaytest.PlainHi, gatewaytest.StreamHi} {
			said, err := exec.CommandContext(gatewaytest.Deadline(t), curl, "-sS", "--noproxy", "*", flag, "--cacert", authority.File,
				"-w", "\n%{http_version} %{response_code}", "-d", body, r.URL+"/v1/chat/completions").CombinedOutput()
			if err != nil || !strings.HasSuffix(string(said), "\n"+version+" 200") {
				t.Errorf("%s: %v: %s", flag, err, said)
			}
		}
	}
}

// The gateway asks its clients for a certificate, and shows one to a backend that asks
// for it.
func TestMutualTLSOnBothSides(t *testing.T) {
	t.Parallel()
	clients, servers := gatewaytest.NewAuthority(t), gatewaytest.NewAuthority(t)
	b := gatewaytest.StartBackend(t)
	backend := mutualBackend(t, b, servers, clients)
	certificate, key := servers.Pair(t, "gateway.test")
	shown, shownKey := clients.Pair(t, "gateway")
	tlsOf := func(cert, key string) string {
		return fmt.Sprintf("tls: {ca: %s, cert: %s, key: %s, server-name: llm.corp.test}", servers.File, cert, key)
	}
	stranger, strangerKey := servers.Pair(t, "gateway") // of an authority that the backend does not ask
	r := gatewaytest.StartWith(t, gatewaytest.Setup{
		YAML: serverTLS(certificate, key, clients.File) + gatewaytest.ChatYAML(
			gatewaytest.Instance("m", backend, tlsOf(shown, shownKey)),
			gatewaytest.Instance("stranger", backend, tlsOf(stranger, strangerKey)),
			gatewaytest.Instance("nameless", backend, "tls: {ca: "+servers.File+", server-name: llm.corp.test}")),
		TLS: servers.Client(gatewaytest.LoadPair(t, shown, shownKey)),
	})
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	for _, model := range []string{"stranger", "nameless"} {
		r.Chat(`{"model":"`+model+`",`+gatewaytest.SomeMessages+`}`).FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
	}
	for name, config := range map[string]*tls.Config{
		"no certificate":       servers.Client(),
		"of another authority": servers.Client(gatewaytest.LoadPair(t, stranger, strangerKey)),
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		response, err := client.Do(r.Request(gatewaytest.Deadline(t), http.MethodGet, "/actuator/health", ""))
		if err == nil {
			_ = response.Body.Close()
			t.Errorf("%s: the client gets %d", name, response.StatusCode)
		}
	}
}

// mutualBackend stands before a backend and asks for a certificate of an authority.
func mutualBackend(t *testing.T, b *simulator.Backend, own, clients *gatewaytest.Authority) (base string) {
	t.Helper()
	target, err := url.Parse(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := own.Pair(t, "llm.corp.test")
	s := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(target))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{gatewaytest.LoadPair(t, certificate, key)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool()}
	s.StartTLS()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
}

// A new certificate is shown to whom connects after a reload, and those who are
// connected go on. One that cannot be used leaves the old one, and the log says so once.
func TestCertificatesAreReloaded(t *testing.T) {
	t.Parallel()
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "one.test")
	yaml := serverTLS(certificate, key, "")
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, TLS: authority.Client()})
	shown := func() string {
		conn, err := (&tls.Dialer{Config: authority.Client()}).DialContext(gatewaytest.Deadline(t), "tcp", r.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	kept, err := (&tls.Dialer{Config: authority.Client()}).DialContext(gatewaytest.Deadline(t), "tcp", r.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if got := shown(); got != "one.test" {
		t.Fatalf("it shows %s", got)
	}
	authority.Issue(t, "two.test", certificate, key)
	r.ReloadWith(yaml)
	if got := shown(); got != "two.test" {
		t.Errorf("after a change it shows %s", got)
	}
	_, foreignKey := authority.Pair(t, "other.test")
	gatewaytest.WriteFile(t, key, string(gatewaytest.ReadFile(t, foreignKey)))
	for range 3 {
		r.ReloadWith(yaml)
	}
	if got := shown(); got != "two.test" {
		t.Errorf("after a key of another certificate it shows %s", got)
	}
	if n := gatewaytest.CountLines(r.Logs.String(), "the certificate that is in use stays", "not a pair"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
	authority.Issue(t, "three.test", certificate, key)
	r.ReloadWith(yaml)
	if got := shown(); got != "three.test" {
		t.Errorf("after the next pair it shows %s", got)
	}
	answersOn(t, kept)
}

// answersOn checks that a request is answered on a connection.
func answersOn(t *testing.T, conn net.Conn) {
	t.Helper()
	if deadline, ok := gatewaytest.Deadline(t).Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := io.WriteString(conn, "GET /actuator/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 200 OK\r\n") {
		t.Errorf("%v: %s", err, said)
	}
}
