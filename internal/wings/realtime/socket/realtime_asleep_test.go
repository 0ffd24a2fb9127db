package socket_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
)

// sleepyRealtime is a server of the Realtime API that sleeps as vLLM does, and refuses
// connections until it is woken up.
type sleepyRealtime struct {
	*realtimeBackend
	mu     sync.Mutex
	asleep bool
	wakes  int
}

func startSleepyRealtime(t *testing.T) *sleepyRealtime {
	t.Helper()
	b := &sleepyRealtime{realtimeBackend: new(realtimeBackend), asleep: true}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *sleepyRealtime) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r.URL.Path {
	case "/is_sleeping":
		_, _ = fmt.Fprintf(w, `{"is_sleeping":%t}`, b.asleep)
	case "/wake_up":
		b.asleep = false
		b.wakes++
	case "/sleep":
		b.asleep = true
	default:
		if b.asleep {
			http.Error(w, `{"error":{"message":"asleep"}}`, http.StatusServiceUnavailable)
			return
		}
		b.mu.Unlock()
		defer b.mu.Lock()
		b.realtimeBackend.ServeHTTP(w, r)
	}
}

// A Realtime conversation wakes its model up as a request does, is told how long it waited, and
// keeps the model awake until it ends.
func TestARealtimeConversationWakesItsModelAndKeepsItAwake(t *testing.T) {
	t.Parallel()
	b := startSleepyRealtime(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("residency: {enabled: true}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("rt", b.URL, "adapter: vllm")))
	host := r.Instances("rt")[0].Resident().Place().Host().Name()
	s, reply := r.Dial(realtimePath)
	if s == nil {
		t.Fatalf("%d %s", reply.Status, reply.Body)
	}
	if reply.Header.Get("X-Router-Wait-Ms") == "" {
		t.Error("the client is not told that it waited")
	}
	s.Event()
	if err := r.Residency.Sleep(t.Context(), host, "rt"); !errors.Is(err, residency.ErrInUse) {
		t.Errorf("the model of an open conversation is put to sleep: %v", err)
	}
	s.Send(`{"type":"response.create"}`)
	for _, want := range []string{"response.created", "response.output_text.delta", "response.done"} {
		if event := s.Event(); event["type"] != want {
			t.Fatalf("%v, want %s", event, want)
		}
	}
	_ = s.Close(websocket.StatusNormalClosure, "")
	gatewaytest.Eventually(t, "the model may sleep", func() bool { return r.Residency.Sleep(t.Context(), host, "rt") == nil })
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wakes != 1 || !b.asleep {
		t.Errorf("%d wakes, asleep: %t", b.wakes, b.asleep)
	}
}
