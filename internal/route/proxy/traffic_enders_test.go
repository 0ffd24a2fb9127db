package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// mortal is a backend that ends when it is asked for poison, as a process does: nobody listens
// any more, and every connection breaks.
type mortal struct {
	*httptest.Server
	behind  *httputil.ReverseProxy // to one that answers everything else
	arrived atomic.Int32
	isDead  atomic.Bool
	// how says what it does with its last breath: "" nothing, "role" it begins a stream, "500"
	// it answers so and ends a moment later, "alive" it goes on after it broke the connection.
	how string
}

func startMortal(t *testing.T, how string) *mortal {
	t.Helper()
	behind, err := url.Parse(gatewaytest.StartBackend(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{behind: httputil.NewSingleHostReverseProxy(behind), how: how}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *mortal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodPost {
		m.arrived.Add(1)
	}
	if strings.Contains(string(body), "slow") {
		<-r.Context().Done() // until somebody ends it
		return
	}
	if !strings.Contains(string(body), "poison") {
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		m.behind.ServeHTTP(w, r)
		return
	}
	switch m.how {
	case "500":
		http.Error(w, `{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause."}}`, http.StatusInternalServerError)
		time.AfterFunc(20*time.Millisecond, m.die)
		return
	case "role":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	if m.how != "alive" {
		m.die()
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// die ends the backend.
func (m *mortal) die() {
	m.isDead.Store(true)
	_ = m.Listener.Close()
	m.CloseClientConnections()
}

// mortals starts backends that end alike.
func mortals(t *testing.T, count int, how string) (all []*mortal) {
	t.Helper()
	for range count {
		all = append(all, startMortal(t, how))
	}
	return all
}

// mortalYAML is a configuration in which the model m is served by backends, one after the other.
func mortalYAML(policy string, attempts int, all ...*mortal) string {
	var list []string
	for n, m := range all {
		list = append(list, gatewaytest.Instance("m", m.URL, "adapter: vllm", fmt.Sprintf("tier: %d", n)))
	}
	return gatewaytest.PolicyYAML(policy+gatewaytest.NoBreakerNoChecks, list...) + fmt.Sprintf("limits: {max-attempts: %d}\n", attempts)
}

func poison(more string) string {
	return `{"model":"m",` + more + `"messages":[{"role":"user","content":"poison"}]}`
}

// isRefusedAsEnder fails the test unless a reply says that the request ends backends.
func isRefusedAsEnder(t *testing.T, reply gatewaytest.Reply) {
	t.Helper()
	known := reply.FailsWith(t, http.StatusServiceUnavailable, "api_error", "upstream_error", "")
	if reply.Header.Get("Retry-After") != "30" || reply.Header.Get("X-Should-Retry") != "false" || !strings.Contains(known.Message, "Two backends ended") {
		t.Errorf("%v: %s", reply.Header, known.Message)
	}
}

// died fails the test unless exactly the first so many backends have ended, and nobody else was
// asked for poison.
func died(t *testing.T, want int, all []*mortal) {
	t.Helper()
	for n, m := range all {
		if m.isDead.Load() != (n < want) {
			t.Errorf("backend %d is dead: %t", n, m.isDead.Load())
		}
	}
}

// A request that ends two backends is not sent to a third one, whatever is left of its attempts,
// nor is the same request of the same caller for a while. All others are served.
func TestARequestThatEndsTwoBackendsIsNotSentToAThird(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		how, policy, body string
		attempts          int
	}{
		"whole":              {"", "", poison(""), 5},
		"two attempts":       {"", "", poison(""), 2},
		"a stream":           {"", "", poison(`"stream":true,`), 5},
		"hedged":             {"", "hedge: {enabled: true}, ", poison(`"temperature":0,`), 5},
		"a stream may go on": {"", resumes, poison(`"stream":true,`), 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := mortals(t, 4, test.how)
			r := gatewaytest.Start(t, mortalYAML(test.policy, test.attempts, all...))
			isRefusedAsEnder(t, r.Chat(test.body))
			died(t, 2, all)
			again := r.Chat(test.body)
			isRefusedAsEnder(t, again)
			if again.Header.Get("X-Router-Attempts") != "0" {
				t.Errorf("%s attempts for a request that is known", again.Header.Get("X-Router-Attempts"))
			}
			died(t, 2, all)
			r.Chat(say("m")).Succeeds(t)
			r.Chat(strings.Replace(test.body, "poison", "food", 1)).Succeeds(t)
		})
	}
}

// An engine that reports its own end has ended, although its server listens for a moment more, as
// that of vLLM does.
func TestARequestThatEndsTwoEnginesIsNotSentToAThird(t *testing.T) {
	t.Parallel()
	all := mortals(t, 4, "500")
	r := gatewaytest.Start(t, mortalYAML("", 5, all...))
	for range 2 {
		isRefusedAsEnder(t, r.Chat(poison("")))
	}
	for n, m := range all {
		if got := m.arrived.Load(); (got > 0) != (n < 2) {
			t.Errorf("backend %d got %d requests", n, got)
		}
	}
	r.Chat(say("m")).Succeeds(t)
}

// A stream that has only begun is tried again as well, and ends a third backend as little.
func TestAStreamThatEndsTwoBackendsAfterItsBeginning(t *testing.T) {
	t.Parallel()
	all := mortals(t, 4, "role")
	r := gatewaytest.Start(t, mortalYAML("", 5, all...))
	if body := r.Chat(poison(`"stream":true,`)).Succeeds(t).Body; !strings.Contains(body, `"error"`) {
		t.Errorf("%s", body)
	}
	died(t, 2, all)
	isRefusedAsEnder(t, r.Chat(poison(`"stream":true,`)))
	died(t, 2, all)
}

// A client that tries again by itself does not end a third backend either.
func TestARequestThatIsSentAgainEndsTwoBackendsAtMost(t *testing.T) {
	t.Parallel()
	for how, statuses := range map[string][]int{
		"":    {http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusServiceUnavailable},
		"500": {http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusServiceUnavailable},
	} {
		t.Run("how "+how, func(t *testing.T) {
			t.Parallel()
			all := mortals(t, 4, how)
			r := gatewaytest.Start(t, strings.Replace(mortalYAML("", 1, all...), gatewaytest.NoBreakerNoChecks, gatewaytest.NoBreaker, 1))
			for n, status := range statuses {
				if got := r.Chat(poison("")); got.Status != status {
					t.Errorf("request %d: %d, want %d: %s", n, got.Status, status, got.Body)
				}
				ended := min(n+1, 2)
				gatewaytest.Eventually(t, "the backends are gone", func() bool {
					for _, m := range all[:ended] {
						if conn, err := net.Dial("tcp", m.Listener.Addr().String()); err == nil {
							_ = conn.Close()
							return false
						}
					}
					return true
				})
				died(t, ended, all)
			}
			isRefusedAsEnder(t, r.Chat(poison("")))
			died(t, 2, all)
		})
	}
}

// Fallback models and pieces of a request are no way to a third backend.
func TestFallbacksAndPiecesEndNoThirdBackend(t *testing.T) {
	t.Parallel()
	t.Run("fallback", func(t *testing.T) {
		t.Parallel()
		all := mortals(t, 3, "")
		yaml := mortalYAML("fallbacks: {m: [other]}, ", 3, all[:2]...)
		yaml = strings.Replace(yaml, "instances: [", "instances: ["+gatewaytest.Instance("other", all[2].URL, "adapter: vllm")+", ", 1)
		r := gatewaytest.Start(t, yaml)
		isRefusedAsEnder(t, r.Chat(poison("")))
		died(t, 2, all)
		r.Chat(say("m")).Succeeds(t) // of the other model
	})
	t.Run("pieces", func(t *testing.T) {
		t.Parallel()
		all := mortals(t, 4, "")
		var list []string
		for _, m := range all {
			list = append(list, gatewaytest.Instance("m", m.URL))
		}
		r := gatewaytest.Start(t, splitService("embedding", "", list...)+"limits: {max-attempts: 4}\n")
		body := `{"model":"m","input":["a","b","c","d poison"]}`
		isRefusedAsEnder(t, r.Post("/v1/embeddings", body))
		dead := 0
		for _, m := range all {
			if m.isDead.Load() {
				dead++
			}
		}
		if dead != 2 {
			t.Errorf("%d backends ended", dead)
		}
		isRefusedAsEnder(t, r.Post("/v1/embeddings", body))
		r.Post("/v1/embeddings", `{"model":"m","input":["a","b","c","d"]}`).Succeeds(t)
	})
}

// A backend that breaks connections and goes on has not ended: the request is tried elsewhere.
func TestABackendThatGoesOnHasNotEnded(t *testing.T) {
	t.Parallel()
	all := append(mortals(t, 2, "alive"), startMortal(t, ""))
	r := gatewaytest.Start(t, mortalYAML("", 3, all...))
	all[2].how = "alive"
	for range 2 {
		if got := r.Chat(poison("")); got.Status != http.StatusBadGateway || got.Header.Get("X-Router-Attempts") != "3" {
			t.Errorf("%d after %s attempts: %s", got.Status, got.Header.Get("X-Router-Attempts"), got.Body)
		}
	}
}

// Another request that was under way at the same backends is told the same, because nobody can
// tell the two apart. Another caller's equal request is another one.
func TestOthersThatWereUnderWayAreRefusedForAWhile(t *testing.T) {
	t.Parallel()
	all := mortals(t, 3, "")
	r := gatewaytest.Start(t, mortalYAML("", 5, all...))
	ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
	defer leave()
	const slow = `{"model":"m","messages":[{"role":"user","content":"slow"}]}`
	innocent := r.ChatLater(ctx, slow)
	gatewaytest.Eventually(t, "it is under way", func() bool { return all[0].arrived.Load() == 1 })
	all[0].die()
	gatewaytest.Eventually(t, "it is tried again", func() bool { return all[1].arrived.Load() == 1 })
	all[1].die()
	isRefusedAsEnder(t, <-innocent)
	isRefusedAsEnder(t, r.Chat(slow))
	if all[2].arrived.Load() != 0 {
		t.Error("a third backend was asked")
	}
	r.Chat(strings.Replace(slow, "slow", "quick", 1)).Succeeds(t)
}
