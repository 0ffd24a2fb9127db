package storetest

import (
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// Faults is a proxy between a test and a server. A fault holds for all
// connections, open and new, until the next one or until Heal.
type Faults struct {
	URL     string // of the server, by way of the proxy
	Address string

	upstream string
	running  sync.WaitGroup

	mu    sync.Mutex
	fault *fault
	links map[*link]struct{}
}

// fault changes the bytes that the server sends. The zero value lets them pass.
type fault struct {
	late    time.Duration // they arrive so much later
	swallow bool          // they do not arrive
	tear    bool          // the connection ends after some of them
	after   int           // so many
	cut     bool          // there is no connection
	over    chan struct{} // closed when another fault takes its place
}

// link is one connection through the proxy. Its fields below the connections belong to
// the goroutine that passes on the server's bytes, except lost, which the mutex of Faults
// guards.
type link struct {
	client, server net.Conn
	lost           bool   // some bytes were swallowed
	under          *fault // the fault that passed bytes count for
	passed         int    // bytes
}

// piece is the result of one read.
type piece struct {
	bytes []byte
	at    time.Time
}

// Between starts a proxy in front of a server.
func Between(t testing.TB, s *Server) *Faults {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Faults{
		Address:  listener.Addr().String(),
		upstream: s.Address,
		fault:    &fault{over: make(chan struct{})},
		links:    make(map[*link]struct{}),
	}
	f.URL = strings.Replace(s.URL, s.Address, f.Address, 1)
	f.running.Go(func() { f.accept(listener) })
	t.Cleanup(func() {
		_ = listener.Close() // this is all that ends accept
		f.Cut()
		f.running.Wait()
	})
	return f
}

// Slow delays everything that the server says.
func (f *Faults) Slow(by time.Duration) { f.put(fault{late: by}) }

// Swallow drops everything that the server says, with the connection open.
func (f *Faults) Swallow() { f.put(fault{swallow: true}) }

// Tear ends a connection after the given number of further bytes from the server: the
// server has done its work, and the client never hears of it.
func (f *Faults) Tear(after int) { f.put(fault{tear: true, after: after}) }

// Cut closes every connection and lets none through.
func (f *Faults) Cut() { f.put(fault{cut: true}) }

// Heal takes the fault back. Connections that have lost something end.
func (f *Faults) Heal() { f.put(fault{}) }

// Any makes one fault of these, or none.
//
//nolint:gosec // which fault it is need not be a secret
func (f *Faults) Any() {
	switch rand.N(5) {
	case 0:
		f.Slow(rand.N(200 * time.Millisecond))
	case 1:
		f.Swallow()
	case 2:
		f.Tear(rand.N(2000))
	case 3:
		f.Cut()
	}
}

func (f *Faults) put(next fault) {
	next.over = make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.fault.over)
	f.fault = &next
	for l := range f.links {
		if next.cut || l.lost && !next.swallow {
			l.close()
		}
	}
}

func (f *Faults) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		f.running.Go(func() { f.serve(client) })
	}
}

// serve connects a client with the server until one of them, or a fault, ends it.
func (f *Faults) serve(client net.Conn) {
	server, err := (&net.Dialer{Timeout: waittest.Limit}).Dial("tcp", f.upstream)
	if err != nil {
		_ = client.Close() // the client sees that there is no server
		return
	}
	l := &link{client: client, server: server}
	defer l.close()
	if !f.add(l) {
		return
	}
	defer f.remove(l)
	f.running.Go(func() {
		defer l.close()
		_, _ = io.Copy(server, client) // why it ended does not matter
	})
	pieces := make(chan piece, 1024)
	f.running.Go(func() { l.read(pieces) })
	for p := range pieces {
		if !f.pass(l, p) {
			l.close() // which ends read, and so this loop
		}
	}
}

// add reports whether a connection is allowed, and notes it.
func (f *Faults) add(l *link) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault.cut {
		return false
	}
	f.links[l] = struct{}{}
	return true
}

func (f *Faults) remove(l *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.links, l)
}

// read takes the server's bytes as they come: a delay then applies to each piece and is
// not the sum of the delays before it.
func (l *link) read(pieces chan<- piece) {
	defer close(pieces)
	for {
		buffer := make([]byte, 32<<10)
		n, err := l.server.Read(buffer)
		if n > 0 {
			pieces <- piece{buffer[:n], time.Now()}
		}
		if err != nil {
			return
		}
	}
}

// pass gives a piece to the client, changed by the present fault, and reports whether the
// connection lives on.
func (f *Faults) pass(l *link, p piece) bool {
	for {
		now := f.faultFor(l)
		if wait := now.late - time.Since(p.at); wait > 0 {
			select {
			case <-time.After(wait):
			case <-now.over:
				continue
			}
		}
		switch {
		case now.swallow:
			return true
		case now.tear && l.passed+len(p.bytes) > now.after:
			_, _ = l.client.Write(p.bytes[:now.after-l.passed]) // the connection ends in any case
			return false
		}
		l.passed += len(p.bytes)
		_, err := l.client.Write(p.bytes)
		return err == nil
	}
}

// faultFor returns the present fault for the next piece of a connection.
func (f *Faults) faultFor(l *link) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.under != f.fault {
		l.under, l.passed = f.fault, 0
	}
	l.lost = l.lost || f.fault.swallow
	return f.fault
}

// close ends both connections. It may be called more than once.
func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
