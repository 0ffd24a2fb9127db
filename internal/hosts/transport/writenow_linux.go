package transport

import (
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// turn is the state of one visit to a socket; see conn.turnTo.
type turn struct {
	pieces [][]byte // the bytes that have not left
	begun  bool
	stale  bool // the backend has closed the connection, or sent bytes that nobody asked for
}

// turnTo sends as much of a request as the socket takes without waiting and, if that is
// all of it, waits until due at the latest for the first bytes of the reply. It returns
// the part that has not left. An idle connection is looked at first: stale means that
// it cannot be used and that nothing was sent.
//
// All of this happens in one visit to the socket, because the runtime forgets only at
// the beginning of a visit that something has come. So one look before sending is
// enough, and the reply need not be looked for right after it, when it cannot have
// come.
func (c *conn) turnTo(pieces [][]byte, due time.Time) (rest [][]byte, stale bool) {
	c.makeRoom()
	c.turn = turn{pieces: pieces}
	c.reads.arrange(due)
	p := c.probe
	p.lend, p.idle, p.n, p.err = c.lend, c.idle, 0, nil
	err := p.raw.Read(c.visit)
	if expired(err) && !c.turn.begun { // by a deadline of an earlier call
		c.reads.reset(due)
		err = p.raw.Read(c.visit)
	}
	p.lend, p.idle, p.into = nil, nil, nil
	rest, stale = c.turn.pieces, c.turn.stale
	c.turn = turn{}
	if stale || len(rest) > 0 {
		return rest, stale
	}
	switch {
	case expired(err): // whether that is the end is decided by who reads the head
	case err != nil:
		c.failed = err
	case p.err != nil:
		c.failed = os.NewSyscallError("read", p.err)
	case p.n == 0:
		c.failed = io.EOF
	default:
		c.w += p.n
		c.replyBegun = true
	}
	return nil, false
}

// canTurn reports whether turnTo works for the connection.
func (c *conn) canTurn() bool { return c.vector && c.probe != nil }

// visitSocket is the part of turnTo that works on the socket. False means that it is
// to be called again when something has come.
func (c *conn) visitSocket(fd uintptr) bool {
	t := &c.turn
	if t.begun {
		return c.probe.readOrWait(fd)
	}
	t.begun = true
	if c.reused {
		c.probe.into = c.stray[:]
		if c.probe.attempt(fd); c.probe.err != syscall.EAGAIN {
			t.stale = true
			return true
		}
	}
	if c.watcher != nil {
		c.watcher.Leaves()
	}
	t.pieces = writeNow(int(fd), t.pieces)
	if len(t.pieces) > 0 {
		return true
	}
	c.sent.Store(true)
	if c.reused {
		return false // there was nothing a moment ago: the runtime notices new bytes
	}
	return c.probe.readOrWait(fd)
}

// writeNow writes as much as a socket takes without waiting, and returns the rest.
// Errors come again when the rest is written.
func writeNow(fd int, pieces [][]byte) (rest [][]byte) {
	var written int
	for {
		n, err := unix.Writev(fd, pieces)
		if err == unix.EINTR {
			continue
		}
		written = max(n, 0)
		break
	}
	for len(pieces) > 0 && written >= len(pieces[0]) {
		written -= len(pieces[0])
		pieces[0] = nil // no idle connection holds a request
		pieces = pieces[1:]
	}
	if written > 0 {
		pieces[0] = pieces[0][written:]
	}
	return pieces
}
