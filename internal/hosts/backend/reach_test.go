package backend

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func problemsOf(s Settings) []string {
	var found []string
	s.Check(func(path string, fault say.Sentence) { found = append(found, path+": "+fault.String()) })
	return found
}

func TestTLSFilesAreChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	empty := filepath.Join(dir, "empty")
	for name, content := range map[string]string{text: "secret text", empty: ""} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		base, proxy string
		idle        int
		tls         TLS
		want        string
	}{
		{base: "https://h", tls: TLS{}},
		{base: "https://h", tls: TLS{ServerName: "other.test"}},
		{base: "https://h", tls: TLS{CA: filepath.Join(dir, "missing")}, want: "tls.ca: the file does not exist: " + filepath.Join(dir, "missing")},
		{base: "https://h", tls: TLS{CA: dir}, want: "tls.ca: is no file of certificates"},
		{base: "https://h", tls: TLS{CA: empty}, want: "tls.ca: the file is empty"},
		{base: "https://h", tls: TLS{CA: text}, want: "tls: the file of authorities holds no certificate (PEM)"},
		{base: "https://h", tls: TLS{Cert: text}, want: "tls: needs both cert and key, or none of them"},
		{base: "https://h", tls: TLS{Cert: text, Key: text}, want: "tls: certificate and key are not a pair (PEM)"},
		{base: "http://h", tls: TLS{CA: text}, want: "tls: is of no use for an address that is not https"},
		{base: "http://h", proxy: "none"},
		{base: "http://h", proxy: "http://user:secret@proxy:3128"},
		{base: "http://h", proxy: "socks5://user:secret@proxy", want: "proxy: must be"},
		{base: "http://h", idle: -1, want: "idleConnections: must not be negative"},
	} {
		s := DefaultSettings()
		s.Name, s.BaseURL, s.Proxy, s.IdleConnections, s.TLS = "m", c.base, c.proxy, c.idle, c.tls
		got := strings.Join(problemsOf(s), "; ")
		if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) || strings.Contains(got, "secret") {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
	}
}

// Instances of llama.cpp use a connection for each call, others keep theirs; the
// settings of the instance decide otherwise.
func TestKeptConnectionsPerKind(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, c := range []struct {
		kind string
		keep *bool
		idle int
		want bool
	}{
		{kind: "vllm", want: true},
		{kind: "vllm", keep: &no},
		{kind: "llamacpp"},
		{kind: "llamacpp", keep: &yes, want: true},
		{kind: "llamacpp", idle: 2, want: true},
		{kind: "llamacpp", keep: &no, idle: 2},
	} {
		var mu sync.Mutex
		var from []string
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			from = append(from, r.RemoteAddr)
		}))
		i := makeInstance(t, c.kind, "m", s.URL, nil, func(s *Settings) { s.KeepAlive, s.IdleConnections = c.keep, c.idle })
		client := transport.New(transport.Options{})
		for range 2 {
			r, err := client.Send(t.Context(), &i.Origin, getCall("/"), transport.Timeouts{})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, r)
			r.Close()
		}
		if kept := len(slices.Compact(from)) == 1; kept != c.want {
			t.Errorf("%s, keep-alive %v, %d idle: kept %v", c.kind, c.keep, c.idle, kept)
		}
		client.Close()
		s.Close()
	}
}

// The setting of an instance wins over the environment.
func TestProxyOfAnInstance(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://of-environment.test:1")
	t.Setenv("NO_PROXY", "")
	dialled := func(base, proxy string) string {
		s := DefaultSettings()
		s.Name, s.BaseURL, s.Proxy = "m", base, proxy
		i, err := New(s, schema.Chat, Policy{Adapter: "vllm", Breaker: breaker.DefaultSettings(), Limit: ratelimit.DefaultSettings(), Proxies: transport.EnvironmentProxies()}, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return dialOf(t, i.Origin)
	}
	for _, c := range [][3]string{
		{"http://h.test", "", "of-environment.test:1"},
		{"http://h.test", "none", "h.test:80"},
		{"http://h.test", "http://own.test:2", "own.test:2"},
		{"http://127.0.0.1:8000", "", "127.0.0.1:8000"},
		{"http://127.0.0.1:8000", "http://own.test:2", "own.test:2"},
	} {
		if got := dialled(c[0], c[1]); got != c[2] {
			t.Errorf("%s with proxy %q: %s was dialled, want %s", c[0], c[1], got, c[2])
		}
	}
}

func getCall(path string) *wire.Call { return &wire.Call{Method: "GET", Path: path} }

// dialOf returns the address that a call to an origin dials.
func dialOf(t *testing.T, to transport.Origin) string {
	t.Helper()
	var dialled string
	client := transport.New(transport.Options{Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
		dialled = addr
		return nil, errors.New("not today")
	}})
	defer client.Close()
	_, _ = client.Send(t.Context(), &to, getCall("/"), transport.Timeouts{})
	return dialled
}
