package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// forwardProxy is a proxy that leads every name to one server and remembers what
// it was asked for.
type forwardProxy struct {
	*httptest.Server
	to     string // host:port of the server
	refuse int    // answer to everything, if not 0
	mu     sync.Mutex
	asked  []string // method, target and credentials
}

func startProxy(t *testing.T, to string, secure bool) *forwardProxy {
	t.Helper()
	p := &forwardProxy{to: to}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(p.Close)
	return p
}

func (p *forwardProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
	p.mu.Unlock()
	if p.refuse != 0 {
		w.WriteHeader(p.refuse)
		return
	}
	if r.Method == http.MethodConnect {
		p.tunnel(w)
		return
	}
	// What is the proxy's is not the backend's.
	r.Header.Del("Proxy-Authorization")
	r.URL.Host, r.RequestURI = p.to, ""
	reply, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer reply.Body.Close()
	w.WriteHeader(reply.StatusCode)
	io.Copy(w, reply.Body)
}

func (p *forwardProxy) tunnel(w http.ResponseWriter) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { io.Copy(server, client); server.Close() }()
	io.Copy(client, server)
	client.Close()
}

func (p *forwardProxy) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

func via(t *testing.T, base string, r Route) Origin {
	t.Helper()
	to, err := origin(t, base).Via(r)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// hello answers with the host and path that it was asked for.
func hello(t *testing.T, config *tls.Config) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, r.Host+r.URL.Path)
		if len(r.Header["Proxy-Authorization"]) > 0 {
			io.WriteString(w, " sees the credentials of the proxy")
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if config != nil {
		s.TLS = config
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// Names that only the proxy knows are reached through it: https by CONNECT, http
// by requests that name their origin. A tunnel is kept; a proxy may close the
// connection of a plain request unannounced, so that one serves a single call.
func TestBackendsBehindAProxy(t *testing.T) {
	t.Parallel()
	private := newAuthority(t)
	secure := hello(t, private.serverConfig(t, "llm.corp.test", time.Hour))
	plain := hello(t, nil)
	credentials := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:p@ss"))
	for name, c := range map[string]struct {
		base, want string
		server     *httptest.Server
	}{
		"https": {"https://llm.corp.test", "CONNECT llm.corp.test:443 ", secure},
		"http":  {"http://llm.corp.test:8000", "POST http://llm.corp.test:8000/v1/chat/completions ", plain},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, c.server.Listener.Addr().String(), false)
			address := strings.Replace(p.URL, "http://", "http://user:p%40ss@", 1)
			to := via(t, c.base, Route{Proxy: address, CA: private.pem})
			cl := client(t, Options{})
			for n := range 3 {
				r, body := mustAsk(t, cl, to, post("x"))
				if body != strings.SplitN(c.base, "://", 2)[1]+"/v1/chat/completions" || r.Reused != (n > 0 && name == "https") {
					t.Errorf("got %q, reused %v", body, r.Reused)
				}
			}
			asked := p.requests()
			if want := map[string]int{"https": 1, "http": 3}[name]; len(asked) != want || asked[0] != c.want+credentials {
				t.Errorf("the proxy was asked for %q", asked)
			}
			if err := cl.Connect(t.Context(), to); err != nil {
				t.Errorf("connecting: %v", err)
			}
		})
	}
}

func TestProxyThatSpeaksTLS(t *testing.T) {
	t.Parallel()
	private := newAuthority(t)
	p := startProxy(t, hello(t, private.serverConfig(t, "llm.corp.test", time.Hour)).Listener.Addr().String(), true)
	trusting := p.Client().Transport.(*http.Transport).TLSClientConfig
	to := via(t, "https://llm.corp.test", Route{Proxy: p.URL, CA: private.pem})
	if _, body := mustAsk(t, client(t, Options{TLS: trusting}), to, post("x")); !strings.HasPrefix(body, "llm.corp.test/") {
		t.Errorf("got %q", body)
	}
	_, err := client(t, Options{}).Send(t.Context(), &to, post("x"), Timeouts{})
	if CauseOf(err) != CauseProxyUnreachable {
		t.Errorf("a proxy that is not trusted: %v", err)
	}
}

func TestFailuresOfProxies(t *testing.T) {
	t.Parallel()
	gone := "http://" + waittest.Nobody(t)
	wordless := backend(t, func(p *peer) { p.in.ReadString('\n') })
	chatty := backend(t, func(p *peer) {
		http.ReadRequest(bufio.NewReader(p.in))
		p.say("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
	})
	refusing := func(status int) string {
		p := startProxy(t, "127.0.0.1:1", false)
		p.refuse = status
		return p.URL
	}
	for name, c := range map[string]struct {
		base, proxy string
		want        Cause
	}{
		"nobody there":              {"https://h", gone, CauseProxyUnreachable},
		"nobody there, http":        {"http://h", gone, CauseProxyUnreachable},
		"nobody behind it":          {"https://h", startProxy(t, "127.0.0.1:1", false).URL, CauseProxyRefused},
		"forbidden":                 {"https://h", refusing(403), CauseProxyRefused},
		"wants others":              {"https://h", refusing(401), CauseProxyAuthentication},
		"wants credentials":         {"https://h", refusing(407), CauseProxyAuthentication},
		"wants credentials, http":   {"http://h", refusing(407), CauseProxyAuthentication},
		"closes":                    {"https://h", wordless.String(), CauseProxyRefused},
		"says too much":             {"https://h", chatty.String(), CauseProxyRefused},
		"metadata through a proxy":  {"https://metadata.google.internal", refusing(500), CauseForbidden},
		"metadata in another guise": {"http://0xa9fea9fe", refusing(500), CauseForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client(t, Options{}).Send(t.Context(), new(via(t, c.base, Route{Proxy: c.proxy})), post("x"), Timeouts{Connect: waittest.Limit})
			is(t, err, ErrConnect)
			if got := CauseOf(err); got != c.want {
				t.Errorf("%v is %q", err, got)
			}
		})
	}
}

// A silent proxy is bounded by the limit for connecting, and by the caller.
func TestSilentProxy(t *testing.T) {
	t.Parallel()
	silent := backend(t, func(p *peer) { io.Copy(io.Discard, p.in) })
	to := via(t, "https://h", Route{Proxy: silent.String()})
	_, err := client(t, Options{}).Send(t.Context(), &to, post("x"), Timeouts{Connect: time.Millisecond})
	is(t, err, ErrConnectTimeout)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := client(t, Options{}).Send(ctx, &to, post("x"), Timeouts{})
		ended <- err
	}()
	cancel()
	if err := waittest.Receive(t, "end of the call", ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The environment is read as other programs read it. This machine is never behind
// a proxy.
func TestProxiesOfTheEnvironment(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "REQUEST_METHOD"} {
		t.Setenv(name, "")
	}
	if https, http, _, err := EnvironmentProxies().Named(); https != "" || http != "" || err != nil {
		t.Errorf("without any: %q, %q, %v", https, http, err)
	}
	t.Setenv("HTTPS_PROXY", "http://user:secret@proxy.test:3128")
	t.Setenv("http_proxy", "plain.test:8080")
	t.Setenv("NO_PROXY", ".corp.test,10.0.0.0/8")
	p := EnvironmentProxies()
	for base, want := range map[string]string{
		"https://api.test/v1":    "http://user:secret@proxy.test:3128",
		"http://api.test":        "http://plain.test:8080",
		"https://llm.corp.test":  "",
		"http://10.1.2.3:8000":   "",
		"http://127.0.0.1:11434": "",
		"http://localhost:11434": "",
		"http://[::1]:11434":     "",
	} {
		if got := p.For(base); got != want {
			t.Errorf("%s: %q, want %q", base, got, want)
		}
	}
	https, http, exempt, err := p.Named()
	if https != "http://****@proxy.test:3128" || http != "http://plain.test:8080" || exempt != ".corp.test,10.0.0.0/8" || err != nil {
		t.Errorf("named %q, %q, %q, %v", https, http, exempt, err)
	}
	t.Setenv("HTTPS_PROXY", "socks5://user:secret@proxy.test")
	p = EnvironmentProxies()
	if _, _, _, err := p.Named(); p.For("https://api.test") != "" || err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "HTTPS_PROXY") {
		t.Errorf("a proxy of another kind: %q, %v", p.For("https://api.test"), err)
	}
}

// A private authority is trusted where it is named, and only there; a client
// certificate is shown to servers that ask, and a server name replaces the host's.
func TestTLSOfARoute(t *testing.T) {
	t.Parallel()
	private, other := newAuthority(t), newAuthority(t)
	config := private.serverConfig(t, "llm.corp.test", time.Hour)
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = pool509(other)
	s := hello(t, config)
	certificate, key := other.issue(t, "gateway", time.Hour)
	cl := client(t, Options{})
	base := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	whole := Route{CA: private.pem, Certificate: certificate, Key: key, ServerName: "llm.corp.test"}
	for n := range 2 {
		if r, _ := mustAsk(t, cl, via(t, base, whole), post("x")); r.Reused != (n > 0) {
			t.Error("equal routes do not share their connections")
		}
	}
	for want, r := range map[Cause]Route{
		CauseUnknownAuthority: {CA: other.pem, Certificate: certificate, Key: key, ServerName: "llm.corp.test"},
		CauseWrongName:        {CA: private.pem, Certificate: certificate, Key: key},
		CauseTLS:              {CA: private.pem, ServerName: "llm.corp.test"},
	} {
		_, err := cl.Send(t.Context(), new(via(t, base, r)), post("x"), Timeouts{Connect: waittest.Limit, FirstByte: waittest.Limit})
		if got := CauseOf(err); got != want {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
	}
}

func TestInvalidRoutesAreRefused(t *testing.T) {
	t.Parallel()
	certificate, _ := newAuthority(t).issue(t, "a", time.Hour)
	_, key := newAuthority(t).issue(t, "b", time.Hour)
	for name, r := range map[string]Route{
		"no scheme":         {Proxy: "user:secret@proxy:3128"},
		"another scheme":    {Proxy: "socks5://user:secret@proxy:3128"},
		"no host":           {Proxy: "http://user:secret@:3128"},
		"a port beyond":     {Proxy: "http://user:secret@proxy:99999"},
		"a path":            {Proxy: "http://user:secret@proxy/pac"},
		"metadata":          {Proxy: "http://user:secret@169.254.169.254"},
		"no certificate":    {CA: "secret"},
		"half a pair":       {Certificate: certificate},
		"not a pair":        {Certificate: certificate, Key: key},
		"a name with space": {ServerName: "secret name"},
	} {
		if _, err := origin(t, "https://h").Via(r); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for address, want := range map[string]string{
		"": "", "none": "none", "http://p:1": "http://p:1", "http://u:p@p:1": "http://****@p:1", "https://token@p": "https://****@p",
	} {
		if got := MaskedProxy(address); got != want || IsMaskedProxy(got) != strings.Contains(want, "*") {
			t.Errorf("%q is shown as %q", address, got)
		}
	}
}

// A route may keep fewer idle connections than the client would, or none.
func TestIdleConnectionsOfARoute(t *testing.T) {
	t.Parallel()
	for maxIdle, want := range map[int]int{0: 4, 2: 2, -1: 0} {
		var mu sync.Mutex
		closing := 0
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if r.Close {
				closing++
			}
		}))
		t.Cleanup(s.Close)
		cl := client(t, Options{})
		to := via(t, s.URL, Route{MaxIdle: maxIdle})
		var held []*Response
		for range 4 {
			r, err := cl.Send(t.Context(), &to, post("x"), Timeouts{})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, r)
		}
		for _, r := range held {
			io.Copy(io.Discard, r)
			r.Close()
		}
		if got := idleCount(cl); got != want {
			t.Errorf("at most %d: %d are kept", maxIdle, got)
		}
		if (closing == 4) != (maxIdle < 0) {
			t.Errorf("at most %d: %d requests asked to close", maxIdle, closing)
		}
	}
}
