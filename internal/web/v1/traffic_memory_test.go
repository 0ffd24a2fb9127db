package v1_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// What a request took of the budget is given back when its memory is free: a
// stream that has begun holds nothing of it.
func TestBudgetForBodiesIsGivenBack(t *testing.T) {
	t.Parallel()
	held := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL)))
	stream := r.ChatLater(gatewaytest.Deadline(t), gatewaytest.StreamHi)
	<-held.Entered
	isFree := func(when string) {
		t.Helper()
		gatewaytest.Eventually(t, "the budget is free "+when, func() bool { return r.Memory.Taken() == 0 })
	}
	isFree("while a stream runs")
	close(held.Open)
	(<-stream).Succeeds(t)
	r.Chat(`{"model":"m"`).FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, "invalid_json", "")
	r.Chat(`{"model":"nobody","messages":[{"role":"user","content":"hi"}]}`)
	r.Post("/v1/audio/transcriptions", "no form")
	isFree("after all of them")
}

// A request that finds nothing left of the budget is refused and may try again.
func TestRequestsWithoutBudgetAreRefused(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
	all := r.Memory.Budget()
	if !r.Memory.Take(all) {
		t.Fatal("the budget is not free")
	}
	answer := r.Chat(gatewaytest.PlainHi)
	answer.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "overloaded", "")
	if answer.RetryOf(t) != time.Second {
		t.Errorf("headers %v", answer.Header)
	}
	r.Memory.Give(all)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
}

// A large answer takes from the same budget until the client has it, whether its length
// is known or not. Without budget it is given up, which is no failure of the instance.
func TestLargeAnswersTakeFromTheBudget(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 3<<20)
	body := `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":"stop"}]}`
	for name, header := range map[string]string{
		"known length":   fmt.Sprintf("Content-Length: %d\r\n", len(body)),
		"unknown length": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, b := gatewaytest.StartOne(t)
			b.ScriptForever(simulator.Step{Raw: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + header + "\r\n" + body})
			for _, left := range slices.Repeat([]int64{2 << 20, 100 << 10}, 3) { // six failures would open the breaker
				taken := r.Memory.Budget() - left
				if !r.Memory.Take(taken) {
					t.Fatal("the budget is not free")
				}
				answer := r.Chat(gatewaytest.PlainHi)
				answer.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "overloaded", "")
				if answer.RetryOf(t) != time.Second {
					t.Errorf("headers %v", answer.Header)
				}
				gatewaytest.Eventually(t, "the rest is free", func() bool { return r.Memory.Taken() == taken })
				r.Memory.Give(taken)
			}
			if answer := r.Chat(gatewaytest.PlainHi); !strings.Contains(answer.Body, text) {
				t.Errorf("status %d and %d bytes", answer.Status, len(answer.Body))
			}
			gatewaytest.Eventually(t, "all is free", func() bool { return r.Memory.Taken() == 0 })
		})
	}
}
