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
)

// While a gateway stops, whoever comes is served and sent elsewhere. It ends
// when its requests do, however many more would come, and cuts none of them.
func TestStopUnderSteadyTraffic(t *testing.T) {
	early, late, b := startGate(t), startGate(t), startBackend(t)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	mustWrite(t, file, chatYAML(instance("m", early.url), instance("late", late.url), instance("quick", b.URL()))+"server: {shutdown-grace: 10m}\n")
	c := serving(t, "--config", file)
	events := c.stream(streamHi)
	if first, err := events.next(); err != nil || first != gateFirst {
		t.Fatalf("the first event: %q, %v", first, err)
	}
	conn, err := new(net.Dialer).DialContext(deadline(t), "tcp", strings.TrimPrefix(c.url(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	from := bufio.NewReader(conn)
	ask := func(path string) reply {
		body := `{"model":"quick",` + someMessages + `}`
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		return readRaw(t, from, http.MethodPost)
	}
	if answer := ask("/v1/chat/completions"); answer.status != 200 || answer.closes {
		t.Fatalf("before the stop: %d, closes %t", answer.status, answer.closes)
	}
	c.signal(syscall.SIGTERM)
	eventually(t, "readiness is refused", func() bool { return c.ask(http.MethodGet, "/actuator/health/readiness", "").status == 503 })
	if answer := ask("/v1/chat/completions"); answer.status != 200 || !answer.closes { // on the connection that was there
		t.Errorf("during the stop: %d, closes %t", answer.status, answer.closes)
	}
	for _, path := range []string{"/v1/nothing", "/api/models", "/actuator/health/liveness"} {
		response, err := new(http.Transport).RoundTrip(c.request(http.MethodGet, path))
		if err != nil || !response.Close {
			t.Fatalf("%s: %v does not end the connection (%v)", path, response, err)
		}
		_ = response.Body.Close()
	}
	asLate := func(event string) string { return strings.Replace(event, `"model":"m"`, `"model":"late"`, 1) }
	last := c.stream(`{"model":"late","stream":true,` + someMessages + `}`)
	if first, err := last.next(); err != nil || first != asLate(gateFirst) {
		t.Fatalf("the first event: %q, %v", first, err)
	}
	close(early.open)
	if rest, err := events.rest(); err != nil || !slices.Equal(rest, []string{gateLast, "[DONE]"}) {
		t.Errorf("the stream that was there: %q, %v", rest, err)
	}
	eventually(t, "nobody gets in any more", func() bool {
		conn, err := new(net.Dialer).DialContext(deadline(t), "tcp", strings.TrimPrefix(c.url(), "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(late.open)
	if rest, err := last.rest(); err != nil || !slices.Equal(rest, []string{asLate(gateLast), "[DONE]"}) {
		t.Errorf("the stream that came late: %q, %v", rest, err)
	}
	c.exits(exitOK)
}

// request returns a request that leaves the connection open, if the other side does.
func (c *child) request(method, path string) *http.Request {
	c.t.Helper()
	request, err := http.NewRequestWithContext(deadline(c.t), method, c.url()+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return request
}

// A client that sends half a body does not hold a stop up for long.
func TestStopDoesNotWaitForHalfABody(t *testing.T) {
	c := serving(t, "--set", "server.shutdown-grace=300ms")
	conn, err := new(net.Dialer).DialContext(deadline(t), "tcp", strings.TrimPrefix(c.url(), "http://"))
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
