package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// readsAndWrites returns how many reads and writes this process has asked the kernel
// for, or skips the test where the kernel does not count them.
func readsAndWrites(t *testing.T) (total int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip("the kernel does not count system calls: ", err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name == "syscr" || name == "syscw" {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	return total
}

// blocking returns the socket of a connection in blocking mode, in which a wait is one
// system call and not two.
func blocking(t *testing.T, c net.Conn) int {
	t.Helper()
	file, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return int(file.Fd())
}

// replyOnce answers every request on a listener's first connection with one read and
// one write. A request is shorter than what one read returns.
func replyOnce(t *testing.T, reply string) string {
	t.Helper()
	return serveOne(t, func(socket int, _ []byte) error {
		_, err := syscall.Write(socket, []byte(reply))
		return err
	})
}

// serveOne answers every request on a listener's first connection, which is in blocking
// mode. The connection ends with the first error.
func serveOne(t *testing.T, answer func(socket int, request []byte) error) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		file, err := c.(*net.TCPConn).File()
		if err != nil {
			return
		}
		defer func() { _ = file.Close() }()
		socket, buf := int(file.Fd()), make([]byte, 64<<10)
		for {
			n, err := syscall.Read(socket, buf)
			if n <= 0 || err != nil || answer(socket, buf[:n]) != nil {
				return
			}
		}
	}()
	return "http://" + listener.Addr().String()
}

// A chat request on connections that are open takes two reads of the client's socket at
// the most (the first may find nothing), a look at the backend's, a write to it, a read
// from it and a write to the client. More is a step back: say why, or find out.
func TestSystemCallsPerChatRequest(t *testing.T) {
	const most, requests = 6, 400
	completion := `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	backend := replyOnce(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(completion), completion))
	r := gatewaytest.Start(t, "services: {chat: {health-check: {enabled: false}, instances: [{name: m, base-url: \""+backend+"\"}]}}")
	socket := blocking(t, r.DialRaw())
	request := []byte(gatewaytest.RawPost(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 100) + `"}]}`))
	answer := make([]byte, 16<<10)
	send := func() {
		if _, err := syscall.Write(socket, request); err != nil {
			t.Fatal(err)
		}
		if n, err := syscall.Read(socket, answer); err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200")) {
			t.Fatalf("%q, %v", answer[:n], err)
		}
	}
	send()
	before := readsAndWrites(t)
	for range requests {
		send()
	}
	total := readsAndWrites(t) - before
	const own = 4 // the client's and the backend's
	each := float64(total)/requests - own
	t.Logf("%.2f reads and writes", each)
	// A little of what else the process does, such as writing its log, is in the count.
	if each > most+0.25 {
		t.Errorf("%.2f reads and writes for a request, want no more than %d", each, most)
	}
}

// An event of a stream that comes by itself takes a read, a read that finds nothing more,
// and a write. The backend sends an event when the client has the one before.
func TestSystemCallsPerEvent(t *testing.T) {
	const most, events = 3, 400
	const event = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word %d"},"finish_reason":null}]}` + "\n\n"
	next := make(chan struct{})
	backend := serveOne(t, func(socket int, _ []byte) error {
		if _, err := syscall.Write(socket, []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")); err != nil {
			return err
		}
		for n := 0; ; n++ {
			if _, open := <-next; !open {
				return io.EOF
			}
			text := fmt.Sprintf(event, n)
			if _, err := syscall.Write(socket, fmt.Appendf(nil, "%x\r\n%s\r\n", len(text), text)); err != nil {
				return err
			}
		}
	})
	r := gatewaytest.Start(t, "services: {chat: {health-check: {enabled: false}, instances: [{name: m, base-url: \""+backend+"\"}]}}")
	defer close(next)
	socket := blocking(t, r.DialRaw())
	if _, err := syscall.Write(socket, []byte(gatewaytest.RawPost(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 16<<10)
	receive := func(n int) {
		next <- struct{}{}
		if got, err := syscall.Read(socket, answer); err != nil || !bytes.Contains(answer[:got], fmt.Appendf(nil, "word %d", n)) {
			t.Fatalf("%q, %v", answer[:got], err)
		}
	}
	for n := range 3 { // from which it is seen that they are alike
		receive(n)
	}
	before := readsAndWrites(t)
	for n := range events {
		receive(3 + n)
	}
	const own = 2 // the backend's write and the client's read
	each := float64(readsAndWrites(t)-before)/events - own
	t.Logf("%.2f reads and writes", each)
	if each > most+0.25 {
		t.Errorf("%.2f reads and writes for an event, want no more than %d", each, most)
	}
}
