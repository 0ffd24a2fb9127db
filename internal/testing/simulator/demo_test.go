package simulator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func TestDemoFaults(t *testing.T) {
	options := Demo("demo", 0)
	options.TokenDelay = 0
	r := newRig(t, options)
	ask := func(model, more string) reply {
		return r.chat(`{"model":"` + model + `"` + more + `,"messages":[{"role":"user","content":"hi"}]}`)
	}
	var flaky []int
	for range 6 {
		flaky = append(flaky, ask(DemoFlaky, "").status)
	}
	if diff := cmp.Diff([]int{200, 200, 500, 200, 200, 500}, flaky); diff != "" {
		t.Error(diff)
	}
	if got := ask(DemoChat, ""); got.status != 200 {
		t.Errorf("chat: %+v", got)
	}
	if got := ask(DemoCut, ""); got.status != 200 || !errors.Is(got.err, syscall.ECONNRESET) {
		t.Errorf("cut: %+v", got)
	}
	got := ask(DemoCut, `,"stream":true`)
	if !errors.Is(got.err, syscall.ECONNRESET) || strings.Count(got.body, "data: ") != 10 || strings.Contains(got.body, `"finish_reason":"`) {
		t.Errorf("cut stream: %+v", got)
	}
	if got := ask(DemoDown, ""); !errors.Is(got.err, syscall.ECONNRESET) {
		t.Errorf("down: %+v", got)
	}
	if got := ask("other", ""); got.status != 404 {
		t.Errorf("unknown: %+v", got)
	}
}

func TestDemoHangsUntilTheClientLeaves(t *testing.T) {
	r := newRig(t, Demo("demo", 0))
	ctx, leave := context.WithCancel(waittest.Context(t))
	ended := make(chan reply)
	go func() {
		ended <- r.do(ctx, http.MethodPost, "/v1/chat/completions", strings.Replace(hi, `"m"`, `"demo-hang"`, 1))
	}()
	if err := r.WaitRequests(waittest.Context(t), 1); err != nil {
		t.Fatal(err)
	}
	leave()
	<-ended
	if err := r.WaitCancelled(waittest.Context(t), 1); err != nil {
		t.Fatal(err)
	}
}

func TestDelaysPassWhereTheyShould(t *testing.T) {
	ask := func(model string) string {
		return `{"model":"` + model + `","stream":true,"max_tokens":20,"messages":[{"role":"user","content":"hi"}]}`
	}
	tests := []struct {
		name              string
		step              Step
		body              string
		head, first, last time.Duration // since the request was sent
	}{
		// 22 events: role, 20 tokens, finish; [DONE] follows the last at once.
		{"30 tokens a second", Step{}, ask(DemoChat), 0, 0, 21 * DemoTokenDelay},
		{"slow start", Step{}, ask(DemoSlow), 0, 3 * time.Second, 3*time.Second + 21*DemoTokenDelay},
		{"slow head", Step{HeaderDelay: time.Minute, EventDelay: -1}, ask(DemoChat), time.Minute, time.Minute, time.Minute},
		{"slow events", Step{EventDelay: time.Hour}, ask(DemoChat), 0, 0, 21 * time.Hour},
		{"plain answers come at once", Step{Plain: true}, ask(DemoChat), 0, 0, 0},
		{"slow plain answer", Step{Plain: true, FirstDelay: time.Minute}, ask(DemoChat), time.Minute, time.Minute, time.Minute},
		{"one byte a second", Step{Body: "12345", Slice: 1, EventDelay: time.Second}, ask(DemoChat), 0, 0, 4 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := newPipeListener()
				options := Demo("demo", 3*time.Second)
				options.Listener = listener
				b, err := Start(options)
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				if test.step.EventDelay != 0 || test.step.Plain {
					b.Script(test.step)
				}
				transport := &http.Transport{DialContext: listener.dial}
				defer transport.CloseIdleConnections()
				began := time.Now()
				response, err := (&http.Client{Transport: transport}).Post(b.URL()+"/v1/chat/completions", "application/json", strings.NewReader(test.body))
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				head := time.Since(began)
				if _, err := io.ReadFull(response.Body, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				first := time.Since(began)
				if _, err := io.Copy(io.Discard, response.Body); err != nil {
					t.Fatal(err)
				}
				got := []time.Duration{head, first, time.Since(began)}
				if diff := cmp.Diff([]time.Duration{test.head, test.first, test.last}, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// pipeListener is a network in memory, so that the fake clock can run.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
