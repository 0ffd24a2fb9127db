package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// limitOf reads the three headers of a limit.
func (a reply) limitOf(t *testing.T) (limit, remaining int, reset time.Duration) {
	t.Helper()
	limit, err := strconv.Atoi(a.header.Get("X-Ratelimit-Limit-Requests"))
	if err != nil {
		t.Fatalf("status %d without a limit: %v", a.status, a.header)
	}
	remaining, err = strconv.Atoi(a.header.Get("X-Ratelimit-Remaining-Requests"))
	if err != nil {
		t.Fatal(err)
	}
	reset, err = time.ParseDuration(a.header.Get("X-Ratelimit-Reset-Requests"))
	if err != nil {
		t.Fatal(err)
	}
	return limit, remaining, reset
}

// retryOf reads how long a refused client is told to wait.
func (a reply) retryOf(t *testing.T) time.Duration {
	t.Helper()
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		t.Fatalf("Retry-After %q", a.header.Get("Retry-After"))
	}
	ms, err := strconv.Atoi(a.header.Get("Retry-After-Ms"))
	if err != nil || ms < 1 || ms > seconds*1000 || ms <= (seconds-1)*1000 && seconds > 1 {
		t.Fatalf("Retry-After %d s, retry-after-ms %q", seconds, a.header.Get("Retry-After-Ms"))
	}
	return time.Duration(ms) * time.Millisecond
}

func (a reply) isOverLimit(t *testing.T) time.Duration {
	t.Helper()
	a.failsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "rate_limit_exceeded", "")
	return a.retryOf(t)
}

// Each algorithm as a caller sees it: how many pass at once, and how long the
// next one is told to wait.
func TestAlgorithmsAsCallersSeeThem(t *testing.T) {
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
			var passed []reply
			var refused reply
			burst := func() time.Duration {
				b = startBackend(t)
				r := startGateway(t, policyYAML("rate-limit: {algorithm: "+row.algorithm+", capacity: 3, refill-rate: 1}, "+quietOnes, instance("m", b.URL())))
				began := time.Now()
				passed = nil
				for n := range row.passes {
					passed = append(passed, r.chat([]string{plainHi, streamHi}[n%2])) // streams count like any other
				}
				refused = r.chat(streamHi)
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
				if limit, remaining, reset := answer.succeeds(t).limitOf(t); limit != 3 || remaining != row.passes-1-n || reset <= 0 {
					t.Errorf("after %d requests: %d of %d left, reset in %v", n+1, remaining, limit, reset)
				}
			}
			if wait := refused.isOverLimit(t); wait < row.atLeast || wait > row.atMost+max(row.atMost/5, 200*time.Millisecond) { // waits are spread upward
				t.Errorf("wait %v", wait)
			}
			if _, remaining, _ := refused.limitOf(t); remaining != 0 || refused.header.Get("X-Router-Attempts") != "0" || refused.header.Get("X-Should-Retry") != "" {
				t.Errorf("%d remaining: %v", remaining, refused.header)
			}
			if got := b.Stats().Arrived; got != row.passes {
				t.Errorf("the backend got %d requests", got)
			}
		})
	}
}

// Who waits as long as it was told is served, each time.
func TestWhoWaitsAsToldIsServed(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, policyYAML("rate-limit: {capacity: 1, refill-rate: 15}, "+quietOnes, instance("m", b.URL())))
	served := 0
	for range 40 {
		if answer := r.chat(plainHi); answer.status != http.StatusOK {
			<-time.After(answer.isOverLimit(t))
			r.chat(plainHi).succeeds(t)
		}
		served++
	}
	if got := b.Stats().Arrived; got != served {
		t.Errorf("the backend got %d, %d were served", got, served)
	}
}

// Waits beyond 30 s are cut, and the caller is told not to try.
func TestLongWaitsAreCut(t *testing.T) {
	r := startGateway(t, policyYAML("rate-limit: {algorithm: sliding-window, capacity: 60, refill-rate: 1}, "+quietOnes, instance("m", startBackend(t).URL())))
	for range 60 {
		r.chat(plainHi).succeeds(t)
	}
	refused := r.chat(plainHi)
	if wait := refused.isOverLimit(t); wait != 30*time.Second || refused.header.Get("X-Should-Retry") != "false" {
		t.Errorf("wait %v, x-should-retry %q", wait, refused.header.Get("X-Should-Retry"))
	}
}

// Every reply of a limited service says where the caller stands, and only what
// reaches a backend counts.
func TestEveryReplyShowsTheLimit(t *testing.T) {
	for _, scope := range []string{"service", "model", "instance"} {
		t.Run(scope, func(t *testing.T) {
			b := startBackend(t)
			r := startGateway(t, policyYAML("rate-limit: {capacity: 1000, refill-rate: 1, scope: "+scope+"}, "+quietOnes, instance("m", b.URL()))+
				"limits: {json-body: 10KiB}\n")
			_, full, _ := r.chat(plainHi).succeeds(t).limitOf(t)
			type row struct {
				status  int
				body    string
				headers []string
			}
			rows := map[string]row{"out of range": {400, with(`"temperature":9`), nil}}
			if scope == "service" { // the other scopes cannot know whom these concern
				rows["broken JSON"] = row{400, `{"model":`, nil}
				rows["too large"] = row{413, with(`"user":"` + strings.Repeat("x", 20<<10) + `"`), nil}
				rows["a form"] = row{415, plainHi, []string{"Content-Type", "multipart/form-data; boundary=x"}}
				rows["unknown model"] = row{503, strings.Replace(plainHi, `"m"`, `"n"`, 1), nil}
			} else {
				delete(rows, "out of range")
			}
			for name, row := range rows {
				answer := r.chat(row.body, row.headers...)
				if answer.status != row.status {
					t.Errorf("%s: status %d: %s", name, answer.status, answer.body)
				}
				if answer.header.Get("X-Ratelimit-Limit-Requests") == "" {
					t.Errorf("%s: no limit in %v", name, answer.header)
				} else if _, remaining, _ := answer.limitOf(t); remaining < full {
					t.Errorf("%s cost something: %d before, %d after", name, full, remaining)
				}
			}
			open := r.instances("m")[0].Breaker
			open.Force(breaker.ForcedOpen, "", time.Now())
			answer := r.chat(plainHi)
			answer.failsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
			if _, remaining, _ := answer.limitOf(t); remaining < full {
				t.Errorf("a refusal by the breaker cost something: %d before, %d after", full, remaining)
			}
			open.Force(breaker.Auto, "", time.Now())
			if _, remaining, _ := r.chat(streamHi).succeeds(t).limitOf(t); remaining > full+50 || remaining < full-1 {
				t.Errorf("%d left after a stream, %d before", remaining, full)
			}
		})
	}
}

// Each client has its own full bucket, and the one of the service is not in
// force: more pass than it would hold.
func TestLimitsOfClientsAreIndependent(t *testing.T) {
	r := startGateway(t, policyYAML("rate-limit: {algorithm: sliding-window, capacity: 2, refill-rate: 1, client-ip-enable: true}, "+quietOnes, instance("m", startBackend(t).URL())))
	for n := range 10 {
		client := from(fmt.Sprintf("203.0.113.%d", n))
		for left := 1; left >= 0; left-- {
			if _, remaining, _ := r.chat(plainHi, client...).succeeds(t).limitOf(t); remaining != left {
				t.Errorf("client %d has %d left, want %d", n, remaining, left)
			}
		}
		r.chat(plainHi, client...).isOverLimit(t)
	}
}

func TestScopesOfLimits(t *testing.T) {
	other := func(model string) string { return strings.Replace(plainHi, `"m"`, strconv.Quote(model), 1) }
	for _, row := range []struct {
		scope string
		m, n  int // how many pass for the model m, which has two instances, and then for n
	}{{"service", 2, 0}, {"model", 2, 2}, {"instance", 4, 2}} {
		t.Run(row.scope, func(t *testing.T) {
			b := startBackend(t)
			r := startGateway(t, policyYAML("rate-limit: {algorithm: sliding-window, capacity: 2, refill-rate: 1, scope: "+row.scope+"}, "+quietOnes,
				instance("m", b.URL()), instance("m", b.URL()+"/v1"), instance("n", b.URL())))
			for model, passes := range map[string]int{"m": row.m, "n": row.n} {
				if model == "n" && row.scope == "service" {
					continue // shared with m, in whichever order
				}
				for range passes {
					r.chat(other(model)).succeeds(t)
				}
				r.chat(other(model)).isOverLimit(t)
			}
			if row.scope == "service" {
				r.chat(other("n")).isOverLimit(t)
			}
		})
	}
}

// An edit while the gateway runs keeps what was spent, unless it is another
// algorithm.
func TestRuntimeEditKeepsTheSpentTokens(t *testing.T) {
	r := startGateway(t, policyYAML("rate-limit: {capacity: 100, refill-rate: 1}, "+quietOnes, instance("m", startBackend(t).URL())))
	for range 50 {
		r.chat(plainHi).succeeds(t)
	}
	left := func() int { _, remaining, _ := r.chat(plainHi).succeeds(t).limitOf(t); return remaining }
	r.revise(func(s *config.Service) { s.RateLimit.Capacity = 200 })
	if got := left(); got < 149 || got > 160 {
		t.Errorf("%d of 200 left after 51 requests", got)
	}
	r.revise(func(s *config.Service) { s.Instances[0].Weight = 3 })
	if got := left(); got < 148 || got > 160 {
		t.Errorf("%d left after an edit of something else", got)
	}
	r.api("PUT", "/api/config/type/services/chat", `{"rateLimit":{"algorithm":"leaky_bucket","capacity":100,"refillRate":1}}`)
	if got := left(); got != 99 {
		t.Errorf("%d left of another algorithm", got)
	}
	for range 20 { // management is never limited
		if got := r.do(http.MethodGet, "/api/config/type", ""); got.status != 200 || got.header.Get("X-Ratelimit-Limit-Requests") != "" {
			t.Fatalf("management: %d %v", got.status, got.header)
		}
	}
}
