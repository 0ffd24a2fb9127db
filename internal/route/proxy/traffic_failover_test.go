package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// callsInAnOutage returns how many calls each caller makes while nothing works. The
// race detector sees all there is to see after a few; how many attempts come of them
// says something when there are so many that the retries saved up before weigh little.
func callsInAnOutage() (calls int, isMeasured bool) {
	if gatewaytest.RaceEnabled || testing.Short() {
		return 3, false
	}
	return 15, true
}

// amplified fails if more attempts reached backends that were all down than may: a fifth more than
// there were requests, and the three at a time that are always allowed, while each of the callers
// sent so many requests one after the other.
func amplified(t *testing.T, attempts, callers, each int) {
	t.Helper()
	const alwaysAllowed = 3
	t.Logf("%d attempts for %d requests: %.3f", attempts, callers*each, float64(attempts)/float64(callers*each))
	if most := callers*each*6/5 + alwaysAllowed*each; attempts > most {
		t.Errorf("the outage is amplified: %d attempts, and at most %d may be", attempts, most)
	}
}

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
			const callers = 100
			each, isMeasured := callsInAnOutage()
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b))
			for range 200 { // before the outage all was well
				r.Chat(gatewaytest.PlainHi).Succeeds(t)
			}
			a.ScriptForever(step)
			b.ScriptForever(step)
			before := a.Stats().Arrived + b.Stats().Arrived
			ctx := gatewaytest.Deadline(t)
			var retried atomic.Int64
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for range each {
						answer := r.TryChat(ctx, gatewaytest.PlainHi)
						if answer.Status < 500 && answer.Status != step.Status {
							t.Errorf("status %d, %v", answer.Status, answer.Err)
						}
						if answer.Header.Get("X-Router-Attempts") == "2" {
							retried.Add(1)
						}
					}
				})
			}
			all.Wait()
			attempts := a.Stats().Arrived + b.Stats().Arrived - before
			if isMeasured {
				amplified(t, attempts, callers, each)
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
	t.Parallel()
	for name, step := range map[string]simulator.Step{
		"503":     {Status: 503, HeaderDelay: 20 * time.Millisecond},
		"reset":   {Reset: true, HeaderDelay: 20 * time.Millisecond},
		"garbage": {Body: "no JSON", HeaderDelay: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			a.ScriptForever(step)
			r := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b))
			for range 5 {
				var all []<-chan gatewaytest.Reply
				for n := range 40 {
					all = append(all, r.ChatLater(gatewaytest.Deadline(t), []string{gatewaytest.PlainHi, gatewaytest.StreamHi}[n%2]))
				}
				for _, done := range all {
					answer := <-done
					answer.Succeeds(t)
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
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	a.ScriptForever(simulator.Step{Status: 500})
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b))
	for range 50 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
}

// Each phase of a call has its own bound, set for the gateway, for a service
// type or for an instance, and the narrowest setting holds.
func TestTimeoutsOfThePhases(t *testing.T) {
	late := simulator.Step{FirstDelay: gatewaytest.Never}                                 // head at once, first event late
	mute := simulator.Step{Hang: true}                                                    // no head
	slow := simulator.Step{EventDelay: 40 * time.Millisecond, Text: gatewaytest.LongText} // alive all the time
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
		{"first token, gateway", late, "first-token-timeout: 200ms", "", "", gatewaytest.StreamHi, false},
		{"first token, service", late, "", "timeouts: {first-token: 200ms}", "", gatewaytest.StreamHi, false},
		{"first token, instance", late, "first-token-timeout: 1h", "timeouts: {first-token: 1h}", "timeouts: {first-token: 200ms}", gatewaytest.StreamHi, false},
		{"first token without a head", mute, "first-token-timeout: 200ms", "", "", gatewaytest.StreamHi, false},
		{"first byte, gateway", mute, "first-byte-timeout: 200ms", "", "", gatewaytest.PlainHi, false},
		{"first byte, service", mute, "", "timeouts: {first-byte: 200ms}", "", gatewaytest.PlainHi, false},
		{"first byte, instance", mute, "", "", "timeouts: {first-byte: 200ms}", gatewaytest.StreamHi, false},
		{"idle, service", stuck, "", "timeouts: {idle: 200ms}", "", gatewaytest.StreamHi, true},
		{"idle, instance", stuck, "idle-timeout: 1h", "", "timeouts: {idle: 200ms}", gatewaytest.StreamHi, true},
		{"total, gateway", slow, "total-timeout: 1s", "", "", gatewaytest.StreamHi, true},
		{"total, service", slow, "", "timeouts: {total: 1s}", "", gatewaytest.StreamHi, true},
		{"total, instance", slow, "", "", "timeouts: {total: 1s}", gatewaytest.StreamHi, true},
		{"total, no answer", mute, "", "timeouts: {total: 300ms}", "", gatewaytest.PlainHi, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t, row.step)
			policy, more := gatewaytest.NoBreakerNoChecks, []string{}
			if row.service != "" {
				policy += ", " + row.service
			}
			if row.instance != "" {
				more = append(more, row.instance)
			}
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML(policy, gatewaytest.Instance("m", b.URL(), more...))+"limits: {"+row.limits+"}\n")
			began := time.Now()
			answer := r.Chat(row.body)
			if took := time.Since(began); took < 150*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			if !row.begun {
				answer.FailsWith(t, 504, "api_error", "upstream_timeout", "")
			} else {
				events := gatewaytest.EventsOf(t, answer.Succeeds(t).Body)
				if fault := gatewaytest.ErrorOf(t, events[len(events)-1]); fault.Code != "upstream_timeout" || len(events) < 3 {
					t.Errorf("%d events, the last one %+v", len(events), fault)
				}
			}
			if err := b.WaitIdle(gatewaytest.Deadline(t)); err != nil {
				t.Errorf("the backend is still at it: %v", err)
			}
			if _, failed, _ := gatewaytest.Outcomes(r.Instances("m")[0]); failed != 1 {
				t.Errorf("%d failures are held against the instance", failed)
			}
		})
	}
}

// A first token in time makes the rest of the stream a matter of the idle limit
// alone.
func TestFirstTokenLimitEndsWithTheFirstToken(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	b.ScriptForever(simulator.Step{EventDelay: 300 * time.Millisecond})
	r.Halt()
	r = gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks+", timeouts: {first-token: 2s}", gatewaytest.Instance("m", b.URL())))
	longer := `{"model":"m","stream":true,"max_tokens":8,"messages":[{"role":"user","content":"one two three four five six seven eight nine"}]}`
	if events := gatewaytest.EventsOf(t, r.Chat(longer).Succeeds(t).Body); events[len(events)-1] != "[DONE]" || len(events) < 8 {
		t.Errorf("%d events, the last one %s", len(events), events[len(events)-1])
	}
}

// keptAnswer is a good answer on a connection that seems to stay open. The
// backend closes it right after, as backends do with connections that idle.
var keptAnswer = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(gatewaytest.RawBody), gatewaytest.RawBody)

// Backends close idle connections whenever they like. That is noticed before a
// request goes out on one, and nothing is held against the instance.
func TestClosedIdleConnectionIsNoFailure(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	// The sibling would hide a failure, and the breaker opens at one.
	r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 1", b))
	for n := range 20 {
		b.Script(simulator.Step{Raw: keptAnswer}, simulator.Step{})
		for _, body := range []string{gatewaytest.PlainHi, []string{gatewaytest.PlainHi, gatewaytest.StreamHi}[n%2]} {
			if answer := r.Chat(body).Succeeds(t); answer.Header.Get("X-Router-Attempts") != "1" {
				t.Errorf("attempts %s", answer.Header.Get("X-Router-Attempts"))
			}
			if err := b.WaitIdle(gatewaytest.Deadline(t)); err != nil { // and so the connection is closed
				t.Fatal(err)
			}
		}
	}
	i := r.Instances("m")[0]
	gatewaytest.Eventually(t, "all is settled", func() bool { return i.InFlight() == 0 })
	if success, failed, cancelled := gatewaytest.Outcomes(i); success != 40 || failed != 0 || cancelled != 0 {
		t.Errorf("outcomes %d %d %d", success, failed, cancelled)
	}
	// A backend that restarts between two requests is the same case.
	gatewaytest.TakeAway(t, b)
	restart(t, b.URL())
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
}

// A backend that has read a request may have worked on it. If its connection then
// breaks, that is a failure like any other, also on a connection that had served
// before: the request goes to another instance, and never to the same one again.
func TestRequestThatABackendReadIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]simulator.Step{
		"reset":  {Reset: true},
		"closed": {Raw: " "},
	} {
		t.Run(name, func(t *testing.T) {
			gatewaytest.Both(t, func(t *testing.T, body string) {
				a, b := gatewaytest.StartBackend(t, simulator.Step{}, step), gatewaytest.StartBackend(t)
				alone := gatewaytest.Start(t, gatewaytest.PoolYAML(a))
				alone.Chat(gatewaytest.PlainHi).Succeeds(t) // its connection is kept
				answer := alone.Chat(body)
				answer.FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
				if got := a.Stats().Arrived; got != 2 || answer.Header.Get("X-Router-Attempts") != "1" {
					t.Errorf("the backend got %d requests, attempts %q", got, answer.Header.Get("X-Router-Attempts"))
				}
				if success, failed, _ := gatewaytest.Outcomes(alone.Instances("m")[0]); success != 1 || failed != 1 {
					t.Errorf("outcomes %d %d", success, failed)
				}
				a.Script(simulator.Step{}, step)
				r := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b))
				for range 2 {
					r.Chat(gatewaytest.PlainHi).Succeeds(t) // one for each
				}
				answer = r.Chat(body).Succeeds(t)
				if a.Stats().Arrived != 4 || b.Stats().Arrived != 2 || answer.Header.Get("X-Router-Attempts") != "2" {
					t.Errorf("requests %d and %d, attempts %q", a.Stats().Arrived, b.Stats().Arrived, answer.Header.Get("X-Router-Attempts"))
				}
			})
		})
	}
}

// A request never goes back to an instance that it tried, whatever is left.
func TestNoInstanceIsCalledTwice(t *testing.T) {
	t.Parallel()
	var all []*simulator.Backend
	for range 3 {
		b := gatewaytest.StartBackend(t)
		b.ScriptForever(simulator.Step{Status: 503})
		all = append(all, b)
	}
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(all...)+"limits: {max-attempts: 9}\n")
	for range 20 {
		if answer := r.Chat(gatewaytest.PlainHi); answer.Header.Get("X-Router-Attempts") != "3" {
			t.Errorf("attempts %s", answer.Header.Get("X-Router-Attempts"))
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
