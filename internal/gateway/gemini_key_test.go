package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A key in a query counts as one in a header, at every path of Gemini's API, and is told to
// nobody: no log, record, trace or backend has it.
func TestAKeyInAQueryIsToldToNobody(t *testing.T) {
	t.Parallel()
	const secret = "secret-in-the-query"
	traces := new(collector)
	server := httptest.NewServer(traces)
	defer server.Close()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, everyDoor(b)+"telemetry: {enabled: true, endpoint: '"+server.URL+"'}\n"+
		"monitoring: {capture: headers, performance: {flush-interval: PT0.1S}}\nsecurity: {enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: "+
		gatewaytest.HashOf("admin-token")+"}], keys: [{id: k, key-sha256: "+gatewaytest.HashOf(secret)+"}]}\n")
	const contents = `{"contents":[{"parts":[{"text":"hi"}]}]}`
	asked := 0
	for _, row := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, "/v1beta/models/m:generateContent?key=", contents, 200},
		{http.MethodPost, "/v1beta/models/gemini:generateContent?key=", contents, 200},
		{http.MethodPost, "/v1/models/m:streamGenerateContent?alt=sse&key=", contents, 200},
		{http.MethodPost, "/v1beta/models/gemini:streamGenerateContent?key=", contents, 200},
		{http.MethodPost, "/v1beta/models/gemini:countTokens?key=", contents, 200},
		{http.MethodPost, "/v1beta/models/m:embedContent?key=", `{"content":{"parts":[{"text":"hi"}]}}`, 200},
		{http.MethodPost, "/v1/models/m:batchEmbedContents?key=", `{"requests":[{"content":{"parts":[{"text":"hi"}]}}]}`, 200},
		{http.MethodGet, "/v1beta/models?key=", "", 200},
		{http.MethodGet, "/v1beta/models/m?key=", "", 200},
		{http.MethodPost, "/v1beta/models/m:generateContent?key=", `{`, 400},
		{http.MethodPost, "/v1beta/models/unknown:generateContent?key=", contents, 404},
		{http.MethodPost, "/v1beta/models/m:predict?key=", contents, 404},
		{http.MethodPost, "/v1beta/files?key=", "", 404},
		{http.MethodPost, "/v1beta/models/m:generateContent?key=wrong-", contents, 401},
		{http.MethodPost, "/v1beta/models/m:generateContent?other=", contents, 401},
	} {
		reply := r.Do(row.method, row.path+secret, row.body)
		if reply.Status != row.status && !(row.status == 404 && reply.Status == 405) {
			t.Errorf("%s %s: %d %s", row.method, row.path, reply.Status, reply.Body)
		}
		if strings.Contains(reply.Body, secret) {
			t.Errorf("%s shows the key: %s", row.path, reply.Body)
		}
		if row.method == http.MethodPost && row.status != 404 {
			asked++
		}
	}
	for _, request := range b.Requests() {
		if strings.Contains(request.Path, secret) || strings.Contains(fmt.Sprint(request.Header), secret) {
			t.Errorf("a backend got the key: %s %v", request.Path, request.Header)
		}
	}
	gatewaytest.Eventually(t, "all calls are traced", func() bool { return len(traces.received()) >= asked })
	for _, span := range traces.received() {
		if strings.Contains(span.String(), secret) {
			t.Errorf("a trace has the key: %v", span)
		}
	}
	for _, path := range []string{"/api/monitoring/calls", "/api/monitoring/calls?limit=1000", "/metrics", "/actuator/env"} {
		if shown := r.Do(http.MethodGet, path, "", bearer("admin-token")...); strings.Contains(shown.Body, secret) {
			t.Errorf("%s shows the key: %s", path, shown.Body)
		}
	}
	if strings.Contains(r.Logs.String(), secret) {
		t.Error("the log has the key")
	}
}
