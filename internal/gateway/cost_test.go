package gateway_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// replies answers every request on a listener with the same reply, without
// allocating. A request ends with "}]}".
func replies(t *testing.T, reply string) string {
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
		buf, answer := make([]byte, 64<<10), []byte(reply)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			for n := 0; err == nil; {
				var more int
				more, err = c.Read(buf[n:])
				if n += more; bytes.HasSuffix(buf[:n], []byte("}]}")) {
					n = 0
					_, err = c.Write(answer)
				}
			}
			_ = c.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

// What a plain chat request allocates from the client's socket to the backend's and
// back, with the access log on. More than this is a step back: say why, or find out. Most
// of it is what the handler is given: request, context, header with a copy of each name
// and value, reply and record are not used again for another request.
func TestAllocationsPerChatRequest(t *testing.T) {
	if gatewaytest.RaceEnabled {
		t.Skip("the race detector allocates, too")
	}
	const most = 9
	completion := `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	backend := replies(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(completion), completion))
	r := gatewaytest.Start(t, "services: {chat: {health-check: {enabled: false}, instances: [{name: m, base-url: \""+backend+"\"}]}}")
	r.Post("/actuator/loggers/ROOT", `{"configuredLevel":"INFO"}`) // as a gateway has it that nobody debugs
	c := r.DialRaw()
	request := []byte(gatewaytest.RawPost(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 100) + `"}]}`))
	answer := make([]byte, 16<<10)
	n := testing.AllocsPerRun(300, func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(answer); err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200")) {
			t.Fatalf("%q, %v", answer[:n], err)
		}
	})
	if n > most {
		t.Errorf("%v allocations, want no more than %d", n, most)
	}
	t.Logf("%v allocations", n)
}
