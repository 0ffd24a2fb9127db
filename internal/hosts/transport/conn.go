package transport

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

const (
	// bufferSize is the size of the buffer of a connection that keeps it during a
	// call. Four KiB hold the head of every common reply and a few dozen events;
	// larger reads bypass the buffer.
	bufferSize = 4 << 10
	// socketBuffer is the size for a connection that has a buffer only while something
	// has come. It may be larger: a burst of events is read at once.
	socketBuffer = 16 << 10
)

// conn is one connection to a backend. At any time it belongs to one call or
// to the idle pool. Only abort may be called by others.
type conn struct {
	client *Client
	to     target
	nc     net.Conn // carries the bytes: the socket, or TLS over it
	socket net.Conn // closing it interrupts everything at once
	secure bool
	vector bool   // the socket takes many pieces in one system call
	probe  *probe // nil where the socket cannot be probed

	// buf[r:w] holds bytes that have come and were not consumed. buf is small,
	// which is borrowed from the client's pool, or larger for a long head; it is nil
	// while nothing is there.
	buf        []byte
	small      *[]byte
	r, w       int
	replyBegun bool    // a byte of a reply came in during this call
	stray      [1]byte // quiet reads into it: a field, which need not be allocated

	// into is where the present read goes, nil for the buffer. lend and idle are
	// methods as values, made once.
	into []byte
	lend func() []byte
	idle func()

	// turn is the state of the present visit to the socket, and visit the method that
	// makes it as a value, made once.
	turn  turn
	visit func(fd uintptr) bool
	// failed is an error that was met before anyone asked for the bytes that have come.
	failed error

	reads, writes alarm
	vec           net.Buffers

	// abortFn is abort as a value, made once for context.AfterFunc.
	abortFn func()
	// sent is set when the request left whole; abort asks from elsewhere.
	sent atomic.Bool
	// watcher is told before a request leaves, nil for nobody.
	watcher wire.Watcher

	reused    bool
	idleUntil time.Time
}

func newConn(client *Client, to target, nc, socket net.Conn) *conn {
	c := &conn{client: client, to: to, nc: nc, socket: socket, secure: nc != socket}
	c.probe = newProbe(socket)
	_, tcp := nc.(*net.TCPConn)
	c.vector = tcp
	c.reads.set = nc.SetReadDeadline
	c.writes.set = nc.SetWriteDeadline
	c.abortFn = c.abort
	c.lend, c.idle, c.visit = c.room, c.beforeWait, c.visitSocket
	return c
}

// begin prepares the connection for a call.
func (c *conn) begin() {
	c.sent.Store(false)
	c.replyBegun, c.failed = false, nil
	c.r, c.w = 0, 0
}

// end gives the buffer back. Nothing may read from the connection before the
// next begin.
func (c *conn) end() {
	if c.small != nil {
		c.buffers().Put(c.small)
	}
	c.small, c.buf, c.watcher = nil, nil, nil
}

// abort closes the connection and wakes a goroutine that is blocked on it. While
// the request is still leaving, the connection is reset instead of closed: a
// backend that stopped reading would not see the end behind the bytes queued before
// it. Later a close is better, because the kernel repeats it when it is lost.
func (c *conn) abort() {
	if !c.sent.Load() {
		if s, ok := c.socket.(interface{ SetLinger(int) error }); ok {
			_ = s.SetLinger(0)
		}
	}
	_ = c.socket.Close()
}

func (c *conn) buffered() []byte { return c.buf[c.r:c.w] }

// borrow makes sure that there is a buffer.
func (c *conn) borrow() {
	if c.buf != nil {
		return
	}
	if c.small == nil {
		c.small = c.buffers().Get().(*[]byte)
	}
	c.buf = *c.small
}

// buffers returns the pool from which the connection borrows.
func (c *conn) buffers() *sync.Pool {
	if c.probe != nil && !c.secure {
		return &c.client.socketBuffers
	}
	return &c.client.buffers
}

// room returns where the present read goes.
func (c *conn) room() []byte {
	if c.into != nil {
		return c.into
	}
	c.borrow()
	return c.buf[c.w:]
}

// beforeWait is called when nothing has come: a stream that waits has no buffer.
func (c *conn) beforeWait() {
	if c.r == c.w {
		c.end()
		c.r, c.w = 0, 0
	}
}

// readOnce reads into p, or into the buffer if p is nil.
func (c *conn) readOnce(p []byte) (int, error) {
	c.into = p
	defer func() { c.into = nil }()
	if c.probe != nil && !c.secure {
		return c.probe.wait(c.lend, c.idle)
	}
	return c.nc.Read(c.room())
}

// read reads once into p, or into the buffer if p is nil, waiting until due at most
// (zero: for ever).
func (c *conn) read(p []byte, due time.Time) (int, error) {
	if err := c.failed; err != nil {
		c.failed = nil
		return 0, err
	}
	c.reads.arrange(due)
	for {
		n, err := c.readOnce(p)
		if n > 0 {
			c.replyBegun = true
			return n, nil
		}
		if err == nil {
			return 0, io.ErrNoProgress
		}
		if !expired(err) || !due.IsZero() && !time.Now().Before(due) {
			return 0, err
		}
		c.reads.reset(due)
	}
}

// fill reads once into the buffer, which has room or can make some.
func (c *conn) fill(due time.Time) error {
	c.makeRoom()
	n, err := c.read(nil, due)
	c.w += n
	return err
}

// fillNow is fill with the bytes that have already come; false means that there
// were none.
func (c *conn) fillNow() bool {
	c.makeRoom()
	c.borrow()
	n, _ := c.readNow(c.buf[c.w:])
	c.w += n
	return n > 0
}

// readNow reads without waiting; open is false when the peer has closed.
func (c *conn) readNow(p []byte) (n int, open bool) {
	if c.secure {
		// TLS hands out decrypted bytes before it looks at the socket, and survives a read
		// deadline. The next read finds this one passed and sets its own.
		c.reads.reset(time.Unix(1, 0))
		n, err := c.nc.Read(p)
		return n, n > 0 || expired(err)
	}
	if c.probe == nil {
		return 0, true
	}
	n, waiting := c.probe.read(p)
	return n, n > 0 || waiting
}

// isReusable reports whether an idle connection may be used again: the peer has
// neither closed it nor sent unsolicited bytes, which the next call would take for
// its reply.
func (c *conn) isReusable() bool {
	if c.secure && c.probe != nil {
		if n, waiting := c.probe.read(c.stray[:]); n > 0 || !waiting {
			return false
		}
	}
	n, open := c.readNow(c.stray[:])
	return n == 0 && open
}

func (c *conn) makeRoom() {
	if c.r == c.w {
		c.r, c.w = 0, 0
		if c.small != nil {
			c.buf = *c.small // a buffer grown for a long head has served
		}
		return
	}
	if c.w == len(c.buf) {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
}

// grow doubles a full buffer.
func (c *conn) grow() {
	larger := make([]byte, 2*len(c.buf))
	c.w = copy(larger, c.buf[c.r:c.w])
	c.r = 0
	c.buf = larger
}

// alarm is one deadline of a connection. It may be too early: a goroutine that it
// wakes checks the clock and continues if the limit is not reached. So the deadline,
// which takes a lock and a timer of the runtime, is set about once per limit instead
// of once per read.
type alarm struct {
	set func(time.Time) error
	at  time.Time // the deadline that was set last; zero: none
}

// arrange makes sure that an operation wakes at due or earlier; a zero due
// means that it need not.
func (a *alarm) arrange(due time.Time) {
	if due.IsZero() || !a.at.IsZero() && !a.at.After(due) {
		return
	}
	a.reset(due)
}

// reset sets the deadline whatever was set before. Its error is left to the
// operation that follows: only a closed connection refuses a deadline.
func (a *alarm) reset(due time.Time) {
	a.at = due
	_ = a.set(due)
}

// after is now+limit, or no time at all when there is no limit.
func after(now time.Time, limit time.Duration) time.Time {
	if limit <= 0 {
		return time.Time{}
	}
	return now.Add(limit)
}
