package web_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// A client that leaves takes its call to the backend with it, within 100 ms,
// and that is neither a success nor a failure of the instance.
//
// The machine of the tests is shared, so a goroutine may be late by itself:
// the best of several tries counts. A gateway that looks only now and then is
// late in all of them.
func TestClientThatLeavesCancelsTheBackend(t *testing.T) {
	t.Parallel()
	const tries, limit = 20, 100 * time.Millisecond
	for name, test := range map[string]struct {
		step     simulator.Step
		body     string
		received int // events that the client waits for before it leaves; -1: none, not even the head
	}{
		"plain, before the head":   {simulator.Step{Hang: true}, gatewaytest.PlainHi, -1},
		"plain, inside the body":   {simulator.Step{Stop: simulator.StopStall}, gatewaytest.PlainHi, -1},
		"stream, before the head":  {simulator.Step{Hang: true}, gatewaytest.StreamHi, -1},
		"stream, before any event": {simulator.Step{FirstDelay: gatewaytest.Never}, gatewaytest.StreamHi, -1},
		"stream, in the middle":    {simulator.Step{Stop: simulator.StopStall, After: 3, Text: "a b c d e"}, gatewaytest.StreamHi, 3},
		"stream, while it flows":   {simulator.Step{EventDelay: time.Millisecond, Text: gatewaytest.LongText}, gatewaytest.StreamHi, 5},
	} {
		t.Run(name, func(t *testing.T) {
			r, b := gatewaytest.StartOne(t)
			b.ScriptForever(test.step)
			best := time.Hour
			for try := 1; try <= tries && best > limit; try++ {
				best = min(best, leave(t, r, b, test.body, test.received, try))
				i := r.Instances("m")[0]
				gatewaytest.Eventually(t, "nothing is in flight", func() bool { return i.InFlight() == 0 })
				if success, failure, cancelled := gatewaytest.Outcomes(i); success != 0 || failure != 0 || cancelled != int64(try) {
					t.Errorf("outcomes %d %d %d, want only %d cancelled", success, failure, cancelled, try)
				}
			}
			if best > limit {
				t.Errorf("the backend noticed after %s at best", best)
			}
		})
	}
}

// leave sends a request, leaves it and returns how long the backend took to notice.
func leave(t *testing.T, r *gatewaytest.Gateway, b *simulator.Backend, body string, received, nth int) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	ended := make(chan struct{})
	if received >= 0 {
		events := r.Stream(ctx, body)
		for range received {
			if _, err := events.Next(); err != nil {
				t.Fatal(err)
			}
		}
		close(ended)
	} else {
		go func() {
			defer close(ended)
			response, err := r.Client.Do(r.Request(ctx, http.MethodPost, "/v1/chat/completions", body))
			if err == nil {
				t.Errorf("an answer: %d", response.StatusCode)
				_ = response.Body.Close()
			}
		}()
		if err := b.WaitRequests(ctx, nth); err != nil {
			t.Fatal(err)
		}
	}
	left := time.Now()
	cancel()
	if err := b.WaitCancelled(gatewaytest.Deadline(t), nth); err != nil {
		t.Fatal(err)
	}
	<-ended
	requests := b.Requests()
	return requests[len(requests)-1].Cancelled.Sub(left)
}

func TestClientThatLeavesIsLoggedAsGone(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t, simulator.Step{Hang: true})
	leave(t, r, b, gatewaytest.PlainHi, -1, 1)
	gatewaytest.Eventually(t, "the log says so", func() bool {
		return gatewaytest.CountLines(r.Logs.String(), `"status":499`, `"error_code":"client_cancelled"`) == 1
	})
}

// Leaving between two attempts starts no second one.
func TestClientThatLeavesIsNotFailedOver(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t, simulator.Step{Hang: true}), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b))
	leave(t, r, a, gatewaytest.PlainHi, -1, 1)
	gatewaytest.Eventually(t, "nothing is in flight", func() bool { return r.Instances("m")[0].InFlight() == 0 })
	gatewaytest.Eventually(t, "the request is logged", func() bool { return gatewaytest.CountLines(r.Logs.String(), `"status":499`) == 1 })
	if b.Stats().Arrived != 0 {
		t.Error("another instance was tried for nobody")
	}
}

// A client that ends its side of the connection after its request waits for the
// reply and gets all of it.
func TestHalfClosedClientGetsItsReply(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		step simulator.Step
		body string
		want string
	}{
		"plain":          {simulator.Step{HeaderDelay: 300 * time.Millisecond, Text: "whole"}, gatewaytest.PlainHi, `"whole"`},
		"plain, at once": {simulator.Step{Text: "whole"}, gatewaytest.PlainHi, `"whole"`},
		"stream":         {simulator.Step{FirstDelay: 200 * time.Millisecond, EventDelay: 20 * time.Millisecond, Text: "a b c d e"}, gatewaytest.StreamHi, "data: [DONE]"},
		"an error":       {simulator.Step{HeaderDelay: 100 * time.Millisecond, Status: 400}, gatewaytest.PlainHi, "upstream_error"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := gatewaytest.StartOne(t, test.step)
			conn := r.DialRaw()
			if _, err := io.WriteString(conn, gatewaytest.RawPost(test.body)); err != nil {
				t.Fatal(err)
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			replies := bufio.NewReader(conn)
			answer := gatewaytest.ReadRaw(t, replies, http.MethodPost)
			for answer.Status == http.StatusContinue {
				answer = gatewaytest.ReadRaw(t, replies, http.MethodPost)
			}
			if !strings.Contains(answer.Body, test.want) || answer.Err != nil {
				t.Errorf("%d, %v: %q", answer.Status, answer.Err, answer.Body)
			}
		})
	}
}
