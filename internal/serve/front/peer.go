package front

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// A client that has sent its request may end its side of the connection and wait for the
// reply. The server cannot tell it from a client that has left, until it sends something: a
// client that has left then resets the connection.

// peer is the gateway's knowledge of the client while its request is answered.
type peer struct {
	mu      sync.Mutex
	request *requestContext // that is being answered, nil between requests
	probe   func()          // see response.ProbeWith
	replied bool            // the reply has begun, or an interim one is not possible
	ended   bool            // the client has ended its side
	probing *time.Timer
}

// begin begins a request.
func (p *peer) begin(c *conn, request *requestContext, isHTTP10 bool) {
	p.mu.Lock()
	p.request, p.replied = request, isHTTP10
	ended := p.ended
	p.mu.Unlock()
	if ended {
		c.server.serving.Go(func() { c.contain(request, func() { c.probeClient(request) }) })
	}
}

// end ends the request.
func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request, p.replied, p.probe = nil, false, nil
	if p.probing != nil {
		p.probing.Stop()
		p.probing = nil
	}
}

func (p *peer) beginReply() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replied = true
}

func (p *peer) probeWith(probe func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probe = probe
}

// leave ends that knowledge: the handler has the connection, and the server sends nothing more.
func (p *peer) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request, p.probe = nil, nil
}

// halfClosed is called when the client has ended its side of the connection.
func (c *conn) halfClosed() {
	c.peer.mu.Lock()
	c.peer.ended = true
	request := c.peer.request
	c.peer.mu.Unlock()
	if request != nil {
		c.server.serving.Go(func() { c.contain(request, func() { c.probeClient(request) }) }) // writing may take long
	}
}

// probeClient probes the client of a request twice. It takes a client for gone if it cannot
// probe it.
func (c *conn) probeClient(request *requestContext) {
	if !c.probeOnce(request) {
		request.cancel()
		return
	}
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	if c.peer.request == request && c.peer.probing == nil {
		c.peer.probing = time.AfterFunc(probeAgain, func() { c.contain(request, func() { c.probeOnce(request) }) })
	}
}

// contain runs a probe of the client of a request, which ends if it panics.
func (c *conn) contain(request *requestContext, probe func()) {
	if !logs.Contain(c.server.options.Log, "asking a client", probe) {
		request.cancel()
	}
}

// probeOnce sends the client of a request something harmless: an interim reply before the head of
// the reply, and later whatever the handler has provided. False means that there is nothing to
// send.
func (c *conn) probeOnce(request *requestContext) bool {
	c.writing.Lock()
	c.peer.mu.Lock()
	probe, isAnswered, replied := c.peer.probe, c.peer.request != request, c.peer.replied
	c.peer.mu.Unlock()
	switch {
	case isAnswered:
		c.writing.Unlock()
		return true
	case replied:
		c.writing.Unlock()
		if probe != nil {
			probe()
		}
		return probe != nil
	}
	err := c.write([]byte(interim))
	c.writing.Unlock()
	if err != nil {
		request.cancel() // the client has left
	}
	return true
}

// writeInterim tells the client to go on, unless the reply has begun.
func (c *conn) writeInterim() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.response.sent {
		return nil
	}
	return c.write([]byte(interim))
}

// ahead notices that a client leaves where no poller does: on systems that have none, and where
// it fails. After the body of a request was read, and while the request is answered, a goroutine
// reads the next byte of the connection.
type ahead struct {
	// off says that nothing is to be noticed: there is a poller, or no request. Then there is no
	// goroutine, and nobody needs the lock.
	off  atomic.Bool
	mu   sync.Mutex
	done chan struct{} // is closed when the goroutine ends; nil without one
	next [1]byte       // begins the next request
	n    int           // how many bytes of next have come
}

// allow says whether begin has something to do.
func (a *ahead) allow(on bool) { a.off.Store(!on) }

// begin begins to read ahead.
func (a *ahead) begin(c *conn) {
	if a.off.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.off.Load() || a.done != nil {
		return
	}
	c.reads.reset(time.Time{})
	done := make(chan struct{})
	a.done = done
	c.server.serving.Go(func() {
		defer close(done)
		logs.Contain(c.server.options.Log, "reading ahead", func() { a.read(c) })
	})
}

// read reads the next byte of the connection.
func (a *ahead) read(c *conn) {
	var err error
	switch a.n, err = c.nc.Read(a.next[:]); {
	case a.n > 0, errors.Is(err, os.ErrDeadlineExceeded): // which end sets
	case errors.Is(err, io.EOF):
		c.halfClosed()
	default:
		c.gone.Store(true)
		c.endRequest()
	}
}

// end stops the reading that begin started. The buffer of the connection then has the bytes that
// came.
func (a *ahead) end(c *conn) {
	if a.off.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.off.Store(true)
	if a.done == nil {
		return
	}
	c.reads.reset(time.Unix(1, 0))
	<-a.done
	c.reads.reset(time.Time{})
	if a.n > 0 {
		c.makeRoom()
		c.borrow()
		c.buf[c.w] = a.next[0]
		c.w++
	}
	a.done, a.n = nil, 0
}
