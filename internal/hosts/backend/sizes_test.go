package backend

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// watchSizes runs a watcher over instances while a script runs.
func watchSizes(t *testing.T, n *network, isChecked bool, changed *int, instances ...*Instance) {
	t.Helper()
	client := transport.New(transport.Options{Dial: n.dial})
	w := &SizeWatcher{
		Source: func() []*Instance { return instances },
		Settings: func(*Instance) HealthSettings {
			return HealthSettings{Enabled: isChecked, Interval: schema.Duration(30 * time.Second)}
		},
		Client: client, Changed: func() { *changed++ },
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended; client.Close() })
}

func TestTheWindowFollowsTheEngineWithinTwoIntervals(t *testing.T) {
	t.Parallel()
	for _, isChecked := range []bool{true, false} {
		t.Run(fmt.Sprint("checked ", isChecked), func(t *testing.T) { t.Parallel(); testWindowFollows(t, isChecked) })
	}
}

func testWindowFollows(t *testing.T, isChecked bool) {
	synctest.Test(t, func(t *testing.T) {
		n, window := newNetwork(), atomic.Int64{}
		window.Store(4096)
		n.answer("h:80", func(*http.Request) string {
			return sayJSON(`{"data":[{"id":"m","max_model_len":%d}]}`, window.Load())
		})
		i := makeInstance(t, "vllm", "m", "http://h/v1", nil, nil)
		written := makeInstance(t, "vllm", "m", "http://h/v1", nil, func(s *Settings) { s.ContextWindow = 1000 })
		i.Listed = engines.Sizes{Window: 7, Output: 9}
		if got := i.Sizes(); got != i.Listed {
			t.Errorf("before the engine was asked: got %v, want %v", got, i.Listed)
		}
		changed := 0
		watchSizes(t, n, isChecked, &changed, i, written)
		if pass(time.Second); !isChecked {
			pass(time.Minute)
		}
		if got, want := i.Sizes(), (engines.Sizes{Window: 4096, Output: 9}); got != want || changed == 0 {
			t.Errorf("the engine's window: got %v after %d changes, want %v", got, changed, want)
		}
		if got := written.Sizes().Window; got != 1000 {
			t.Errorf("the written window: got %d, want 1000", got)
		}
		before := changed
		window.Store(8192)
		pass(time.Minute)
		if got := i.Sizes().Window; got != 8192 || changed != before+1 {
			t.Errorf("after the engine was started with another window: got %d after %d changes, want 8192", got, changed-before)
		}
		n.down("h:80")
		pass(time.Minute)
		if got := i.Sizes().Window; got != 8192 {
			t.Errorf("while the engine is down: got %d, want 8192", got)
		}
	})
}

func TestProvidersAreNotAskedAgainAndAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer   string
		atMost   int
		disabled bool
	}{
		"without sizes": {answer: `{"data":[{"id":"m","owned_by":"openai"}]}`, atMost: 10},
		"a catalogue":   {answer: `{"data":[{"id":"m","context_length":5,"x":"` + fmt.Sprintf("%0200000d", 0) + `"}]}`, atMost: 2},
		"disabled":      {answer: `{"data":[{"id":"m","context_length":5}]}`, disabled: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, changed := newNetwork(), 0
				n.answer("h:80", func(*http.Request) string { return sayJSON("%s", c.answer) })
				i := makeInstance(t, "openai", "m", "http://h/v1", nil, func(s *Settings) { s.Enabled = !c.disabled })
				watchSizes(t, n, true, &changed, i)
				pass(time.Hour)
				if got := n.countOf("h:80", "/v1/models"); got > c.atMost || got == 0 && !c.disabled {
					t.Errorf("asked %d times in an hour, want at most %d", got, c.atMost)
				}
			})
		})
	}
}

// sayJSON answers any request with a text of JSON.
func sayJSON(format string, values ...any) string {
	body := fmt.Sprintf(format, values...)
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}
