package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// The configurations of docs/proxies.md do what the page says: events pass as they come,
// large bodies pass, and the gateway knows the address of the client.
func TestBehindNginxAndCaddy(t *testing.T) {
	t.Parallel()
	page := string(gatewaytest.ReadFile(t, filepath.Join(repository, "docs", "proxies.md")))
	for name, proxy := range map[string]struct {
		language, file, frame string
		command               []string
		// client is the address that the gateway is told where the client claims that
		// of another machine.
		client string
	}{
		"nginx": {"nginx", "nginx.conf", "daemon off; pid nginx.pid; error_log stderr; events {} http { access_log off; client_body_temp_path temp; proxy_temp_path temp; " +
			"fastcgi_temp_path temp; uwsgi_temp_path temp; scgi_temp_path temp;\n%s}", []string{"-p", ".", "-c", "nginx.conf"}, "203.0.113.9"},
		"caddy": {"caddyfile", "Caddyfile", "{\n\tadmin off\n}\n%s", []string{"run", "--config", "Caddyfile"}, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(name)
			if err != nil {
				if program, err = exec.LookPath("/usr/sbin/" + name); err != nil {
					t.Skip(name + " is not installed")
				}
			}
			block := regexp.MustCompile("(?s)```" + proxy.language + "\n(.*?)```").FindStringSubmatch(page)
			if block == nil {
				t.Fatal("the page has no configuration of it")
			}
			backend := gatewaytest.StartHeldBackend(t)
			gateway := gatewaytest.Start(t, fmt.Sprintf("services: {chat: {instances: [{name: m, base-url: %q}]}}", backend.URL))
			front := storetest.FreeAddress(t)
			addresses := strings.NewReplacer("127.0.0.1:8443", front, "127.0.0.1:8080", strings.TrimPrefix(gateway.URL, "http://"))
			dir := t.TempDir()
			gatewaytest.WriteFile(t, filepath.Join(dir, proxy.file), fmt.Sprintf(proxy.frame, addresses.Replace(block[1])))
			runProxy(t, dir, program, proxy.command...)
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			ask := func(method, path, body string) (*http.Response, error) {
				request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), method, "http://"+front+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("X-Forwarded-For", "203.0.113.9")
				request.Header.Set("X-Request-Id", "through-"+name)
				return client.Do(request)
			}
			gatewaytest.Eventually(t, name+" answers", func() bool {
				reply, err := ask(http.MethodGet, "/v1/models", "")
				if err != nil {
					return false
				}
				_ = reply.Body.Close()
				return reply.StatusCode == http.StatusOK
			})
			large := strings.Repeat("x", 2<<20)
			reply, err := ask(http.MethodPost, "/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"`+large+`"}]}`)
			if err != nil {
				t.Fatal(err)
			}
			defer reply.Body.Close()
			events := bufio.NewReader(reply.Body)
			if first, err := events.ReadString('\n'); err != nil || !strings.Contains(first, `"first"`) {
				t.Fatalf("status %d, first line %q: %v", reply.StatusCode, first, err)
			}
			close(backend.Open) // the first event is here before the backend sends the last
			if rest, err := io.ReadAll(events); err != nil || !strings.Contains(string(rest), "data: [DONE]") {
				t.Errorf("%v: %s", err, rest)
			}
			gatewaytest.Eventually(t, "the call is recorded with the address of its client", func() bool {
				record := gateway.Do(http.MethodGet, "/api/monitoring/calls/through-"+name, "")
				return record.Status == http.StatusOK && strings.Contains(record.Body, `"`+proxy.client+`"`)
			})
		})
	}
}

// runProxy runs a program until the end of the test.
func runProxy(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	c := exec.CommandContext(gatewaytest.Deadline(t), program, args...)
	out := new(gatewaytest.Buffer)
	c.Dir, c.Stdout, c.Stderr = dir, out, out
	c.Env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait() // it was told to end
		if t.Failed() {
			t.Log(out.String())
		}
	})
}
