package proxy_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// Each algorithm as a caller sees it: how many pass at once, and how long the
// next one is told to wait.
func TestAlgorithmsAsCallersSeeThem(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		algorithm string
		passes    int
		atLeast   time.Duration
		atMost    time.Duration
	}{
		{"token-bucket", 3, 0, time.Second},
		{"leaky-bucket", 3, 0, time.Second},
		{"sliding-window", 3, time.Second, 3 * time.Second},
		{"warm-up", 1, time.Second, 3 * time.Second}, // cold: a third of the burst, a third of the rate
	} {
		t.Run(row.algorithm, func(t *testing.T) {
			var b *simulator.Backend
			var passed []gatewaytest.Reply
			var refused gatewaytest.Reply
			burst := func() time.Duration {
				b = gatewaytest.StartBackend(t)
				r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {algorithm: "+row.algorithm+", capacity: 3, refill-rate: 1}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL())))
				began := time.Now()
				passed = nil
				for n := range row.passes {
					passed = append(passed, r.Chat([]string{gatewaytest.PlainHi, gatewaytest.StreamHi}[n%2])) // streams count like any other
				}
				refused = r.Chat(gatewaytest.StreamHi)
				return time.Since(began)
			}
			// A machine that was away for a second let a request flow in.
			took := burst()
			for try := 1; try < 10 && took > 900*time.Millisecond; try++ {
				took = burst()
			}
			if took > 900*time.Millisecond {
				t.Fatalf("four requests took %v at every try; nothing can be said about limits", took)
			}
			for n, answer := range passed {
				if limit, remaining, reset := answer.Succeeds(t).LimitOf(t); limit != 3 || remaining != row.passes-1-n || reset <= 0 {
					t.Errorf("after %d requests: %d of %d left, reset in %v", n+1, remaining, limit, reset)
				}
			}
			if wait := refused.IsOverLimit(t); wait < row.atLeast || wait > row.atMost+max(row.atMost/5, 200*time.Millisecond) { // waits are spread upward
				t.Errorf("wait %v", wait)
			}
			if _, remaining, _ := refused.LimitOf(t); remaining != 0 || refused.Header.Get("X-Router-Attempts") != "0" || refused.Header.Get("X-Should-Retry") != "" {
				t.Errorf("%d remaining: %v", remaining, refused.Header)
			}
			if got := b.Stats().Arrived; got != row.passes {
				t.Errorf("the backend got %d requests", got)
			}
		})
	}
}

// A client that waits for as long as Retry-After says is served, each time.
func TestRequestAfterRetryAfterIsServed(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {capacity: 1, refill-rate: 15}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL())))
	served := 0
	for range 15 {
		if answer := r.Chat(gatewaytest.PlainHi); answer.Status != http.StatusOK {
			<-time.After(answer.IsOverLimit(t))
			r.Chat(gatewaytest.PlainHi).Succeeds(t)
		}
		served++
	}
	if got := b.Stats().Arrived; got != served {
		t.Errorf("the backend got %d, %d were served", got, served)
	}
}

// A Retry-After of more than 30 s is cut, and the caller is told not to retry.
func TestRetryAfterIsCutAt30Seconds(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {algorithm: sliding-window, capacity: 60, refill-rate: 1}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", gatewaytest.StartBackend(t).URL())))
	for range 60 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	refused := r.Chat(gatewaytest.PlainHi)
	if wait := refused.IsOverLimit(t); wait != 30*time.Second || refused.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("wait %v, x-should-retry %q", wait, refused.Header.Get("X-Should-Retry"))
	}
}

// Every reply of a limited service says where the caller stands, and only what
// reaches a backend counts.
func TestEveryReplyShowsTheLimit(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"service", "model", "instance"} {
		t.Run(scope, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {capacity: 1000, refill-rate: 1, scope: "+scope+"}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL()))+
				"limits: {json-body: 10KiB}\n")
			_, full, _ := r.Chat(gatewaytest.PlainHi).Succeeds(t).LimitOf(t)
			type row struct {
				status  int
				body    string
				headers []string
			}
			rows := map[string]row{"out of range": {400, gatewaytest.With(`"temperature":9`), nil}}
			if scope == "service" { // the other scopes cannot know whom these concern
				rows["broken JSON"] = row{400, `{"model":`, nil}
				rows["too large"] = row{413, gatewaytest.With(`"user":"` + strings.Repeat("x", 20<<10) + `"`), nil}
				rows["a form"] = row{415, gatewaytest.PlainHi, []string{"Content-Type", "multipart/form-data; boundary=x"}}
				rows["unknown model"] = row{503, strings.Replace(gatewaytest.PlainHi, `"m"`, `"n"`, 1), nil}
			} else {
				delete(rows, "out of range")
			}
			for name, row := range rows {
				answer := r.Chat(row.body, row.headers...)
				if answer.Status != row.status {
					t.Errorf("%s: status %d: %s", name, answer.Status, answer.Body)
				}
				if answer.Header.Get("X-Ratelimit-Limit-Requests") == "" {
					t.Errorf("%s: no limit in %v", name, answer.Header)
				} else if _, remaining, _ := answer.LimitOf(t); remaining < full {
					t.Errorf("%s cost something: %d before, %d after", name, full, remaining)
				}
			}
			open := r.Instances("m")[0].Breaker
			open.Force(breaker.ForcedOpen, breaker.Hold{}, time.Now())
			answer := r.Chat(gatewaytest.PlainHi)
			answer.FailsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
			if _, remaining, _ := answer.LimitOf(t); remaining < full {
				t.Errorf("a refusal by the breaker cost something: %d before, %d after", full, remaining)
			}
			open.Force(breaker.Auto, breaker.Hold{}, time.Now())
			if _, remaining, _ := r.Chat(gatewaytest.StreamHi).Succeeds(t).LimitOf(t); remaining > full+50 || remaining < full-1 {
				t.Errorf("%d left after a stream, %d before", remaining, full)
			}
		})
	}
}

// Each client has its own full bucket, and the one of the service is not in
// force: more pass than it would hold.
func TestLimitsOfClientsAreIndependent(t *testing.T) {
	t.Parallel()
	// The window is a minute, so that no request leaves it meanwhile.
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {algorithm: sliding-window, capacity: 60, refill-rate: 1, client-ip-enable: true}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", gatewaytest.StartBackend(t).URL())))
	for n := range 10 {
		client := from(fmt.Sprintf("203.0.113.%d", n))
		for left := 59; left >= 50; left-- {
			if _, remaining, _ := r.Chat(gatewaytest.PlainHi, client...).Succeeds(t).LimitOf(t); remaining != left {
				t.Errorf("client %d has %d left, want %d", n, remaining, left)
			}
		}
	}
	for range 50 {
		r.Chat(gatewaytest.PlainHi, from("203.0.113.0")...).Succeeds(t)
	}
	r.Chat(gatewaytest.PlainHi, from("203.0.113.0")...).IsOverLimit(t)
}

func TestScopesOfLimits(t *testing.T) {
	t.Parallel()
	other := func(model string) string { return strings.Replace(gatewaytest.PlainHi, `"m"`, strconv.Quote(model), 1) }
	for _, row := range []struct {
		scope string
		m, n  int // how many pass for the model m, which has two instances, and then for n
	}{{"service", 30, 0}, {"model", 30, 30}, {"instance", 60, 30}} {
		t.Run(row.scope, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {algorithm: sliding-window, capacity: 30, refill-rate: 1, scope: "+row.scope+"}, "+gatewaytest.NoBreakerNoChecks,
				gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("m", b.URL()+"/v1"), gatewaytest.Instance("n", b.URL())))
			for model, passes := range map[string]int{"m": row.m, "n": row.n} {
				if model == "n" && row.scope == "service" {
					continue // shared with m, in whichever order
				}
				for range passes {
					r.Chat(other(model)).Succeeds(t)
				}
				r.Chat(other(model)).IsOverLimit(t)
			}
			if row.scope == "service" {
				r.Chat(other("n")).IsOverLimit(t)
			}
		})
	}
}

// An edit while the gateway runs keeps what was spent, unless it is another
// algorithm.
func TestRuntimeEditKeepsTheSpentTokens(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {capacity: 100, refill-rate: 1}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", gatewaytest.StartBackend(t).URL())))
	began := time.Now()
	for range 50 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	refilled := func() int { return int(time.Since(began)/time.Second) + 1 } // at most, by then
	left := func() int { _, remaining, _ := r.Chat(gatewaytest.PlainHi).Succeeds(t).LimitOf(t); return remaining }
	r.ChangeChat(func(s *config.Service) { s.RateLimit.Capacity = 200 })
	if got := left(); got < 149 || got > 149+refilled() {
		t.Errorf("%d of 200 left after 51 requests", got)
	}
	r.ChangeChat(func(s *config.Service) { s.Instances[0].Weight = 3 })
	if got := left(); got < 148 || got > 148+refilled() {
		t.Errorf("%d left after an edit of something else", got)
	}
	r.API("PUT", "/api/config/type/services/chat", `{"rateLimit":{"algorithm":"leaky_bucket","capacity":100,"refillRate":1}}`)
	if got := left(); got != 99 {
		t.Errorf("%d left of another algorithm", got)
	}
	for range 20 { // management is never limited
		if got := r.Do(http.MethodGet, "/api/config/type", ""); got.Status != 200 || got.Header.Get("X-Ratelimit-Limit-Requests") != "" {
			t.Fatalf("management: %d %v", got.Status, got.Header)
		}
	}
}
