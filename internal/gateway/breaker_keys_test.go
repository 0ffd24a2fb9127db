package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
)

// poisoned starts a backend that answers with 500 to whoever sends the word poison, and
// streams an error to whoever sends the word venom.
func poisoned(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "poison"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.Contains(string(body), "venom"):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"error":{"message":"the engine failed","type":"server_error","code":500}}`+"\n\n")
		default:
			_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// A key whose requests make the backend fail does not open the breaker for the others, as
// long as theirs succeed.
func TestFailuresOfOneKeyDoNotOpenTheBreakerForOthers(t *testing.T) {
	t.Parallel()
	b := poisoned(t)
	r := gatewaytest.Start(t, keyed(gatewaytest.PolicyYAML("circuit-breaker: {recovery-timeout: 10m}", gatewaytest.Instance("m", b.URL)), "", map[string]string{"a": "", "b": ""}))
	r.Chat(gatewaytest.PlainHi, bearer("a")...).Succeeds(t)
	state := func() breaker.State { return r.Instances("m")[0].Breaker.Snapshot().State }
	for _, body := range []string{`{"model":"m","messages":[{"role":"user","content":"poison"}]}`, `{"model":"m","stream":true,"messages":[{"role":"user","content":"venom"}]}`} {
		for range 10 {
			if reply := r.Chat(body, bearer("b")...); reply.Status < 500 || strings.Contains(reply.Body, "circuit_breaker_open") {
				t.Errorf("%d %s", reply.Status, reply.Body)
			}
		}
		if state() != breaker.Closed {
			t.Fatalf("the breaker is %v", state())
		}
		r.Chat(gatewaytest.PlainHi, bearer("a")...).Succeeds(t)
	}
	for n := range 5 {
		r.Chat(`{"model":"m","messages":[{"role":"user","content":"poison"}]}`, bearer([]string{"a", "b"}[n%2])...)
	}
	if state() != breaker.Open {
		t.Errorf("both keys fail, and the breaker is %v", state())
	}
}

// Connections that break count, whose ever they are.
func TestBrokenConnectionsOfOneKeyOpenTheBreaker(t *testing.T) {
	t.Parallel()
	b := poisoned(t)
	r := gatewaytest.Start(t, keyed(gatewaytest.PolicyYAML("health-check: {enabled: false}", gatewaytest.Instance("m", b.URL)), "", map[string]string{"a": "", "b": ""}))
	r.Chat(gatewaytest.PlainHi, bearer("a")...).Succeeds(t)
	b.Close()
	for range 5 {
		r.Chat(gatewaytest.PlainHi, bearer("b")...)
	}
	if got := r.Instances("m")[0].Breaker.Snapshot().State; got != breaker.Open {
		t.Errorf("the breaker is %v", got)
	}
}
