package storetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// Faults is a Toxiproxy between a test and a server.
type Faults struct {
	URL     string // of the server, by way of the proxy
	Address string

	t        testing.TB
	upstream string
	proxy    *Server
}

// Between starts a proxy in front of a server.
func Between(t testing.TB, s *Server) *Faults {
	t.Helper()
	host, port := freePort(t)
	binary := toxiproxy(t)
	proxy := &Server{t: t, Address: net.JoinHostPort(host, port)}
	proxy.URL = "http://" + proxy.Address
	proxy.command = func() *exec.Cmd {
		return exec.CommandContext(context.Background(), binary, "-host", host, "-port", port)
	}
	f := &Faults{t: t, upstream: s.Address, proxy: proxy, Address: FreeAddress(t)}
	for f.Address == proxy.Address { // what was free a moment ago may be given again
		f.Address = FreeAddress(t)
	}
	f.URL = strings.Replace(s.URL, s.Address, f.Address, 1)
	proxy.ready = f.create
	proxy.Start()
	return f
}

// create makes the way to the server.
func (f *Faults) create(ctx context.Context) error {
	return f.call(ctx, "/proxies", map[string]any{"name": "store", "listen": f.Address, "upstream": f.upstream, "enabled": true})
}

// toxiproxy returns the path of the proxy, which the tools of this project have.
func toxiproxy(t testing.TB) string {
	t.Helper()
	mod, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		t.Skip("there is no go command to build Toxiproxy with")
	}
	tools := filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "tools", "go.mod")
	build := exec.CommandContext(t.Context(), "go", "tool", "-modfile="+tools, "-n", "github.com/Shopify/toxiproxy/v2/cmd/server")
	// As make does it, also for tests that run with the race detector and so with cgo:
	// else all that it consists of would be compiled once more.
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	path, err := build.Output()
	if err != nil {
		t.Skip("Toxiproxy cannot be built")
	}
	return strings.TrimSpace(string(path))
}

// Slow delays everything that the server says.
func (f *Faults) Slow(by time.Duration) {
	f.t.Helper()
	f.toxic("latency", map[string]any{"latency": by.Milliseconds()})
}

// Swallow drops everything that the server says, with the connection open.
func (f *Faults) Swallow() {
	f.t.Helper()
	f.toxic("timeout", map[string]any{"timeout": 0})
}

// Tear ends a connection where the server would say the given number of bytes
// more: it has done what it was told, and nobody hears of it.
func (f *Faults) Tear(after int) {
	f.t.Helper()
	f.toxic("limit_data", map[string]any{"bytes": after})
}

// Cut closes every connection and lets none through.
func (f *Faults) Cut() {
	f.t.Helper()
	f.tell("/proxies/store", map[string]any{"enabled": false})
}

// Any makes one fault of these, or none.
//
//nolint:gosec // which fault it is need not be a secret
func (f *Faults) Any() {
	f.t.Helper()
	switch rand.N(5) {
	case 0:
		f.Slow(rand.N(200 * time.Millisecond))
	case 1:
		f.Swallow()
	case 2:
		f.Tear(rand.N(2000))
	case 3:
		f.Cut()
	}
}

// Heal takes all faults back. The proxy can lock itself up over a fault that is
// in use; then it is replaced.
func (f *Faults) Heal() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if f.call(ctx, "/reset", nil) != nil {
		f.proxy.Kill()
		f.proxy.Start()
	}
}

func (f *Faults) toxic(kind string, attributes map[string]any) {
	f.t.Helper()
	f.tell("/proxies/store/toxics", map[string]any{"type": kind, "stream": "downstream", "toxicity": 1, "attributes": attributes})
}

func (f *Faults) tell(path string, body map[string]any) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.call(ctx, path, body); err != nil {
		f.t.Fatal(err)
	}
}

func (f *Faults) call(ctx context.Context, path string, body map[string]any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.proxy.URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request) //nolint:forbidigo // a test's client
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %s %s", path, response.Status, said)
	}
	return err
}
