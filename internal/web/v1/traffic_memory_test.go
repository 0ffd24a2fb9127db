package v1_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
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
