package web

import (
	"io"
	"net/http"
	"syscall"
	"time"
)

// A client that has sent its request may end its side of the connection and wait
// for the reply. Nothing tells it from one that has left, until it is sent
// something: then one that has left resets the connection.

// probeAgain is when a client is probed a second time: a proxy on the way may
// take the first one itself.
const probeAgain = 50 * time.Millisecond

var interim = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// ProbeWith sets what sends something harmless to the client once the head of the
// reply is out; nil means that nothing can.
func ProbeWith(w http.ResponseWriter, probe func()) {
	if response, ok := w.(*Response); ok && response.conn != nil {
		response.conn.mu.Lock()
		defer response.conn.mu.Unlock()
		response.conn.probe = probe
	}
}

// halfClosed is what a read returns that found the end of the client's side while
// a request is answered: io.EOF if the client has left.
func (c *Conn) halfClosed() error {
	if _, ok := c.Conn.(syscall.Conn); !ok || !c.probeClient() {
		return io.EOF
	}
	again := time.AfterFunc(probeAgain, func() { c.probeClient() })
	defer again.Stop()
	return awaitReset(c.Conn)
}

// probeClient sends the client something that does not matter: an interim reply
// before the head of the reply, later what the handler has for it. False means
// that there is nothing that could be sent.
func (c *Conn) probeClient() bool {
	c.writing.Lock()
	c.mu.Lock()
	probe, replied, old := c.probe, c.replied, c.old
	c.mu.Unlock()
	if replied || old {
		c.writing.Unlock()
		if probe != nil {
			probe()
		}
		return probe != nil
	}
	c.deadlines.boundWrite(c.Conn, len(interim))
	_, err := c.Conn.Write(interim)
	c.writing.Unlock()
	return err == nil
}
