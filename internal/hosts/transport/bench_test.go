//go:build unix

package transport

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

// loopback is a backend that costs as little as possible: it counts bytes
// instead of parsing requests, which all have the same length.
func loopback(b *testing.B, reply string) Origin {
	return backend(b, func(p *peer) {
		buf := make([]byte, 256<<10)
		out := []byte(reply)
		have, want := 0, 0
		for {
			n, err := p.TCPConn.Read(buf[have:])
			if err != nil {
				return
			}
			have += n
			if want == 0 {
				if i := bytes.Index(buf[:have], []byte("\r\n\r\n")); i >= 0 {
					_, length, _ := strings.Cut(string(buf[:i+2]), "Content-Length: ")
					length, _, _ = strings.Cut(length, "\r\n")
					body, _ := strconv.Atoi(length)
					want = i + 4 + body
				}
			}
			if want > 0 && have >= want {
				have, want = 0, 0
				p.TCPConn.Write(out)
			}
		}
	})
}

// measure reports the CPU time of the process per call: both ends run in it,
// and the backend's share is the same for both clients.
func measure(b *testing.B, call func()) {
	b.ReportAllocs()
	call()
	var before, after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	n := 0
	for b.Loop() {
		call()
		n++
	}
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(cpu)/float64(n)/1000, "cpu-µs/op")
}

func BenchmarkCall(b *testing.B) {
	for _, bench := range []struct {
		name, reply string
		body        []byte
	}{
		{"plain", plainReply, chatRequest},
		{"stream", streamReply, chatRequest},
		{"long-request", plainReply, bytes.Repeat([]byte("x"), 100<<10)},
	} {
		b.Run(bench.name+"/ours", func(b *testing.B) { benchOurs(b, bench.reply, bench.body) })
		b.Run(bench.name+"/net-http", func(b *testing.B) { benchStandard(b, bench.reply, bench.body) })
	}
}

func benchOurs(b *testing.B, reply string, body []byte) {
	to := loopback(b, reply)
	c := client(b, Options{})
	call := &wire.Call{Method: "POST", Path: "/v1/chat/completions", Body: [][]byte{body[:100], body[100:]}, Header: []wire.Header{
		{Name: "Authorization", Value: "Bearer 0123456789"}, {Name: "Content-Type", Value: "application/json"},
	}}
	limits := Timeouts{Connect: 5 * time.Second, FirstByte: time.Minute, Idle: 2 * time.Minute}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	buf := make([]byte, 32<<10)
	measure(b, func() {
		r, err := c.Send(ctx, &to, call, limits)
		if err != nil {
			b.Fatal(err)
		}
		drain(b, r, buf)
		if r.Header("content-type") == "" {
			b.Fatal("no content type")
		}
		r.Close()
		r.Free()
	})
}

func benchStandard(b *testing.B, reply string, body []byte) {
	to := loopback(b, reply)
	transport := &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, MaxIdleConnsPerHost: 1024, DisableCompression: true,
		ResponseHeaderTimeout: time.Minute, IdleConnTimeout: 90 * time.Second,
	}
	b.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	buf := make([]byte, 32<<10)
	measure(b, func() {
		req, err := http.NewRequestWithContext(ctx, "POST", to.String()+"/v1/chat/completions", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer 0123456789")
		req.Header.Set("Content-Type", "application/json")
		r, err := transport.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		drain(b, r.Body, buf)
		if r.Header.Get("content-type") == "" {
			b.Fatal("no content type")
		}
		r.Body.Close()
	})
}

func drain(b *testing.B, r io.Reader, buf []byte) {
	for {
		_, err := r.Read(buf)
		if err == io.EOF {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
