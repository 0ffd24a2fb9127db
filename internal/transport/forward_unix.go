//go:build unix

package transport

import (
	"io"
	"os"
	"syscall"
	"time"
)

// forwarding is the state of the present Forward.
type forwarding struct {
	response *Response
	to       Outlet
	flushed  bool      // nothing has come since flush was called
	waited   time.Time // since when nothing has come
}

// Forward passes on what comes of the body for as long as the outlet uses all of it. It
// returns when something is left, which Read returns then, and when Read has an error or
// the end to return.
//
// It is a shorter way than Read for streams that are passed on as they are: one visit to
// the socket lasts until there is something that the outlet does not use, and while it
// waits it holds no buffer. Where the body or the connection is of another kind it returns
// at once.
func (r *Response) Forward(to Outlet) {
	c := r.conn
	if r.err != nil || c.probe == nil || c.secure || c.failed != nil ||
		r.body.framing != chunked || r.body.done || len(r.plain) > 0 || !r.deadline.IsZero() {
		return
	}
	c.forwarding = forwarding{response: r, to: to}
	if c.r == c.w || c.forwarding.passBuffered() {
		if err := c.probe.raw.Read(c.forward); expired(err) {
			r.waited = c.forwarding.waited // Read decides whether that was too long
		}
	}
	c.probe.into, c.forwarding = nil, forwarding{}
}

// passBuffered hands on what is in the buffer, and tells whether all of it is used up and
// more may come.
func (f *forwarding) passBuffered() bool {
	r := f.response
	came := r.unframe()
	r.plain = came[f.to.Pass(came):]
	f.flushed = false
	return len(r.plain) == 0 && r.conn.r == r.conn.w && !r.body.done
}

// forwardFrom is what Forward does with the socket. False means that it is to be called
// again when something has come. What comes while the last is passed on leaves with it:
// nothing is flushed before there is nothing to read.
func (c *conn) forwardFrom(fd uintptr) bool {
	f := &c.forwarding
	for {
		c.makeRoom()
		c.borrow()
		c.probe.into = c.buf[c.w:]
		c.probe.attempt(fd)
		switch {
		case c.probe.n > 0:
			c.w += c.probe.n
			if !f.passBuffered() {
				return true
			}
		case c.probe.err == syscall.EAGAIN:
			c.beforeWait()
			f.beforeWait()
			return false
		case c.probe.err != nil:
			c.failed = os.NewSyscallError("read", c.probe.err)
			return true
		default:
			c.failed = io.EOF
			return true
		}
	}
}

// beforeWait flushes what was passed on, and arranges until when more must come.
func (f *forwarding) beforeWait() {
	if f.flushed {
		return
	}
	f.flushed = true
	f.waited = f.to.Flush()
	r := f.response
	r.conn.reads.arrange(after(f.waited, r.limits.Idle))
}
