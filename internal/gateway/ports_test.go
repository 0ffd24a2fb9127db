package gateway_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// overSocket is a client that reaches every address by a socket in the file system.
func overSocket(t *testing.T, path string) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// statusOf sends a request and returns the status of the reply and its body.
func statusOf(t *testing.T, client *http.Client, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(said)
}

// The unified API and management are each served at their own addresses only, which may
// be ports and sockets in the file system.
func TestManagementOnAddressesOfItsOwn(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "m")
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "server: {management-listen: ['127.0.0.1:0', 'unix:"+socket+"']}\n"+gatewaytest.PoolYAML(b))
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.Do(http.MethodGet, "/v1/models", "").Succeeds(t)
	paths := []string{"/api/config/instance/type/chat", "/actuator/health", "/actuator", "/docs/api", "/openapi.json", "/"}
	tcp := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range paths {
		if got, _ := statusOf(t, tcp, http.MethodGet, r.URL+path, ""); got != http.StatusNotFound {
			t.Errorf("%s is %d beside the unified API", path, got)
		}
	}
	// Errors of both lead to the documentation.
	if got, _ := statusOf(t, tcp, http.MethodGet, r.URL+"/docs/traffic", ""); got != http.StatusOK {
		t.Errorf("the documentation is %d beside the unified API", got)
	}
	for base, client := range map[string]*http.Client{"http://" + r.ManagementAddress(): tcp, "http://localhost": overSocket(t, socket)} {
		for _, path := range append(paths[:4:4], "/docs", "/docs/errors") {
			if got, said := statusOf(t, client, http.MethodGet, base+path, ""); got != http.StatusOK {
				t.Errorf("%s%s is %d: %s", base, path, got, said)
			}
		}
		if got, _ := statusOf(t, client, http.MethodPost, base+"/v1/chat/completions", gatewaytest.PlainHi); got != http.StatusNotFound {
			t.Errorf("the unified API is %d at %s", got, base)
		}
	}
}

// A socket in the file system is this machine: management is open there, and not to
// clients that a proxy names.
func TestOpenManagementHoldsPerAddress(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "m")
	r := gatewaytest.Start(t, "server: {management-listen: 'unix:"+socket+"'}\n")
	client := overSocket(t, socket)
	const url = "http://localhost/api/config/instance/type/chat"
	if got, said := statusOf(t, client, http.MethodGet, url, ""); got != http.StatusOK {
		t.Errorf("%d: %s", got, said)
	}
	if got, _ := statusOf(t, client, http.MethodGet, url, "", "X-Forwarded-For", "192.0.2.1"); got != http.StatusForbidden {
		t.Errorf("a client elsewhere gets %d", got)
	}
	if got, _ := statusOf(t, client, http.MethodGet, "http://evil.test/api/config/instance/type/chat", ""); got != http.StatusForbidden {
		t.Errorf("another host name gets %d", got)
	}
	doc := r.Document.Clone()
	doc.Server.ManagementListen = append(doc.Server.ManagementListen, "0.0.0.0:0")
	var unsafe *gateway.UnsafeError
	if err := gateway.CheckListen(doc); !errors.As(err, &unsafe) || unsafe.Listen != "0.0.0.0:0" {
		t.Errorf("one open address among others: %v", err)
	}
}

// On a listener of its own Ollama's API is where Ollama has it, beside the unified API, and
// management is not: neither its paths nor its errors. Keys hold, and so does the rule for
// addresses that other machines reach.
func TestOllamaOnAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "server: {ollama-listen: '127.0.0.1:0'}\n"+budgeted(gatewaytest.PoolYAML(b), map[string]string{"key": ""}))
	at := "http://" + r.Ports[1].Listener.Addr().String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	const chat, key, admin = `{"model":"m","stream":false,"messages":[{"role":"user","content":"hi"}]}`, "key", "admin-token"
	for _, row := range []struct {
		method, path, body, key string
		status                  int
		says                    string
	}{
		{"GET", "/", "", "", 200, "Ollama is running"},
		{"HEAD", "/", "", "", 200, ""},
		{"GET", "/api/version", "", "", 200, `"version"`},
		{"POST", "/api/chat", chat, key, 200, `"done":true`},
		{"POST", "//api//chat", chat, key, 200, `"done":true`},
		{"POST", "/ollama/api/chat", chat, key, 200, `"done":true`},
		{"POST", "/v1/chat/completions", chat, key, 200, `"choices"`},
		{"GET", "/api/tags", "", key, 200, `"m"`},
		{"POST", "/api/chat", chat, "", 401, `{"error":"`},
		{"GET", "/api/tags", "", "", 401, `{"error":"`},
		{"POST", "/api/pull", "{}", "", 401, `{"error":"`},
		{"POST", "/api/pull", "{}", key, 403, `{"error":"`},
		{"GET", "/api/config/instance/type/chat", "", admin, 404, `{"error":"`},
		{"GET", "//api/config/instance/type/chat", "", admin, 404, `{"error":"`},
		{"GET", "/api/../actuator/env", "", admin, 404, ""},
		{"GET", "/actuator/health", "", admin, 404, ""},
		{"GET", "/openapi.json", "", admin, 404, ""},
	} {
		var headers []string
		if row.key != "" {
			headers = bearer(row.key)
		}
		if got, said := statusOf(t, client, row.method, at+row.path, row.body, headers...); got != row.status || !strings.Contains(said, row.says) {
			t.Errorf("%s %s with %q: %d %s, want %d with %s", row.method, row.path, row.key, got, said, row.status, row.says)
		}
	}
	if got, said := statusOf(t, client, "GET", r.URL+"/api/tags", "", bearer(key)...); got == 200 {
		t.Errorf("the main address has Ollama's paths: %s", said)
	}
	doc := r.Document.Clone()
	doc.Security.Enabled, doc.Server.OllamaListen = false, []string{"0.0.0.0:0"}
	var unsafe *gateway.UnsafeError
	if err := gateway.CheckListen(doc); !errors.As(err, &unsafe) || unsafe.Listen != "0.0.0.0:0" {
		t.Errorf("an open address: %v", err)
	}
}
