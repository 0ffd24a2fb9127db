package web

import (
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/patchbay-ai/patchbay/internal/front"
)

// A client may close its sending side of the connection after its request and wait for
// the reply. It looks like a client that has left until something is sent to it: a
// client that has left then resets the connection.

// ProbeWith sets the function that sends the client something harmless after the head
// of the reply was sent; nil means that the body has no room for that.
func ProbeWith(w http.ResponseWriter, probe func()) {
	response, ok := w.(*Response)
	if !ok {
		return
	}
	if to, ok := response.ResponseWriter.(interface{ ProbeWith(probe func()) }); ok {
		to.ProbeWith(probe)
		return
	}
	if response.conn != nil {
		response.conn.mu.Lock()
		defer response.conn.mu.Unlock()
		response.conn.probe = probe
	}
}

// halfClosed is called when the client has closed its sending side while a request is
// being answered. It waits until the client has left, and returns an error then.
func (c *Conn) halfClosed() error {
	if _, ok := c.Conn.(syscall.Conn); !ok || !c.probeClient() {
		return io.EOF
	}
	again := time.AfterFunc(front.ProbeAgain, func() { c.probeClient() })
	defer again.Stop()
	return awaitReset(c.Conn)
}

// probeClient sends the client something harmless: an interim reply before the head of
// the reply, and what ProbeWith has set after it. It returns false if there is nothing
// that can be sent.
func (c *Conn) probeClient() bool {
	c.writing.Lock()
	c.mu.Lock()
	probe, replied, isHTTP10 := c.probe, c.replied, c.isHTTP10
	c.mu.Unlock()
	if replied || isHTTP10 {
		c.writing.Unlock()
		if probe != nil {
			probe()
		}
		return probe != nil
	}
	c.deadlines.boundWrite(c.Conn, len(front.Interim))
	_, err := io.WriteString(c.Conn, front.Interim)
	c.writing.Unlock()
	if err != nil {
		// The client has left. A write takes the error of a socket, so that awaitReset
		// may find none; closing ends it.
		_ = c.Conn.Close()
	}
	return true
}
