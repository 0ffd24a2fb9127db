package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// heldDoors are the doors with streams: a request for the model m at each, what the first
// event of its answer begins with, and how an error looks in its stream.
var heldDoors = map[string]struct{ body, first, failure string }{
	"/v1/chat/completions": {`{"model":"m","stream":true,"max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`, `data: {"id":`, `data: {"error":{"message":"The model \"m\" was not loaded in time.`},
	"/v1/messages":         {`{"model":"m","stream":true,"max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`, "event: message_start\n", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"The model \\\"m\\\" was not loaded in time."},
	"/v1/responses":        {`{"model":"m","stream":true,"max_output_tokens":16,"input":"hi"}`, "event: response.created\n", "event: error\ndata: {\"type\":\"error\""},
	"/v1/completions":      {`{"model":"m","stream":true,"max_tokens":2,"prompt":"hi"}`, `data: {"id":`, `data: {"error":{"message":"The model \"m\" was not loaded in time.`},
}

const waitingComment = ": waiting for the model to load\n\n"

// A stream that waits for its model longer than hold-notice has the status 200 and comments
// before its first event.
func TestAStreamThatWaitsIsTold(t *testing.T) {
	t.Parallel()
	for path, door := range heldDoors {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			r := gatewaytest.Start(t, sleepyYAML("vllm", ", hold-notice: 1ms", onlyM, asleepEngine(t)))
			reply := r.Post(path, door.body).Succeeds(t)
			events := strings.TrimLeft(strings.ReplaceAll(reply.Body, waitingComment, ""), "\n")
			if !strings.HasPrefix(reply.Body, waitingComment) || !strings.HasPrefix(events, door.first) || strings.Contains(events, "waiting for the model") {
				t.Errorf("%s", reply.Body)
			}
			if got := reply.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
				t.Errorf("the content type is %s", got)
			}
			again := r.Post(path, door.body).Succeeds(t)
			if !strings.HasPrefix(again.Body, door.first) {
				t.Errorf("a stream that does not wait: %s", again.Body)
			}
		})
	}
}

// asleepEngine starts an engine whose model sleeps and takes a moment to wake up.
func asleepEngine(t *testing.T) *simulator.Backend {
	t.Helper()
	b := startEngine(t, simulator.VLLM, 0.5)
	b.Engine().Sleep(1)
	return b
}

// After the notice an error comes as an event in the form of the door, and the connection
// serves on. Without a notice, or a stream, it has its status.
func TestAnErrorAfterTheNoticeIsAnEvent(t *testing.T) {
	t.Parallel()
	for path, door := range heldDoors {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			b := asleepEngine(t)
			b.Engine().SetFault(engine.Hangs)
			r := gatewaytest.Start(t, sleepyYAML("vllm", ", wake-timeout: 500ms, hold-notice: 1ms", onlyM, b))
			reply := r.Post(path, door.body)
			rest := strings.ReplaceAll(reply.Body, waitingComment, "")
			if reply.Status != http.StatusOK || !strings.HasPrefix(reply.Body, waitingComment) || !strings.HasPrefix(rest, door.failure) || !strings.HasSuffix(rest, "\n\n") {
				t.Errorf("%d %s", reply.Status, reply.Body)
			}
			if plain := r.Post(path, strings.Replace(door.body, `"stream":true,`, "", 1)); plain.Status != http.StatusServiceUnavailable {
				t.Errorf("a request for no stream: %d %s", plain.Status, plain.Body)
			}
			silent := gatewaytest.Start(t, sleepyYAML("vllm", ", wake-timeout: 500ms", onlyM, b))
			if reply := silent.Post(path, door.body); reply.Status != http.StatusServiceUnavailable || strings.Contains(reply.Body, "waiting") {
				t.Errorf("without hold-notice: %d %s", reply.Status, reply.Body)
			}
			if n := gatewaytest.CountLines(r.Logs.String(), `"msg":"request"`, `"status":200`, `"error_code":"service_unavailable"`); n != 1 {
				t.Errorf("the access log has %d such lines", n)
			}
		})
	}
}
