package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// counter is a backend that counts what it works on: a call ends for it with
// the last byte that it has to say, whatever the connection does after that. No call
// ends before as many as it has slots are there at once.
type counter struct {
	*httptest.Server
	running, peak, served atomic.Int64
}

func startCounter(t *testing.T, slots int64) *counter {
	c := new(counter)
	full, once := make(chan struct{}), new(sync.Once)
	awaitFull := func(r *http.Request) {
		select {
		case <-full:
		case <-r.Context().Done():
		}
	}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		now := c.running.Add(1)
		for peak := c.peak.Load(); now > peak && !c.peak.CompareAndSwap(peak, now); peak = c.peak.Load() {
		}
		if c.served.Add(1); now == slots {
			once.Do(func() { close(full) })
		}
		work := time.NewTimer(5 * time.Millisecond)
		defer work.Stop()
		if !strings.Contains(string(body), `"stream":true`) {
			<-work.C
			awaitFull(r)
			c.running.Add(-1)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, gatewaytest.RawBody)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", gatewaytest.FirstChunk)
		_ = http.NewResponseController(w).Flush()
		<-work.C
		awaitFull(r)
		fmt.Fprintf(w, "data: %s\n\n", gatewaytest.LastChunk)
		_ = http.NewResponseController(w).Flush()
		c.running.Add(-1)
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(c.Close)
	return c
}

// Sixty at once, four slots: all are served, and the backend never works on a
// fifth, streams and edits in the middle included.
func TestBackendWithFourSlotsNeverSeesAFifth(t *testing.T) {
	t.Parallel()
	b := startCounter(t, 4)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("queue: {size: 100, timeout: 30s}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL, "max-concurrency: 4")))
	var all []<-chan gatewaytest.Reply
	for n := range 60 {
		all = append(all, r.ChatLater(gatewaytest.Deadline(t), []string{gatewaytest.PlainHi, gatewaytest.StreamHi}[n%2], from(fmt.Sprintf("203.0.113.%d", n%5))...))
		if n%20 == 10 {
			r.ChangeChat(func(s *config.Service) { s.Instances[0].Weight++ })
		}
	}
	for _, done := range all {
		answer := <-done
		answer.Succeeds(t)
	}
	if b.peak.Load() != 4 || b.served.Load() != 60 || b.running.Load() != 0 {
		t.Errorf("the backend saw %d at once and %d in all", b.peak.Load(), b.served.Load())
	}
}

// Clients that leave give their slots back; the next ones get them.
func TestSlotsComeBackHoweverCallsEnd(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.SlotsYAML(b, 2, "size: 50, timeout: 20s"))
	for n, step := range []simulator.Step{{Hang: true}, {Stop: simulator.StopStall, After: 2}} {
		b.Script(step, step)
		ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
		one, two := r.ChatLater(ctx, gatewaytest.StreamHi), r.ChatLater(ctx, gatewaytest.StreamHi)
		if err := b.WaitRequests(gatewaytest.Deadline(t), 2+4*n); err != nil {
			t.Fatal(err)
		}
		waits := []<-chan gatewaytest.Reply{r.ChatLater(gatewaytest.Deadline(t), gatewaytest.PlainHi), r.ChatLater(gatewaytest.Deadline(t), gatewaytest.StreamHi)}
		gatewaytest.Eventually(t, "two wait", func() bool { return r.ChatPool().Queue.Len() == 2 })
		cancel()
		<-one
		<-two
		for _, done := range waits {
			answer := <-done
			answer.Succeeds(t)
		}
	}
	for _, step := range []simulator.Step{{Reset: true}, {Status: 500}, {Status: 400}, {Stop: simulator.StopEnd, After: 1}} {
		b.Script(step, step, step)
		for range 3 {
			r.Chat(gatewaytest.StreamHi)
		}
	}
	gatewaytest.Eventually(t, "all slots are free", func() bool { return r.Instances("m")[0].InFlight() == 0 })
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
}

// One caller sends 60 requests, another one sends one. Of the two slots each is
// given to the crowd at most once more before the lone caller has its turn. How
// long that takes is measured on a fake clock in internal/route/proxy.
func TestLoneCallerIsNotCrowdedOut(t *testing.T) {
	t.Parallel()
	held := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("queue: {size: 100, timeout: 10m}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", held.URL, "max-concurrency: 2")))
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	var crowd []<-chan gatewaytest.Reply
	for range 60 {
		crowd = append(crowd, r.ChatLater(ctx, gatewaytest.StreamHi, from("203.0.113.1")...))
	}
	// No stream ends yet, so both numbers stay as they are.
	<-held.Entered
	<-held.Entered
	gatewaytest.Eventually(t, "the crowd waits", func() bool { return r.ChatPool().Queue.Len() == 58 })
	lone := r.ChatLater(ctx, gatewaytest.StreamHi, append(from("203.0.113.2"), "X-Request-Id", "lone-caller")...)
	gatewaytest.Eventually(t, "the lone caller waits, too", func() bool { return r.ChatPool().Queue.Len() == 59 })
	turns := 1
	for held.Open <- struct{}{}; <-held.Entered != "lone-caller"; turns++ {
		if turns == 4 {
			t.Fatal("the lone caller had no turn although each slot became free twice")
		}
		held.Open <- struct{}{}
	}
	t.Logf("the lone caller had the slot that became free as number %d", turns)
	cancel()
	for _, done := range crowd {
		<-done
	}
	<-lone
	gatewaytest.Eventually(t, "nobody waits", func() bool { return r.ChatPool().Queue.Len() == 0 })
}

func TestFullQueueAndLongWaitAreRefused(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, answer gatewaytest.Reply) {
		t.Helper()
		answer.FailsWith(t, 429, "rate_limit_exceeded", "concurrency_limit_reached", "")
		if answer.RetryOf(t) > time.Second || answer.Header.Get("X-Router-Attempts") != "0" {
			t.Errorf("headers %v", answer.Header)
		}
	}
	for name, row := range map[string]struct {
		queue  string
		refuse func(t *testing.T, r *gatewaytest.Gateway)
	}{
		"full": {"size: 1, timeout: 10m", func(t *testing.T, r *gatewaytest.Gateway) {
			ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
			waiting := r.ChatLater(ctx, gatewaytest.StreamHi)
			gatewaytest.Eventually(t, "one waits", func() bool { return r.ChatPool().Queue.Len() == 1 })
			refused(t, r.Chat(gatewaytest.PlainHi))
			// It leaves the queue before the slot becomes free, or it would be served.
			leave()
			<-waiting
			gatewaytest.Eventually(t, "nobody waits", func() bool { return r.ChatPool().Queue.Len() == 0 })
		}},
		"long wait": {"size: 1, timeout: 300ms", func(t *testing.T, r *gatewaytest.Gateway) {
			began := time.Now()
			refused(t, r.Chat(gatewaytest.StreamHi))
			if took := time.Since(began); took < 300*time.Millisecond {
				t.Errorf("it waited %v", took)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			b.ScriptForever(simulator.Step{Hang: true})
			r := gatewaytest.Start(t, gatewaytest.SlotsYAML(b, 1, row.queue))
			ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
			running := r.ChatLater(ctx, gatewaytest.PlainHi)
			if err := b.WaitRequests(gatewaytest.Deadline(t), 1); err != nil {
				t.Fatal(err)
			}
			row.refuse(t, r)
			cancel()
			<-running
			if got := b.Stats().Arrived; got != 1 {
				t.Errorf("the backend got %d requests", got)
			}
		})
	}
}

// A client that leaves the queue is gone within 50 ms and never reaches a
// backend.
func TestAbandonedWaiterLeavesWithin50ms(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Hang: true})
	r := gatewaytest.Start(t, gatewaytest.SlotsYAML(b, 1, "size: 10, timeout: 1m"))
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	running := r.ChatLater(ctx, gatewaytest.PlainHi)
	if err := b.WaitRequests(gatewaytest.Deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	fastest := time.Hour
	// The best try is the gateway's own time, the others may be the machine's: while many
	// tests are compiled and run beside this one, it takes long until one is good.
	for began := time.Now(); fastest > 50*time.Millisecond && time.Since(began) < gatewaytest.Timeout; {
		gone, leaves := context.WithCancel(gatewaytest.Deadline(t))
		waits := r.ChatLater(gone, gatewaytest.PlainHi)
		gatewaytest.Eventually(t, "it waits", func() bool { return r.ChatPool().Queue.Len() == 1 })
		left := time.Now()
		leaves()
		gatewaytest.Eventually(t, "it is gone", func() bool { return r.ChatPool().Queue.Len() == 0 })
		fastest = min(fastest, time.Since(left))
		<-waits
	}
	t.Logf("gone after %v", fastest)
	if fastest > 50*time.Millisecond {
		t.Errorf("gone after %v", fastest)
	}
	cancel()
	<-running
	if got := b.Stats().Arrived; got != 1 {
		t.Errorf("the backend got %d requests", got)
	}
}

// moreThanBuffered is more than the sockets of a connection hold for a reader that does
// not read.
const moreThanBuffered = 12 << 20

// A backend that has given its whole answer is free, however slowly the client
// reads it: its slot, its connection, and its breaker, which knows of the success.
func TestSlowReaderDoesNotOccupyABackend(t *testing.T) {
	t.Parallel()
	large := strings.Replace(gatewaytest.RawBody, `"choices"`, `"padding":"`+strings.Repeat("x", moreThanBuffered)+`","choices"`, 1)
	for name, body := range map[string]string{"plain": gatewaytest.PlainHi, "made a stream": gatewaytest.StreamHi} {
		t.Run(name, func(t *testing.T) {
			b := gatewaytest.StartBackend(t, simulator.Step{Body: large})
			r := gatewaytest.Start(t, gatewaytest.SlotsYAML(b, 1, "size: 0"))
			slow := r.DialRaw()
			if _, err := io.WriteString(slow, gatewaytest.RawPost(body, "")); err != nil {
				t.Fatal(err)
			}
			if err := b.WaitRequests(gatewaytest.Deadline(t), 1); err != nil {
				t.Fatal(err)
			}
			i := r.Instances("m")[0]
			gatewaytest.Eventually(t, "the slot is free", func() bool { return i.InFlight() == 0 })
			if success, failed, cancelled := gatewaytest.Outcomes(i); success != 1 || failed != 0 || cancelled != 0 {
				t.Errorf("outcomes %d %d %d", success, failed, cancelled)
			}
			r.Chat(gatewaytest.PlainHi).Succeeds(t)
			answer := gatewaytest.ReadRaw(t, bufio.NewReader(slow), http.MethodPost).Succeeds(t) // it was there all the time
			if name == "plain" && len(answer.Body) < moreThanBuffered {
				t.Errorf("%d bytes", len(answer.Body))
			}
			gatewaytest.Eventually(t, "all is settled", func() bool { return gatewaytest.CountLines(r.Logs.String(), `"status":200`) >= 2 })
			if success, failed, cancelled := gatewaytest.Outcomes(i); success != 2 || failed != 0 || cancelled != 0 {
				t.Errorf("settled twice: outcomes %d %d %d", success, failed, cancelled)
			}
		})
	}
}

// A client that leaves while it reads an answer that is whole leaves a success
// behind, counted once.
func TestClientThatLeavesAWholeAnswer(t *testing.T) {
	t.Parallel()
	large := strings.Replace(gatewaytest.RawBody, `"choices"`, `"padding":"`+strings.Repeat("x", moreThanBuffered)+`","choices"`, 1)
	b := gatewaytest.StartBackend(t, simulator.Step{Body: large})
	r := gatewaytest.Start(t, gatewaytest.SlotsYAML(b, 1, "size: 0"))
	slow := r.DialRaw()
	if _, err := io.WriteString(slow, gatewaytest.RawPost(gatewaytest.PlainHi, "")); err != nil {
		t.Fatal(err)
	}
	i := r.Instances("m")[0]
	gatewaytest.Eventually(t, "the backend is done", func() bool { return i.Ended(breaker.Success) == 1 })
	_ = slow.Close()
	gatewaytest.Eventually(t, "the request has ended", func() bool { return gatewaytest.CountLines(r.Logs.String(), `"status":499`) == 1 })
	if success, failed, cancelled := gatewaytest.Outcomes(i); success != 1 || failed != 0 || cancelled != 0 || i.InFlight() != 0 {
		t.Errorf("outcomes %d %d %d, in flight %d", success, failed, cancelled, i.InFlight())
	}
}
