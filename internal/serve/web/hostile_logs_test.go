package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A request without credentials writes no more than a short line, whatever it has in its
// path, its method and its headers.
func TestLogLinesAreShortWhateverIsSent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long", 14_000)
	secured, open := gatewaytest.Start(t, gatewaytest.SecuredYAML()), gatewaytest.Start(t, "security: {allow-open: true}\n")
	requests := []string{
		"GET /" + long + " HTTP/1.1\r\nHost: x\r\n", "GET //" + long + "// HTTP/1.1\r\nHost: x\r\n", "GET /%2e%2e/" + long + " HTTP/1.1\r\nHost: x\r\n",
		"GET /?" + long + " HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: " + long + "\r\n", strings.ToUpper(long) + " /v1/models HTTP/1.1\r\nHost: x\r\n",
		strings.ToUpper(long) + " /api/models HTTP/1.1\r\nHost: x\r\n", "CONNECT " + long + ":443 HTTP/1.1\r\nHost: x\r\n", "GET http://x/" + long + " HTTP/1.1\r\nHost: x\r\n",
	}
	for _, header := range []string{"User-Agent", "X-Request-Id", "X-Tenant-Id", "X-Forwarded-For", "Forwarded", "Traceparent", "Authorization", "X-Api-Key", "Cookie", "Origin", "Content-Type", "Accept", "X-Stainless-Retry-Count", "Last-Event-ID"} {
		for _, target := range []string{"GET /v1/models", "POST /v1/chat/completions", "GET /api/models", "DELETE /api/auth/keys/k"} {
			requests = append(requests, target+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"+header+": "+long+"\r\n")
		}
	}
	for _, route := range secured.Routes {
		if method, path, _ := strings.Cut(route.Pattern, " "); gatewaytest.PathParameter.MatchString(path) {
			requests = append(requests, method+" "+gatewaytest.PathParameter.ReplaceAllString(path, long[:len(long)/2])+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n")
		}
	}
	for _, r := range []*gatewaytest.Gateway{secured, open} {
		for _, request := range requests {
			if got := r.SendRaw(request + "Connection: close\r\n\r\n"); got.Status == 0 || len(got.Body) > 4<<10 && got.Status != http.StatusOK {
				t.Errorf("%.60s: %d, %d bytes", request, got.Status, len(got.Body))
			}
		}
		for line := range strings.Lines(r.Logs.String()) {
			if len(line) > 2<<10 {
				t.Errorf("a line of %d bytes: %.400s", len(line), line)
			}
		}
	}
}
