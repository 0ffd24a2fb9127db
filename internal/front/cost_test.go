package front

import (
	"net/http"
	"testing"
)

// A request takes its head as one string and nothing else: the request with its context,
// maps, buffers and the reply are used again.
func TestAllocationsPerRequest(t *testing.T) {
	contentType, length := []string{"application/json"}, []string{"2"}
	reply := []byte("{}")
	buf := make([]byte, 1<<10)
	_, c := listen(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := r.Body.Read(buf); err != nil {
				break
			}
		}
		w.Header()["Content-Type"], w.Header()["Content-Length"] = contentType, length
		_, _ = w.Write(reply)
	})
	request := []byte("POST /v1/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nUser-Agent: test\r\nAccept: */*\r\n" +
		"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	answer := make([]byte, 4<<10)
	n := testing.AllocsPerRun(500, func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(answer); err != nil || string(answer[n-2:n]) != "{}" {
			t.Fatalf("%q, %v", answer[:n], err)
		}
	})
	if n > 2 {
		t.Errorf("%v allocations", n)
	}
	t.Logf("%v allocations", n)
}

// Every event of a stream leaves without an allocation.
func TestAllocationsPerEvent(t *testing.T) {
	event := []byte("data: {\"choices\":[]}\n\n")
	next := make(chan struct{})
	_, c := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		flusher := w.(interface{ FlushError() error })
		for range next {
			if _, err := w.Write(event); err != nil {
				return
			}
			if flusher.FlushError() != nil {
				return
			}
		}
	})
	defer close(next)
	say(t, c, post("{}"))
	answer := make([]byte, 4<<10)
	n := testing.AllocsPerRun(500, func() {
		next <- struct{}{}
		if _, err := c.Read(answer); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
