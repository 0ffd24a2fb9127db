package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// bufferSize is the size of the buffers that are borrowed for reading and writing:
// an ordinary request fits into one, as does its reply.
const bufferSize = 4 << 10

// headSlop is the number of bytes by which a head may exceed the limit, as in net/http.
const headSlop = 4 << 10

// step is the current activity of a connection.
type step uint64

const (
	fresh   step = iota // nothing has come yet
	idle                // it waits for the first byte of the next request
	reading             // it reads a head
	busy                // it answers a request
	closed              // another goroutine has closed it

	stepBits = 3
	// firstHead is the state of a connection that reads the head of its first request.
	firstHead = 1<<stepBits | uint64(reading)
)

// stepOf returns the step in a state. The other bits count how often it changed.
func stepOf(state uint64) step { return step(state & (1<<stepBits - 1)) }

// conn is a connection of a client. One goroutine serves it; others affect it only through state,
// the request's context and the writing of interim replies. Everything that a handler gets for a
// request is made for that request and never used again: the handler may have started a goroutine
// that still holds it when the next request is served.
type conn struct {
	server *Server
	nc     net.Conn
	raw    syscall.RawConn // nil where there is no socket to watch
	plain  bool            // raw returns the bytes that the client sent, without encryption
	id     uint64          // the watcher's number for it; 0 means that it is not watched
	remote string
	tls    *tls.ConnectionState // nil without encryption

	// state changes in the goroutine that serves the connection, and once in the one that
	// closes it.
	state atomic.Uint64
	// seen and since belong to Server.expire: the state it saw last, and since when.
	seen  uint64
	since time.Time

	// buf[r:w] has come and was not used. buf is borrowed, or larger for a long head.
	buf      []byte
	borrowed *[bufferSize]byte
	r, w     int
	reads    alarm
	// wait is tryRead, which reads without a buffer while nothing comes, and waitErr is its
	// error; see fill.
	wait    func(fd uintptr) bool
	waitErr error

	// body, response and request belong to the present request. They are nil between
	// requests.
	body     *body
	response *response
	request  atomic.Pointer[requestContext]
	// gone says that the client has reset the connection, perhaps before its request
	// was known.
	gone  atomic.Bool
	peer  peer
	ahead ahead

	writing  sync.Mutex // an interim reply is not written into another
	deadline time.Time  // of writes
	// bounds says who sets deadline.
	bounds atomic.Uint32
	vector net.Buffers
	pieces [3][]byte // of vector
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc, remote: nc.RemoteAddr().String(), since: time.Now()}
	c.raw, _ = socketOf(nc)
	if encrypted, ok := nc.(*tls.Conn); ok {
		state := encrypted.ConnectionState()
		c.tls = &state
	} else {
		c.plain = canTryRead && c.raw != nil
	}
	c.reads.set = nc.SetReadDeadline
	c.wait = c.tryRead
	return c
}

// Who sets the deadline of writes.
const (
	byServer uint32 = iota
	byHandler
	givenBack // by the handler to the server
)

// socketOf returns the socket of a connection, which may be encrypted.
func socketOf(nc net.Conn) (syscall.RawConn, error) {
	if encrypted, ok := nc.(*tls.Conn); ok {
		nc = encrypted.NetConn()
	}
	if socket, ok := nc.(syscall.Conn); ok {
		return socket.SyscallConn()
	}
	return nil, syscall.EINVAL
}

// move goes on to another step. False means that the connection was closed.
func (c *conn) move(to step) bool {
	state := c.state.Load()
	return stepOf(state) != closed && c.state.CompareAndSwap(state, (state>>stepBits+1)<<stepBits|uint64(to))
}

// closeIn closes the connection if its state is still the given one.
func (c *conn) closeIn(state uint64) {
	if c.state.CompareAndSwap(state, state>>stepBits<<stepBits|uint64(closed)) {
		_ = c.nc.Close()
	}
}

// abort ends the request that is answered, if there is one, and closes the
// connection.
func (c *conn) abort() {
	c.endRequest()
	_ = c.nc.Close()
}

// serve answers the requests of the connection until it ends.
func (c *conn) serve() {
	defer c.server.remove(c)
	watcher := c.server.watcher
	isWatched := watcher != nil && c.raw != nil && watcher.add(c) == nil
	stop := context.AfterFunc(c.server.options.Base, c.endRequest)
	defer stop()
	defer func() { // also after a panic
		if watcher != nil {
			watcher.forget(c)
		}
		c.giveBack()
		_ = c.nc.Close()
	}()
	for {
		length := c.readHead()
		if length == 0 {
			break
		}
		x, refusal := c.newExchange(c.buf[c.r : c.r+length])
		if x == nil {
			c.refuse(refusal)
			break
		}
		c.r += length
		c.ahead.allow(!isWatched || c.server.unwatched.Load())
		if !c.move(busy) || !c.answer(x) || c.server.closing.Load() {
			break
		}
	}
}

// readHead reads until the buffer starts with the head of a request, and returns its
// length; 0 means that the connection ends. One empty line before the head is ignored
// (RFC 9112, 2.2): some clients send one after a body.
func (c *conn) readHead() int {
	limit := c.server.options.MaxHead + headSlop
	line, from := 0, 0 // where the present line starts, where to search on
	skipped := false
	for {
		came := c.buf[c.r:c.w]
		length := 0 // of the head, once its end has come
		for length == 0 {
			i := bytes.IndexByte(came[from:], '\n')
			if i < 0 {
				from = len(came)
				break
			}
			end := from + i
			if end == line || end == line+1 && came[line] == '\r' {
				if end == 1 && line == 0 && !skipped {
					skipped, from = true, 0
					came = came[2:]
					c.r += 2
					continue
				}
				length = end + 1
			}
			line, from = end+1, end+1
		}
		switch {
		case length > limit, length == 0 && len(came) > limit:
			c.refuse(Refusal{Status: http.StatusRequestHeaderFieldsTooLarge,
				Message: "The head of the request is too long."})
			return 0
		case length > 0:
			return length
		}
		if !c.moveToWait(len(came)) || !c.fillHead() {
			return 0
		}
	}
}

// moveToWait moves on to the step for waiting for the rest of a head. An idle connection may wait
// longer than one that has begun a request. False means that the connection was closed.
func (c *conn) moveToWait(has int) bool {
	switch now := stepOf(c.state.Load()); {
	case has > 0:
		return now == reading || c.move(reading)
	case now == fresh || now == reading: // an empty line may have come and was skipped
		return true
	}
	return c.move(idle)
}

// fillHead reads once. False means that the connection ends.
func (c *conn) fillHead() bool {
	for {
		n, err := c.fill()
		if n > 0 || err == nil {
			return true
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		c.reads.reset(time.Time{}) // it was the deadline of an earlier body
	}
}

// fill reads once into the buffer, and returns how many bytes have come. While nothing comes, it
// gives an empty buffer back: idle connections have none.
func (c *conn) fill() (int, error) {
	c.makeRoom()
	if !c.plain {
		c.borrow()
		n, err := c.nc.Read(c.buf[c.w:])
		c.w += n
		return n, err
	}
	before := c.w
	err := c.raw.Read(c.wait)
	if err == nil {
		err = c.waitErr
	}
	c.waitErr = nil
	return c.w - before, err
}

// makeRoom makes sure that there is room behind the bytes that have come.
func (c *conn) makeRoom() {
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
	case c.w < len(c.buf):
	case c.r > 0:
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	default:
		larger := make([]byte, 2*len(c.buf))
		c.w = copy(larger, c.buf)
		c.giveBack()
		c.buf = larger
	}
}

// borrow makes sure that there is a buffer.
func (c *conn) borrow() {
	if c.buf == nil {
		c.borrowed = c.server.buffers.Get().(*[bufferSize]byte)
		c.buf = c.borrowed[:]
	}
}

// giveBack gives the buffer back.
func (c *conn) giveBack() {
	if c.borrowed != nil {
		c.server.buffers.Put(c.borrowed)
	}
	c.borrowed, c.buf = nil, nil
}

// giveBackIfEmpty gives the buffer back unless a request is in it.
func (c *conn) giveBackIfEmpty() {
	if c.r == c.w {
		c.r, c.w = 0, 0
		c.giveBack()
	}
}

// refuse answers a request that no handler serves and ends the connection.
func (c *conn) refuse(refusal Refusal) {
	c.writing.Lock()
	_ = c.write(c.server.options.Refuse(refusal))
	c.writing.Unlock()
	c.linger()
}

// answer answers one request. False means that the connection ends.
func (c *conn) answer(x *exchange) (goesOn bool) {
	c.begin(x)
	defer func() {
		if !c.end(recover()) {
			goesOn = false
		}
	}()
	if x.request.RequestURI == "*" && x.request.Method == http.MethodOptions {
		x.response.WriteHeader(http.StatusOK) // the server as a whole has no options
	} else {
		c.server.options.Handler.ServeHTTP(&x.response, &x.request)
	}
	c.ahead.end(c)
	return x.response.finish() && c.discardBody()
}

// begin prepares for the answer to a request.
func (c *conn) begin(x *exchange) {
	c.body, c.response = &x.body, &x.response
	ctx := &x.ctx
	c.request.Store(ctx)
	if c.gone.Load() || ctx.Context.Err() != nil {
		ctx.cancel() // that happened before the context was known
	}
	c.peer.begin(c, ctx, x.response.isHTTP10)
	if x.body.ended {
		_ = x.body.end()
	}
}

// end ends the request. It reports whether the connection can have another one, which is
// not so after a panic of the handler.
func (c *conn) end(panicked any) bool {
	c.ahead.end(c)
	c.peer.end()
	c.request.Swap(nil).cancel()
	c.response.end()
	c.body.err = errEnded
	c.response, c.body = nil, nil
	if panicked == nil {
		return true
	}
	logs.Caught(panicked).Report(c.server.options.Log, "a handler")
	return false
}

// errEnded is the error of reading a body or writing a reply after the request has been answered.
var errEnded = errors.New("the request has been answered")

// endRequest ends the context of the request that is answered.
func (c *conn) endRequest() {
	if request := c.request.Load(); request != nil {
		request.cancel()
	}
}

// discardBody reads the part of the body that the handler left unread. The next request follows
// it. False means that the rest is too long.
func (c *conn) discardBody() bool {
	if c.body.ended {
		return true
	}
	if c.body.isAbandoned() {
		c.linger()
		return false
	}
	_, err := io.Copy(io.Discard, c.body)
	return err == nil
}

// linger closes the connection after the client has received the reply, even if the client still
// sends: the kernel resets a socket that is closed before all was read. linger discards
// everything the client sends meanwhile. Only time bounds that, because a client that is cut off
// while it sends may take that for the outcome instead of the reply.
func (c *conn) linger() {
	const longest = 500 * time.Millisecond
	socket, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || socket.CloseWrite() != nil {
		return
	}
	c.reads.reset(time.Now().Add(longest))
	_, _ = io.Copy(io.Discard, c.nc)
}

// alarm is the deadline of reads. The deadline on the socket is a wake-up call only: after
// waking, the clock decides whether the time is really over. The deadline may therefore stay too
// early, and need not be set for every read, which takes a lock and a timer of the runtime. A
// handler may set a limit of its own beside it.
type alarm struct {
	mu    sync.Mutex
	set   func(time.Time) error
	at    time.Time // the deadline set last; zero means none
	limit time.Time // of the handler; zero means none
}

// arrange makes sure that a read wakes at due or earlier.
func (a *alarm) arrange(due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || a.at.After(due) {
		_ = a.change(due)
	}
}

// reset sets the deadline, regardless of the one set before; the zero time takes it away.
func (a *alarm) reset(due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !due.IsZero() || !a.at.IsZero() {
		_ = a.change(due)
	}
}

// bound sets the limit of the handler; the zero time takes it away.
func (a *alarm) bound(limit time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limit.Equal(limit) {
		return nil
	}
	a.limit = limit
	return a.change(a.at)
}

// change sets the deadline. Its error can be left to the read that follows: only a closed
// connection refuses a deadline.
func (a *alarm) change(due time.Time) error {
	if !a.limit.IsZero() && (due.IsZero() || a.limit.Before(due)) {
		due = a.limit
	}
	a.at = due
	return a.set(due)
}

// isOver reports whether the limit of the handler is over.
func (a *alarm) isOver() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.limit.IsZero() && !time.Now().Before(a.limit)
}
