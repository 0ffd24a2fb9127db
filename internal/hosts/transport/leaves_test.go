package transport

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// departures counts the calls that leave, and how many had come when the latest left.
type departures struct {
	left, before int
	come         *atomic.Int64
}

func (d *departures) Leaves() {
	d.left++
	d.before = int(d.come.Load())
}

// A watcher knows of a call before its backend does, over a new connection and an idle one, and
// of none that nothing was connected for.
func TestACallThatLeavesIsToldBefore(t *testing.T) {
	t.Parallel()
	var come atomic.Int64
	serve := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { come.Add(1) })
	plain, secure := httptest.NewServer(serve), httptest.NewTLSServer(serve)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	vacant, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	vacant.Close()
	client := New(Options{TLS: secure.Client().Transport.(*http.Transport).TLSClientConfig})
	t.Cleanup(client.Close)
	for _, url := range []string{plain.URL, plain.URL, secure.URL, secure.URL} {
		to, watcher, came := origin(t, url), &departures{come: &come}, int(come.Load())
		r, err := client.Send(t.Context(), &to, &wire.Call{Method: "POST", Path: "/", Body: [][]byte{[]byte("x")}, Watcher: watcher}, Timeouts{FirstByte: waittest.Limit})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if watcher.left != 1 || watcher.before != came {
			t.Errorf("%s: %d calls left, and of %d it was told late", url, watcher.left, watcher.before-came)
		}
	}
	to, watcher := origin(t, "http://"+vacant.Addr().String()), &departures{come: &come}
	if _, err := client.Send(t.Context(), &to, &wire.Call{Method: "POST", Path: "/", Watcher: watcher}, Timeouts{}); err == nil || watcher.left != 0 {
		t.Errorf("a call for which nothing was connected left: %v, %d", err, watcher.left)
	}
}
