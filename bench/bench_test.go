package main

import (
	"bufio"
	"bytes"
	"net"
	"strings"
	"testing"
	"time"
)

// listen serves connections for the length of a test and returns the address.
func listen(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				handle(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// Every workload gets its answers from the backend, and through the bare proxy.
func TestWorkloadsAreAnswered(t *testing.T) {
	backend := listen(t, answerLikeABackend)
	proxy := listen(t, forwardTo(backend))
	for _, w := range workloads(2) {
		if w.memory || w.name == "w2d" {
			continue // they take seconds
		}
		w.connections = min(w.connections, 2)
		for _, address := range []string{backend, proxy} {
			if n, err := load(address, w, 50*time.Millisecond, 0); err != nil || n == 0 {
				t.Errorf("%s: %d answers, %v", w.name, n, err)
			}
		}
	}
}

func TestAnErrorOfTheGatewayEndsTheLoad(t *testing.T) {
	address := listen(t, func(conn net.Conn) {
		if _, err := readHead(bufio.NewReader(conn)); err == nil {
			_, _ = conn.Write([]byte("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"))
		}
	})
	w := workloads(1)[1]
	w.connections = 1
	if _, err := load(address, w, time.Minute, 0); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("the error is %v", err)
	}
}

func TestBodiesHaveTheirSize(t *testing.T) {
	for _, size := range []int{1 << 10, 100 << 10} {
		if got := len(chatBody("chat", false, size)); got < size || got > size+size/8+200 {
			t.Errorf("%d bytes, want about %d", got, size)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		all  []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.all); got != c.want {
			t.Errorf("%v: %v, want %v", c.all, got, c.want)
		}
	}
}

func TestVariantsOfTheConfiguration(t *testing.T) {
	all := variants(options{patchbay: "new", compare: "old", ledger: true, scale: true, fleet: true})
	if len(all) != 14 || all[0].binary != "new" || all[1].binary != "old" {
		t.Fatalf("%+v", all)
	}
	for _, v := range all {
		text := v.config("127.0.0.1:1")
		if n := strings.Count(text, "{name: chat,"); n != v.instances {
			t.Errorf("%s: %d instances of chat, want %d", v.name, n, v.instances)
		}
		if n := strings.Count(text, "{name: model-"); n != v.models {
			t.Errorf("%s: %d more models, want %d", v.name, n, v.models)
		}
		if v.strategy != "" && !strings.Contains(text, "    load-balancer: "+v.strategy+"\n") {
			t.Errorf("%s: the strategy is not %s", v.name, v.strategy)
		}
	}
	if !bytes.Contains([]byte(all[2].config("")), []byte("quota: {enabled: true}")) {
		t.Error("the ledger is not on")
	}
}
