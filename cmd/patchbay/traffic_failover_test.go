package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// When everything is down, second attempts must not double the load on what is
// trying to come back: at most a fifth more reaches the backends. Breakers are
// off, because they would hide it.
func TestTotalOutageIsNotAmplified(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"at once": {Status: 503},
		"reset":   {Reset: true, HeaderDelay: 2 * time.Millisecond},
		"limited": {Status: 429},
	} {
		t.Run(name, func(t *testing.T) {
			const callers, each = 100, 15
			a, b := startBackend(t), startBackend(t)
			r := startGateway(t, poolYAML(a, b))
			for range 200 { // before the outage all was well
				r.chat(plainHi).succeeds(t)
			}
			a.ScriptForever(step)
			b.ScriptForever(step)
			before := a.Stats().Arrived + b.Stats().Arrived
			ctx := deadline(t)
			var retried atomic.Int64
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for range each {
						answer := r.try(ctx, plainHi)
						if answer.status < 500 && answer.status != step.Status {
							t.Errorf("status %d, %v", answer.status, answer.err)
						}
						if answer.header.Get("X-Router-Attempts") == "2" {
							retried.Add(1)
						}
					}
				})
			}
			all.Wait()
			attempts := a.Stats().Arrived + b.Stats().Arrived - before
			ratio := float64(attempts) / (callers * each)
			t.Logf("%d attempts for %d requests: %.3f", attempts, callers*each, ratio)
			if ratio > 1.2 {
				t.Errorf("the outage is amplified %.3f times", ratio)
			}
			if retried.Load() == 0 {
				t.Error("nothing was tried again; this test shows nothing")
			}
		})
	}
}

// However many fail at one instance at the same time, another one that is well
// takes them all.
func TestOneInstanceThatIsWellTakesAll(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"503":     {Status: 503, HeaderDelay: 20 * time.Millisecond},
		"reset":   {Reset: true, HeaderDelay: 20 * time.Millisecond},
		"garbage": {Body: "no JSON", HeaderDelay: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := startBackend(t), startBackend(t)
			a.ScriptForever(step)
			r := startGateway(t, poolYAML(a, b))
			for range 5 {
				var all []<-chan reply
				for n := range 40 {
					all = append(all, r.later(deadline(t), []string{plainHi, streamHi}[n%2]))
				}
				for _, done := range all {
					answer := <-done
					answer.succeeds(t)
				}
			}
			if got := b.Stats().Arrived; got != 200 || a.Stats().Arrived != 100 {
				t.Errorf("the one that is well got %d of 200, the other one %d", got, a.Stats().Arrived)
			}
		})
	}
}

// A quiet gateway may always fail over.
func TestQuietGatewayAlwaysFailsOver(t *testing.T) {
	a, b := startBackend(t), startBackend(t)
	a.ScriptForever(simulator.Step{Status: 500})
	r := startGateway(t, poolYAML(a, b))
	for range 50 {
		r.chat(plainHi).succeeds(t)
	}
}

// Each phase of a call has its own bound, set for the gateway, for a service
// type or for an instance, and the narrowest setting holds.
func TestTimeoutsOfThePhases(t *testing.T) {
	late := simulator.Step{FirstDelay: never}                                 // head at once, first event late
	mute := simulator.Step{Hang: true}                                        // no head
	slow := simulator.Step{EventDelay: 40 * time.Millisecond, Text: longText} // alive all the time
	stuck := simulator.Step{Stop: simulator.StopStall, After: 3}
	for _, row := range []struct {
		name     string
		step     simulator.Step
		limits   string
		service  string
		instance string
		body     string
		begun    bool // the failure comes in the middle of the stream
	}{
		{"first token, gateway", late, "first-token-timeout: 200ms", "", "", streamHi, false},
		{"first token, service", late, "", "timeouts: {first-token: 200ms}", "", streamHi, false},
		{"first token, instance", late, "first-token-timeout: 1h", "timeouts: {first-token: 1h}", "timeouts: {first-token: 200ms}", streamHi, false},
		{"first token without a head", mute, "first-token-timeout: 200ms", "", "", streamHi, false},
		{"first byte, gateway", mute, "first-byte-timeout: 200ms", "", "", plainHi, false},
		{"first byte, service", mute, "", "timeouts: {first-byte: 200ms}", "", plainHi, false},
		{"first byte, instance", mute, "", "", "timeouts: {first-byte: 200ms}", streamHi, false},
		{"idle, service", stuck, "", "timeouts: {idle: 200ms}", "", streamHi, true},
		{"idle, instance", stuck, "idle-timeout: 1h", "", "timeouts: {idle: 200ms}", streamHi, true},
		{"total, gateway", slow, "total-timeout: 300ms", "", "", streamHi, true},
		{"total, service", slow, "", "timeouts: {total: 300ms}", "", streamHi, true},
		{"total, instance", slow, "", "", "timeouts: {total: 300ms}", streamHi, true},
		{"total, no answer", mute, "", "timeouts: {total: 300ms}", "", plainHi, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := startBackend(t, row.step)
			policy, more := quietOnes, []string{}
			if row.service != "" {
				policy += ", " + row.service
			}
			if row.instance != "" {
				more = append(more, row.instance)
			}
			r := startGateway(t, policyYAML(policy, instance("m", b.URL(), more...))+"limits: {"+row.limits+"}\n")
			began := time.Now()
			answer := r.chat(row.body)
			if took := time.Since(began); took < 150*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			if !row.begun {
				answer.failsWith(t, 504, "api_error", "upstream_timeout", "")
			} else {
				events := eventsOf(t, answer.succeeds(t).body)
				if fault := faultOf(t, events[len(events)-1]); fault.Code != "upstream_timeout" || len(events) < 3 {
					t.Errorf("%d events, the last one %+v", len(events), fault)
				}
			}
			if err := b.WaitIdle(deadline(t)); err != nil {
				t.Errorf("the backend is still at it: %v", err)
			}
			if _, failed, _ := outcomes(r.instances("m")[0]); failed != 1 {
				t.Errorf("%d failures are held against the instance", failed)
			}
		})
	}
}

// A first token in time makes the rest of the stream a matter of the idle limit
// alone.
func TestFirstTokenLimitEndsWithTheFirstToken(t *testing.T) {
	r, b := startOne(t)
	b.ScriptForever(simulator.Step{EventDelay: 300 * time.Millisecond})
	r.halt()
	r = startGateway(t, policyYAML(quietOnes+", timeouts: {first-token: 2s}", instance("m", b.URL())))
	if events := eventsOf(t, r.chat(streamHi).succeeds(t).body); events[len(events)-1] != "[DONE]" || len(events) < 8 {
		t.Errorf("%d events, the last one %s", len(events), events[len(events)-1])
	}
}

// keptAnswer is a good answer on a connection that seems to stay open. The
// backend closes it right after, as backends do with connections that idle.
var keptAnswer = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(oddReply), oddReply)

// Backends close idle connections whenever they like. That is noticed before a
// request goes out on one, and nothing is held against the instance.
func TestClosedIdleConnectionIsNoFailure(t *testing.T) {
	b := startBackend(t)
	// The sibling would hide a failure, and the breaker opens at one.
	r := startGateway(t, breakerYAML("failure-threshold: 1", b))
	for n := range 20 {
		b.Script(simulator.Step{Raw: keptAnswer}, simulator.Step{})
		for _, body := range []string{plainHi, []string{plainHi, streamHi}[n%2]} {
			if answer := r.chat(body).succeeds(t); answer.header.Get("X-Router-Attempts") != "1" {
				t.Errorf("attempts %s", answer.header.Get("X-Router-Attempts"))
			}
			if err := b.WaitIdle(deadline(t)); err != nil { // and so the connection is closed
				t.Fatal(err)
			}
		}
	}
	i := r.instances("m")[0]
	eventually(t, "all is settled", func() bool { return i.InFlight() == 0 })
	if success, failed, cancelled := outcomes(i); success != 40 || failed != 0 || cancelled != 0 {
		t.Errorf("outcomes %d %d %d", success, failed, cancelled)
	}
	// A backend that restarts between two requests is the same case.
	b.Close()
	restart(t, b.URL())
	r.chat(plainHi).succeeds(t)
}

// A backend that has read a request may have worked on it. If its connection then
// breaks, that is a failure like any other, also on a connection that had served
// before: the request goes to another instance, and never to the same one again.
func TestWhatABackendReadIsNotSentToItAgain(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"reset":  {Reset: true},
		"closed": {Raw: " "},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, body string) {
				a, b := startBackend(t, simulator.Step{}, step), startBackend(t)
				alone := startGateway(t, poolYAML(a))
				alone.chat(plainHi).succeeds(t) // its connection is kept
				answer := alone.chat(body)
				answer.failsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
				if got := a.Stats().Arrived; got != 2 || answer.header.Get("X-Router-Attempts") != "1" {
					t.Errorf("the backend got %d requests, attempts %q", got, answer.header.Get("X-Router-Attempts"))
				}
				if success, failed, _ := outcomes(alone.instances("m")[0]); success != 1 || failed != 1 {
					t.Errorf("outcomes %d %d", success, failed)
				}
				a.Script(simulator.Step{}, step)
				r := startGateway(t, poolYAML(a, b))
				for range 2 {
					r.chat(plainHi).succeeds(t) // one for each
				}
				answer = r.chat(body).succeeds(t)
				if a.Stats().Arrived != 4 || b.Stats().Arrived != 2 || answer.header.Get("X-Router-Attempts") != "2" {
					t.Errorf("requests %d and %d, attempts %q", a.Stats().Arrived, b.Stats().Arrived, answer.header.Get("X-Router-Attempts"))
				}
			})
		})
	}
}

// A request never goes back to an instance that it tried, whatever is left.
func TestNobodyIsTriedTwice(t *testing.T) {
	var all []*simulator.Backend
	for range 3 {
		b := startBackend(t)
		b.ScriptForever(simulator.Step{Status: 503})
		all = append(all, b)
	}
	r := startGateway(t, poolYAML(all...)+"limits: {max-attempts: 9}\n")
	for range 20 {
		if answer := r.chat(plainHi); answer.header.Get("X-Router-Attempts") != "3" {
			t.Errorf("attempts %s", answer.header.Get("X-Router-Attempts"))
		}
	}
	ids := map[string]int{}
	for n, b := range all {
		for _, request := range b.Requests() {
			ids[fmt.Sprint(n, request.Header.Get("X-Request-Id"))]++
		}
	}
	for id, times := range ids {
		if times > 1 {
			t.Errorf("%s came %d times", id, times)
		}
	}
	if len(ids) != 60 || strings.Contains(fmt.Sprint(ids), "map[]") {
		t.Errorf("%d attempts", len(ids))
	}
}
