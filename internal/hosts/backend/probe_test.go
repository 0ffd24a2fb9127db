package backend

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func TestEveryKindIsAskedInItsCheapestWay(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"openai":     "/v1/models",
		"gpustack":   "/v1/models",
		"xinference": "/v1/models",
		"vllm":       "/health",
		"llamacpp":   "/health",
		"whispercpp": "/health",
		"tei":        "/health",
		"localai":    "/readyz",
		"ollama":     "/api/version",
		"azure":      "/openai/models", // which refuses to tell without a key, at once
		// Hosted: an answer may cost, and a wrong key may lock the right one out.
		"cohere": "", "jina": "", "anthropic": "", "gemini": "",
	} {
		k, err := kinds.Lookup(kind)
		if err != nil {
			t.Logf("no such kind yet: %s", kind)
			continue
		}
		if k.Health != want {
			t.Errorf("%s is asked at %q, want %q", kind, k.Health, want)
		}
	}
}

func TestTheHealthPathRespectsTheBaseURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, base, want string }{
		{"vllm", "http://h", "/health"},
		{"vllm", "http://h/", "/health"},
		{"vllm", "http://h/v1", "/health"},
		{"vllm", "http://h/v1/", "/health"},
		{"vllm", "http://h/team/a%20b/v1", "/team/a%20b/health"},
		{"openai", "http://h", "/v1/models"},
		{"openai", "http://h/v1", "/v1/models"},
		{"openai", "http://h/api/v1/", "/api/v1/models"},
		{"openai", "http://h/api", "/api/v1/models"},
		{"localai", "http://h/v1", "/readyz"},
		{"cohere", "http://h/v2", ""},
		{"azure", "http://h", "/openai/models?api-version=2024-10-21"},
		{"azure", "http://h/openai/", "/openai/models?api-version=2024-10-21"},
		{"azure", "http://h/proxy", "/proxy/openai/models?api-version=2024-10-21"},
		{"azure", "http://h/openai/v1/", "/openai/v1/models"},
	} {
		i := makeInstance(t, c.kind, "m", c.base, nil, nil)
		if got := healthPath(i); got != c.want {
			t.Errorf("%s at %s: %q, want %q", c.kind, c.base, got, c.want)
		}
	}
	for base, want := range map[string]string{"http://h": "/ok?x=1", "http://h/v1": "/ok?x=1", "http://h/team/v1/": "/team/ok?x=1", "http://h/openai/v1": "/openai/ok?x=1"} {
		i := makeInstance(t, "openai", "m", base, nil, func(s *Settings) { s.HealthPath = "/ok?x=1" })
		if got := healthPath(i); got != want {
			t.Errorf("a path of its own at %s: %q, want %q", base, got, want)
		}
	}
	ownRoute := &Instance{Settings: Settings{BaseURL: "http://h/api"}, Kind: &dialect.Kind{Health: "/api/version"}}
	if got := healthPath(ownRoute); got != "/api/version" {
		t.Errorf("the first segment is doubled or lost: %q", got)
	}
}

// probeOnce probes an instance as a checker would.
func probeOnce(t *testing.T, i *Instance, options transport.Options, timeout time.Duration) probeResult {
	t.Helper()
	client := transport.New(options)
	defer client.Close()
	p := prober{client, client.Connect}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return p.probe(ctx, i.Origin, healthPath(i), i.Target)
}

func TestStatusOfAProbeDecidesItsResult(t *testing.T) {
	t.Parallel()
	b := startBackend(t, simulator.Options{})
	for name, c := range map[string]struct {
		step simulator.Step
		want probeResult
	}{
		"200":                   {simulator.Step{}, probeResult{finding: alive}},
		"204":                   {simulator.Step{Status: 204, NoBody: true}, probeResult{finding: alive}},
		"redirect":              {simulator.Step{Status: 302, NoBody: true, Header: http.Header{"Location": {"http://127.0.0.1:1/"}}}, probeResult{finding: alive}},
		"wrong key":             {simulator.Step{Status: 401}, probeResult{finding: alive}},
		"forbidden":             {simulator.Step{Status: 403}, probeResult{finding: alive}},
		"no such path":          {simulator.Step{Status: 404}, probeResult{finding: alive}},
		"method not allowed":    {simulator.Step{Status: 405}, probeResult{finding: alive}},
		"too many requests":     {simulator.Step{Status: 429}, probeResult{finding: alive}},
		"a long answer":         {simulator.Step{Body: strings.Repeat(" ", 1<<20)}, probeResult{finding: alive}},
		"an answer cut short":   {simulator.Step{Body: `{"data":[]}`, Stop: simulator.StopClose}, probeResult{finding: alive}},
		"500":                   {simulator.Step{Status: 500}, probeResult{dead, "status_500"}},
		"502 page":              {simulator.Step{Status: 502, Body: simulator.HTMLPage}, probeResult{dead, "status_502"}},
		"504":                   {simulator.Step{Status: 504, NoBody: true}, probeResult{dead, "status_504"}},
		"503":                   {simulator.Step{Status: 503}, probeResult{dead, "status_503"}},
		"503 without a body":    {simulator.Step{Status: 503, NoBody: true}, probeResult{dead, "status_503"}},
		"llama.cpp loads":       {simulator.Step{Status: 503, Body: `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`}, probeResult{finding: loading}},
		"plain text loads":      {simulator.Step{Status: 503, Body: "model is loading"}, probeResult{finding: loading}},
		"loading cut short":     {simulator.Step{Status: 503, Body: `{"status":"loading model"}` + strings.Repeat(" ", 100), Stop: simulator.StopClose}, probeResult{finding: loading}},
		"loading failed":        {simulator.Step{Status: 503, Body: `{"error":{"message":"Loading model failed"}}`}, probeResult{dead, "status_503"}},
		"a page that says so":   {simulator.Step{Status: 503, Body: "<html>loading</html>"}, probeResult{dead, "status_503"}},
		"said beyond 4 KiB":     {simulator.Step{Status: 503, Body: strings.Repeat(" ", 4<<10) + "loading"}, probeResult{dead, "status_503"}},
		"500 that says so":      {simulator.Step{Status: 500, Body: `{"error":"loading"}`}, probeResult{dead, "status_500"}},
		"reset":                 {simulator.Step{Reset: true}, probeResult{dead, "connection_reset"}},
		"closed without a word": {simulator.Step{Raw: "HT"}, probeResult{dead, "connection_closed"}},
		"garbage":               {simulator.Step{Raw: "SSH-2.0-OpenSSH_9.9\r\n\r\n"}, probeResult{dead, "not_http"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.SetProbe(c.step)
			i := makeInstance(t, "openai", "m", b.URL(), nil, nil)
			if got := probeOnce(t, i, transport.Options{}, waittest.Limit); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	b.SetProbe(simulator.Step{Hang: true})
	i := makeInstance(t, "openai", "m", b.URL(), nil, nil)
	wait := 10 * time.Millisecond
	got := probeOnce(t, i, transport.Options{}, wait)
	for got.cause == "connect_timeout" { // a busy machine has not even connected yet
		wait *= 2
		got = probeOnce(t, i, transport.Options{}, wait)
	}
	if got != (probeResult{dead, "response_timeout"}) {
		t.Errorf("silence: %+v", got)
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("%d requests that ask for work", n)
	}
}

func TestAProbeBringsTheInstancesKeyAndHeaders(t *testing.T) {
	t.Parallel()
	b := startBackend(t, simulator.Options{Key: "sk-right"})
	i := makeInstance(t, "openai", "m", b.URL()+"/v1", nil, func(s *Settings) {
		s.APIKey = Literal("sk-right")
		s.Headers = map[string]Secret{"X-Team": Literal("red")}
		s.Path = "/elsewhere?api-version=1"
	})
	probeOnce(t, i, transport.Options{}, waittest.Limit)
	seen := b.Probes()
	if len(seen) != 1 || seen[0].Method != "GET" || seen[0].Path != "/v1/models" || seen[0].BodyLength != 0 ||
		seen[0].Header.Get("Authorization") != "Bearer sk-right" || seen[0].Header.Get("X-Team") != "red" {
		t.Errorf("%+v", seen)
	}
}

func TestACallThatWeCannotWriteIsNotTheBackendsFault(t *testing.T) {
	t.Parallel()
	b := startBackend(t, simulator.Options{})
	i := makeInstance(t, "openai", "m", b.URL(), nil, func(s *Settings) {
		s.Headers = map[string]Secret{"Accept-Encoding": Literal("gzip")}
	})
	if got := probeOnce(t, i, transport.Options{}, waittest.Limit); got.finding != alive {
		t.Errorf("%+v", got)
	}
}

func TestHostedBackendsAreOnlyConnectedTo(t *testing.T) {
	t.Parallel()
	b := startBackend(t, simulator.Options{})
	i := makeInstance(t, "cohere", "m", b.URL(), nil, func(s *Settings) { s.APIKey = Literal("sk") })
	if got := probeOnce(t, i, transport.Options{}, waittest.Limit); got.finding != alive {
		t.Errorf("%+v", got)
	}
	if len(b.Probes()) != 0 || b.Stats().Arrived != 0 {
		t.Error("something was asked")
	}
	gone := makeInstance(t, "cohere", "m", "http://"+waittest.Nobody(t), nil, nil)
	if got := probeOnce(t, gone, transport.Options{}, waittest.Limit); got != (probeResult{dead, "connection_refused"}) {
		t.Errorf("%+v", got)
	}
}

func TestConnectingIncludesTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // a handshake fails here on purpose
	server.StartTLS()
	defer server.Close()
	i := makeInstance(t, "cohere", "m", server.URL, nil, nil)
	if got := probeOnce(t, i, transport.Options{}, waittest.Limit); got != (probeResult{dead, "unknown_authority"}) {
		t.Errorf("a certificate nobody vouches for: %+v", got)
	}
	b := startBackend(t, simulator.Options{})
	plain := makeInstance(t, "jina", "m", strings.Replace(b.URL(), "http:", "https:", 1), nil, nil)
	if got := probeOnce(t, plain, transport.Options{}, waittest.Limit); got != (probeResult{dead, "not_tls"}) {
		t.Errorf("no TLS there: %+v", got)
	}
}

func TestCausesHoldNoAddress(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 4}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for want, err := range map[transport.Cause]error{
		"connection_refused":     refused,
		"host_unreachable":       os.NewSyscallError("connect", syscall.EHOSTUNREACH),
		"unknown_host":           &net.DNSError{Err: "no such host", Name: "secret.internal", IsNotFound: true},
		"name_resolution_failed": &net.DNSError{Err: "server misbehaving", Name: "secret.internal", Server: "10.0.0.1:53"},
		"connect_timeout":        &net.DNSError{Err: "timeout", Name: "secret.internal", IsTimeout: true},
		"certificate_invalid":    fmt.Errorf("x: %w", x509Error()),
		"no_connection":          errors.New("10.0.0.9: something else"),
	} {
		client := transport.New(transport.Options{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, err }})
		p := prober{client, client.Connect}
		i := makeInstance(t, "vllm", "m", "http://10.0.0.9", nil, nil)
		got := p.probe(t.Context(), i.Origin, "/health", new(dialect.Target))
		client.Close()
		if got != (probeResult{dead, want}) {
			t.Errorf("%v: %+v, want %q", err, got, want)
		}
	}
}

func x509Error() error {
	_, err := new(x509.Certificate).Verify(x509.VerifyOptions{Roots: x509.NewCertPool()})
	return &tls.CertificateVerificationError{Err: err}
}

func TestLocalExhaustionIsNotTheBackendsFault(t *testing.T) {
	t.Parallel()
	for _, number := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL} {
		if got := classify(&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", number)}); got.finding != nothing {
			t.Errorf("%v: %+v", number, got)
		}
	}
}

func TestOnlyFailedConnectsAreRefusals(t *testing.T) {
	t.Parallel()
	client := transport.New(transport.Options{})
	defer client.Close()
	origin, err := transport.ParseOrigin("http://" + waittest.Nobody(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Send(t.Context(), &origin, &wire.Call{Method: "GET", Path: "/"}, transport.Timeouts{})
	if !transport.IsRefusal(err) {
		t.Errorf("%v is no refusal", err)
	}
	for _, other := range []error{nil, transport.ErrConnectTimeout, transport.ErrReset, transport.ErrConnect, context.Canceled, &net.DNSError{IsNotFound: true}} {
		if transport.IsRefusal(other) {
			t.Errorf("%v is a refusal", other)
		}
	}
}

// A whole life over real sockets: well, broken, dropped, loading, well again.
func TestTheCheckerFollowsARealBackend(t *testing.T) {
	t.Parallel()
	b := startBackend(t, simulator.Options{})
	f := newWatched(t)
	f.watch(func(s *HealthSettings) { s.Interval = schema.Duration(minInterval) })
	i := f.add("m", b.URL())
	client := transport.New(transport.Options{})
	defer client.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		NewChecker(f.options(client)).Run(ctx)
		close(ended)
	}()
	await := func(status Status, cause string) {
		t.Helper()
		f.await(fmt.Sprintf("to=%v cause=%s", status, cmp.Or(cause, `""`)))
		if f.of(i).Healthy() != getsTraffic(status) {
			t.Errorf("traffic does not follow %v", status)
		}
	}
	await(StatusHealthy, "")
	b.SetProbe(simulator.Step{Status: 500})
	await(StatusUnhealthy, "status_500")
	b.SetProbe(simulator.Step{Status: 503, Body: `{"error":{"message":"Loading model"}}`})
	await(StatusWarming, "")
	b.SetProbe(simulator.Step{})
	await(StatusHealthy, "")
	b.SetDown(true)
	await(StatusUnhealthy, "connection_reset")
	b.SetDown(false)
	await(StatusHealthy, "")
	f.of(i).Refused(time.Now())
	f.await(`to=UNHEALTHY cause=connection_refused`) // the next probe may already have ended that
	await(StatusHealthy, "")
	stop()
	<-ended
	if f.status(i) != StatusUnknown {
		t.Errorf("%v after the checker left", f.status(i))
	}
}

func startBackend(t *testing.T, options simulator.Options) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}
