package monitor_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// What a backend repeats of a prompt in its error is shown and found from OPERATOR on,
// wherever errors are told; VIEWER has status and code.
func TestWordsOfBackendsAreForOperators(t *testing.T) {
	t.Parallel()
	const secret = "the-prompt-of-somebody"
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"error":{"message":"cannot parse '` + secret + `'; weight 0; ` + secret + `"}}`))
	}))
	t.Cleanup(b.Close)
	r := gatewaytest.Start(t, "monitoring: {calls: 2, calls-file: {enabled: true}}\n"+
		gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL))+gatewaytest.SecuredYAML())
	feeds := map[string]map[string]*liveReader{"/stream": {}, "/live": {}}
	for _, who := range []string{asViewer, asOperator} {
		for path, readers := range feeds {
			readers[who] = follow(r, path, who)
		}
	}
	for _, id := range []string{"one", "two", "three", "four"} {
		r.Chat(gatewaytest.PlainHi, "X-Request-Id", id).FailsWith(t, http.StatusInternalServerError, "api_error", "upstream_error", "")
	}
	// A call leaves the memory before the file has it.
	get := func(path, who string) (body string) {
		gatewaytest.Eventually(t, path+" answers", func() bool {
			reply := r.Do(http.MethodGet, path, "", "Authorization", who)
			body = reply.Body
			return reply.Status == http.StatusOK
		})
		return body
	}
	gatewaytest.Eventually(t, "the calls are recorded", func() bool { return strings.Contains(get("/api/monitoring/calls", asViewer), `"four"`) })
	for path, words := range map[string]bool{
		"/api/monitoring/calls": true, "/api/monitoring/calls/four": true, "/api/monitoring/calls/one": true, "/api/monitoring/calls?brief=true": true,
		"/api/monitoring/problems": true, "/api/monitoring/circuit-breaker": true, "/api/monitoring/errors/stats": false,
		"/api/monitoring/instances": false, "/api/monitoring/running": false, "/api/monitoring/overview": false, "/api/models": false,
		"/api/route/explain?service=chat&model=m": false, "/api/batches": false, "/actuator/health": false, "/api/config/instance/type/chat": false,
	} {
		if got := get(path, asViewer); strings.Contains(got, secret) || words && !strings.Contains(got, "upstream_error") {
			t.Errorf("VIEWER at %s: %s", path, got)
		}
		if got := get(path, asOperator); strings.Contains(got, secret) != words {
			t.Errorf("OPERATOR at %s: %s", path, got)
		}
	}
	if got := get("/api/monitoring/calls/four", asViewer); strings.Count(got, "The backend answered with status 500.") != 2 {
		t.Errorf("VIEWER is not told the status: %s", got)
	}
	for question, found := range map[string]bool{"errorText=" + secret: false, "errorText=parse": false, "errorText=status+500": true, "q=upstream": true} {
		for _, who := range []string{asViewer, asOperator} {
			if got := get("/api/monitoring/calls?"+question, who); strings.Contains(got, `"four"`) != (found || who == asOperator) {
				t.Errorf("%s finds by %s: %s", who, question, got)
			}
		}
	}
	for path, readers := range feeds {
		for who, reader := range readers {
			if got := reader.text("call"); strings.Contains(got, secret) != (who == asOperator) {
				t.Errorf("%s at %s: %s", who, path, got)
			}
		}
	}
	for _, who := range []string{asViewer, asOperator} {
		if got := openLive(r, "", "Authorization", who).text("snapshot"); strings.Contains(got, secret) != (who == asOperator) || !strings.Contains(got, "upstream_error") {
			t.Errorf("%s has the snapshot %s", who, got)
		}
	}
}

// follow opens one of the two feeds.
func follow(r *gatewaytest.Gateway, path, who string) *liveReader {
	r.T.Helper()
	if path == "/live" {
		return openLive(r, "?topics=call", "Authorization", who)
	}
	return openFeed(r, "/api/monitoring"+path, "Authorization", who)
}

// text returns the data of the next event of a name.
func (l *liveReader) text(name string) string {
	l.t.Helper()
	for {
		got, data, err := l.next()
		if err != nil {
			l.t.Fatal(err)
		}
		if got == name {
			return data
		}
	}
}
