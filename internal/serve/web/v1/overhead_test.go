package v1_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// A client that asks is told how long the gateway itself took; the time in which the
// backend was waited for is not part of it.
func TestOverheadIsToldToThoseWhoAsk(t *testing.T) {
	t.Parallel()
	const wait = 300 * time.Millisecond
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{HeaderDelay: wait})
	r := gatewaytest.Start(t, unwatchedYAML("chat", gatewaytest.Instance("m", b.URL())))
	for name, body := range map[string]string{"whole": gatewaytest.PlainHi, "streamed": gatewaytest.StreamHi} {
		began := time.Now()
		reply := r.Chat(body, "X-Router-Timing", "1")
		took := time.Since(began)
		text := reply.Header.Get("X-Router-Overhead-Ms")
		overhead, err := strconv.ParseFloat(text, 64)
		if err != nil || overhead < 0 || overhead > float64((took-wait)/time.Millisecond)+1 {
			t.Errorf("%s: X-Router-Overhead-Ms is %q where all took %v and the backend %v of it", name, text, took, wait)
		}
		if text := r.Chat(body).Header.Get("X-Router-Overhead-Ms"); text != "" {
			t.Errorf("%s: X-Router-Overhead-Ms is %q though nobody asked", name, text)
		}
	}
}
