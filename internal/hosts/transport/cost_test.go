package transport

import (
	"context"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

var (
	chatRequest = []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 200) + `"}]}`)
	plainReply  = func() string {
		body := `{"choices":[{"message":{"content":"` + strings.Repeat("word ", 200) + `"}}]}`
		return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 02 Nov 2026 10:00:00 GMT\r\nServer: uvicorn\r\nX-Request-Id: 0123456789abcdef\r\nContent-Length: " +
			strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}()
	streamReply = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		strings.Repeat(chunk(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" word"}}]}`+"\n\n"), 100) + "0\r\n\r\n"
)

// replay answers every write with the same reply.
type replay struct {
	memory
	reply string
}

func (r *replay) Write(p []byte) (int, error) {
	r.in.Reset(r.reply)
	return len(p), nil
}

// A plain call on a reused connection allocates nothing but the watch on the context.
func TestAllocationsPerCall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes things out of pools")
	}
	c := client(t, Options{Dial: dialTo(&replay{memory{in: strings.NewReader("")}, plainReply})})
	to, call := origin(t, "http://h"), post(string(chatRequest))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	limits := Timeouts{Connect: waittest.Limit, FirstByte: waittest.Limit, Idle: waittest.Limit}
	buf := make([]byte, 4<<10)
	n := testing.AllocsPerRun(200, func() {
		r, err := c.Send(ctx, &to, call, limits)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = r.Read(buf)
		}
		if err != io.EOF {
			t.Fatal(err)
		}
		r.Close()
		r.Free()
	})
	if n > 2 {
		t.Errorf("%v allocations", n)
	}
}

// A stream that waits for its next event holds one small buffer.
func TestMemoryPerStream(t *testing.T) {
	const streams = 256
	conns := make([]net.Conn, streams)
	for i := range conns {
		conns[i] = &memory{in: strings.NewReader(streamReply), step: 100}
	}
	c := client(t, Options{Dial: scripted(conns...)})
	to, call := origin(t, "http://h"), post("x")
	open := make([]*Response, streams)
	before := heap()
	for i := range open {
		r, err := c.Send(t.Context(), &to, call, Timeouts{})
		if err != nil {
			t.Fatal(err)
		}
		open[i] = r
	}
	each := (heap() - before) / streams
	for _, r := range open {
		r.Close()
	}
	if each > 8<<10 {
		t.Errorf("%d bytes per stream", each)
	}
	t.Logf("%d bytes per stream", each)
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // the second empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
