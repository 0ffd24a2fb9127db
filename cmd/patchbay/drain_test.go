package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// While a gateway stops, whoever comes is served and sent elsewhere. It ends
// when its requests do, however many more would come, and cuts none of them.
func TestStopUnderSteadyTraffic(t *testing.T) {
	t.Parallel()
	early, late, b := gatewaytest.StartHeldBackend(t), gatewaytest.StartHeldBackend(t), gatewaytest.StartBackend(t)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", early.URL), gatewaytest.Instance("late", late.URL), gatewaytest.Instance("quick", b.URL()))+"server: {shutdown-grace: 10m}\n")
	c := serving(t, "--config", file)
	events := c.stream(gatewaytest.StreamHi)
	if first, err := events.Next(); err != nil || first != gatewaytest.FirstChunk {
		t.Fatalf("the first event: %q, %v", first, err)
	}
	conn, err := new(net.Dialer).DialContext(gatewaytest.Deadline(t), "tcp", strings.TrimPrefix(c.url(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	from := bufio.NewReader(conn)
	ask := func(path string) gatewaytest.Reply {
		body := `{"model":"quick",` + gatewaytest.SomeMessages + `}`
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		return gatewaytest.ReadRaw(t, from, http.MethodPost)
	}
	if answer := ask("/v1/chat/completions"); answer.Status != 200 || answer.Closes {
		t.Fatalf("before the stop: %d, closes %t", answer.Status, answer.Closes)
	}
	c.signal(syscall.SIGTERM)
	gatewaytest.Eventually(t, "readiness is refused", func() bool { return c.ask(http.MethodGet, "/actuator/health/readiness", "").Status == 503 })
	if answer := ask("/v1/chat/completions"); answer.Status != 200 || !answer.Closes { // on the connection that was there
		t.Errorf("during the stop: %d, closes %t", answer.Status, answer.Closes)
	}
	for _, path := range []string{"/v1/nothing", "/api/models", "/actuator/health/liveness"} {
		response, err := new(http.Transport).RoundTrip(c.request(http.MethodGet, path))
		if err != nil || !response.Close {
			t.Fatalf("%s: %v does not end the connection (%v)", path, response, err)
		}
		_ = response.Body.Close()
	}
	asLate := func(event string) string { return strings.Replace(event, `"model":"m"`, `"model":"late"`, 1) }
	last := c.stream(`{"model":"late","stream":true,` + gatewaytest.SomeMessages + `}`)
	if first, err := last.Next(); err != nil || first != asLate(gatewaytest.FirstChunk) {
		t.Fatalf("the first event: %q, %v", first, err)
	}
	close(early.Open)
	if rest, err := events.Rest(); err != nil || !slices.Equal(rest, []string{gatewaytest.LastChunk, "[DONE]"}) {
		t.Errorf("the stream that was there: %q, %v", rest, err)
	}
	gatewaytest.Eventually(t, "nobody gets in any more", func() bool {
		conn, err := new(net.Dialer).DialContext(gatewaytest.Deadline(t), "tcp", strings.TrimPrefix(c.url(), "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(late.Open)
	if rest, err := last.Rest(); err != nil || !slices.Equal(rest, []string{asLate(gatewaytest.LastChunk), "[DONE]"}) {
		t.Errorf("the stream that came late: %q, %v", rest, err)
	}
	c.exits(exitOK)
}

// request returns a request that leaves the connection open, if the other side does.
func (c *child) request(method, path string) *http.Request {
	c.t.Helper()
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(c.t), method, c.url()+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return request
}

// A client that sends half a body does not hold a stop up for long.
func TestStopDoesNotWaitForHalfABody(t *testing.T) {
	t.Parallel()
	c := serving(t, "--set", "server.shutdown-grace=300ms")
	conn, err := new(net.Dialer).DialContext(gatewaytest.Deadline(t), "tcp", strings.TrimPrefix(c.url(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("the body is not waited for: %q, %v", line, err)
	}
	_, _ = io.WriteString(conn, `{"model":`)
	begun := time.Now()
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	// The connection is still open: without the signal the gateway would wait 30 s
	// for the rest of the body.
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("a grace of 300 ms took %s", took)
	}
}

// A stop that nothing runs at ends after its delay, and says how long that is.
func TestTheDelayOfAStopEnds(t *testing.T) {
	t.Parallel()
	c := serving(t, "--set", "server.shutdown-delay=50ms")
	c.signal(syscall.SIGTERM)
	c.exits(exitOK)
	if log := c.stderr.String(); !strings.Contains(log, `"delay":"50ms"`) {
		t.Error(log)
	}
}
