package front

import (
	"sync"
	"time"
)

// A client that has sent its request may end its side of the connection and wait
// for the reply. Nothing tells it from one that has left, until it is sent
// something: then one that has left resets the connection.

// peer is what is known of the client while its request is answered.
type peer struct {
	mu      sync.Mutex
	probe   func() // see response.ProbeWith
	busy    bool   // a request is being answered
	replied bool   // its reply has begun
	ended   bool   // the client has ended its side
	probing *time.Timer
}

// begin begins a request.
func (p *peer) begin(c *conn) {
	p.mu.Lock()
	p.busy = true
	ended := p.ended
	p.mu.Unlock()
	if ended {
		c.server.serving.Go(c.probeClient)
	}
}

// end ends the request.
func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy, p.replied, p.probe = false, false, nil
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

// halfClosed is called when the client has ended its side of the connection.
func (c *conn) halfClosed() {
	c.peer.mu.Lock()
	c.peer.ended = true
	busy := c.peer.busy
	c.peer.mu.Unlock()
	if busy {
		c.server.serving.Go(c.probeClient) // writing may take long
	}
}

// probeClient probes the client twice. One that cannot be probed is taken for gone.
func (c *conn) probeClient() {
	if !c.probeOnce() {
		c.endRequest()
		return
	}
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	if c.peer.busy && c.peer.probing == nil {
		c.peer.probing = time.AfterFunc(ProbeAgain, func() { c.probeOnce() })
	}
}

// probeOnce sends the client something that does not matter: an interim reply
// before the head of the reply, later what the handler has for it. False means that
// there is nothing that could be sent.
func (c *conn) probeOnce() bool {
	c.writing.Lock()
	c.peer.mu.Lock()
	probe, busy, replied := c.peer.probe, c.peer.busy, c.peer.replied
	c.peer.mu.Unlock()
	switch {
	case !busy:
		c.writing.Unlock()
		return true
	case replied:
		c.writing.Unlock()
		if probe != nil {
			probe()
		}
		return probe != nil
	}
	err := c.write([]byte(Interim))
	c.writing.Unlock()
	return err == nil
}
