package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

const (
	// earlyReply is how long a reply is awaited after the request could not be
	// written: a backend that refuses a request says so before it closes.
	earlyReply = 250 * time.Millisecond
	// settle is how long Close waits for an upload after a complete reply: the
	// goroutine that wrote the last byte may only not have run since.
	settle = 5 * time.Millisecond
	// drainLimit is how much of an unread rest is worth reading to keep a
	// connection: no more than one read.
	drainLimit = bufferSize
)

// Response is a reply after its head has come. It serves one goroutine at a time;
// to interrupt a Read from elsewhere, end the call's context.
type Response struct {
	Status int
	// Length is the length of the body, -1 when the backend did not say.
	Length int64
	// Encoding is the field Content-Encoding, which nearly no reply has.
	Encoding string
	// Reused says that the connection had served before.
	Reused bool
	// BeforeWait, if set, is called whenever all bytes that have come are used up and
	// Read turns to the network for more.
	BeforeWait func()
	// resent says that a reused connection did not take the whole request and
	// that this reply is to the second sending.
	resent bool

	// head is the head as it came. The call that uses a freed Response next uses its memory, too.
	head []byte

	ctx      context.Context
	stop     func() bool // takes back the watch on ctx; nil when there is none
	conn     *conn       // nil once closed
	client   *Client
	limits   Timeouts
	deadline time.Time // of reads; zero: limits.Idle

	up       *upload   // nil for bodies written in line
	scratch  *[]byte   // the head that up writes, to be given back after it
	writeErr error     // why the request did not leave whole, in line
	sentAt   time.Time // when writing in line ended; before that, when it began

	body bodyState

	keep  bool          // the connection may serve again after this reply
	lasts time.Duration // for how long the backend keeps it; below zero: it did not say
	err   error         // the answer of Read from now on
}

// attempt sends a request on a connection, beginning now, and reads the head of the
// reply. When it fails the connection is gone and nothing of the request is in use.
func attempt(ctx context.Context, c *conn, out *leaving, limits Timeouts, now time.Time) (*Response, error) {
	c.begin()
	r := c.client.responses.Get().(*Response)
	head := r.head
	*r = Response{} // and then one by one, which takes no room on the stack
	r.head, r.Reused, r.ctx, r.conn, r.client, r.limits, r.sentAt = head, c.reused, ctx, c, c.client, limits, now
	r.stop = watch(ctx, c.abortFn)
	if c.watcher = out.leaves; c.watcher != nil && (out.upload != nil || !c.canTurn()) {
		c.watcher.Leaves()
	}
	if !r.write(out) {
		r.discard()
		return nil, errStale
	}
	if err := r.readHead(out.method); err != nil {
		err = r.explainHead(err)
		r.discard()
		return nil, err
	}
	if r.up != nil {
		r.up.answered.Store(true)
	}
	return r, nil
}

// isIdleTimeout reports whether the reply does not answer the request: some servers say
// 408 before they close a connection that was idle for too long, and the request may
// have been on its way then. Such a server has not taken the request.
func (r *Response) isIdleTimeout() bool {
	return r.Reused && r.Status == http.StatusRequestTimeout && !r.keep
}

// watch calls f when ctx ends, unless stop is called before. It is nil for contexts
// that do not end.
func watch(ctx context.Context, f func()) (stop func() bool) {
	// context.AfterFunc looks for this, too, but with a context of its own in between.
	if own, ok := ctx.(interface{ AfterFunc(f func()) func() bool }); ok {
		return own.AfterFunc(f)
	}
	if ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, f)
}

// errStale means that an idle connection could not be used. Nothing was sent.
var errStale = errors.New("the idle connection is stale")

// write sends a short request, or sets a long one on its way. False means that the
// connection is stale.
func (r *Response) write(out *leaving) bool {
	limit := r.limits.Idle
	if limit <= 0 {
		limit = r.limits.FirstByte
	}
	head, body := out.head, out.body
	if out.upload == nil && r.conn.canTurn() {
		// Mostly the socket takes all of it.
		rest, stale := r.conn.turnTo(r.conn.gather(head, body), after(r.sentAt, r.limits.FirstByte))
		if stale || len(rest) == 0 {
			return !stale
		}
		head, body = rest[0], rest[1:]
	}
	if out.length > inlineLimit || out.upload != nil {
		r.up = startUpload(r.conn, head, body, out.upload, limit)
		return true
	}
	if r.writeErr = r.conn.write(head, body, limit); r.writeErr != nil {
		r.sentAt = time.Now()
		return true
	}
	r.noteSent()
	return true
}

// noteSent notes that the request has left whole.
func (r *Response) noteSent() {
	r.sentAt = time.Now()
	r.conn.sent.Store(true)
}

// Header returns a copy of the first value of a field, or "".
func (r *Response) Header(name string) string {
	_, rest := cutLine(r.head)
	for len(rest) > 0 {
		var line []byte
		if line, rest = cutLine(rest); len(line) > len(name) && line[len(name)] == ':' &&
			wire.IsNamed(line[:len(name)], name) {
			return ownText(wire.TrimBlanks(line[len(name)+1:]))
		}
	}
	return ""
}

// ownText returns a text without memory of the head. The most common ones are not copied.
func ownText(value []byte) string {
	switch string(value) {
	case "application/json":
		return "application/json"
	case "text/event-stream":
		return "text/event-stream"
	case "gzip":
		return "gzip"
	}
	return string(value)
}

// Sent reports whether the request has left whole: its body may change again.
func (r *Response) Sent() bool { return r.up == nil || r.up.finished() }

// SetDeadline replaces the idle limit of the following reads by one deadline for
// all of them, such as the deadline of the first event. The zero time brings the
// idle limit back.
func (r *Response) SetDeadline(t time.Time) { r.deadline = t }

// Read reads the body. It returns the bytes that have come without waiting for
// more, and io.EOF at the body's proper end; a body that was cut short ends in an
// ErrReset that wraps io.ErrUnexpectedEOF.
func (r *Response) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := r.next(p)
	if err == io.EOF {
		r.err = io.EOF
	} else if err != nil {
		r.err = r.explainBody(err)
		r.conn.abort() // the backend should know now, not at Close
	}
	if n > 0 {
		return n, nil // the bytes after these belong to the next call
	}
	return 0, r.err
}

// Close ends the call. The connection is kept for others when the body was read to
// its end, or when its rest is short and has already come; otherwise it is closed,
// and the backend notices. Close never fails; calling it again does nothing.
func (r *Response) Close() error {
	if r.conn != nil {
		r.CloseAt(time.Now())
	}
	return nil
}

// CloseAt is Close for callers that know the time.
func (r *Response) CloseAt(now time.Time) {
	if r.conn == nil {
		return
	}
	if r.keep && r.err == nil && !r.body.done {
		r.drain()
	}
	if !r.reusable() {
		r.discard()
		return
	}
	c := r.release()
	c.client.idle.put(c, r.lasts, now)
}

// Free gives the memory of a closed Response to another call. Nobody may use it any
// more.
func (r *Response) Free() {
	client, head := r.client, r.head[:0]
	if cap(head) > bufferSize {
		head = nil // such heads are rare
	}
	*r = Response{err: net.ErrClosed, head: head}
	client.responses.Put(r)
}

// reusable takes the watch on the context back and reports whether the
// connection is in step: request out, reply in, nothing more.
func (r *Response) reusable() bool {
	if !r.keep || !r.body.done || len(r.conn.buffered()) > 0 {
		return false
	}
	if r.up != nil && !r.up.settled() {
		return false
	}
	// Once the watch has fired the connection is closed or about to be, even
	// if the reply was complete.
	return r.stop == nil || r.stop()
}

// settled waits a moment for an upload and reports whether it went well.
func (u *upload) settled() bool {
	if !u.finished() {
		timer := time.NewTimer(settle)
		defer timer.Stop()
		select {
		case <-u.done:
		case <-timer.C:
			return false
		}
	}
	return u.err == nil
}

// discard closes the connection and waits until nothing uses the request. An upload that panicked
// is raised here, on the goroutine of its call.
func (r *Response) discard() {
	if r.stop != nil {
		r.stop()
	}
	r.conn.abort()
	if r.up != nil {
		<-r.up.done
	}
	r.release()
	if r.up != nil {
		r.up.panicked.Raise()
	}
}

// release takes the connection away, gives back the memory of the call and makes
// further reads fail. Nothing may be under way any more.
func (r *Response) release() *conn {
	c := r.conn
	r.conn = nil
	c.end()
	if r.scratch != nil {
		c.client.putScratch(r.scratch)
		r.scratch = nil
	}
	if r.err == nil {
		r.err = net.ErrClosed
	}
	return c
}

// drain reads a short rest of the body that has already come.
func (r *Response) drain() {
	if r.body.framing == fixed && r.body.left > drainLimit {
		return
	}
	r.body.draining = true
	var sink [512]byte
	for range drainLimit / len(sink) {
		if _, err := r.next(sink[:]); err != nil || r.body.done {
			return
		}
	}
}

// explainHead says why no head came.
func (r *Response) explainHead(err error) error {
	if _, malformed := err.(flaw); malformed {
		return wrapError(r.ctx, "read head", r.conn.to.addr, err, nil)
	}
	if r.up != nil && r.up.finished() && r.up.err != nil {
		err = r.up.err
	} else if r.writeErr != nil {
		err = r.writeErr
	} else {
		return wrapError(r.ctx, "read head", r.conn.to.addr, err, ErrFirstByteTimeout)
	}
	return wrapError(r.ctx, "write", r.conn.to.addr, err, ErrWriteTimeout)
}

func (r *Response) explainBody(err error) error {
	timeout := ErrIdleTimeout
	if !r.deadline.IsZero() {
		timeout = ErrDeadline
	}
	return wrapError(r.ctx, "read body", r.conn.to.addr, err, timeout)
}

// framing is how the end of a body is found.
type framing uint8

const (
	empty framing = iota
	fixed
	chunked
	untilClose
)

// bodyState is how far the reading of a body has come.
type bodyState struct {
	framing  framing
	left     int64       // bytes to come of a fixed body
	chunks   wire.Chunks // of a chunked body
	done     bool        // every byte of the message was consumed
	draining bool        // take only bytes that have already come
}

func (b *bodyState) begin(h head, method string) {
	switch {
	case method == "HEAD", h.status == 204, h.status == 304:
		b.framing = empty
	case h.chunked:
		b.framing, b.chunks.AllowBlanks = chunked, true
	case h.length > 0:
		b.framing, b.left = fixed, h.length
	case h.length == 0:
		b.framing = empty
	default:
		b.framing = untilClose
	}
	b.done = b.framing == empty
}

// length is the length of the body before any of it was read; -1 when unknown.
func (b *bodyState) length() int64 {
	switch b.framing {
	case empty, fixed:
		return b.left
	}
	return -1
}

// next reads a piece of the body; io.EOF is its proper end.
func (r *Response) next(p []byte) (int, error) {
	switch r.body.framing {
	case fixed:
		return r.nextFixed(p)
	case chunked:
		return r.nextChunked(p)
	case untilClose:
		n, err := r.take(p)
		r.body.done = err == io.EOF
		return n, err
	}
	return 0, io.EOF
}

func (r *Response) nextFixed(p []byte) (int, error) {
	if r.body.left == 0 {
		return 0, io.EOF
	}
	n, err := r.take(p[:min(int64(len(p)), r.body.left)])
	r.body.left -= int64(n)
	r.body.done = r.body.left == 0
	return n, unexpectedEOF(err)
}

// take moves bytes of the connection into p, reading once when none are
// buffered. Long reads go around the buffer.
func (r *Response) take(p []byte) (int, error) {
	c := r.conn
	if c.r == c.w {
		if len(p) >= bufferSize && !r.body.draining {
			return c.read(p, r.beforeRead())
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.buf[c.r:c.w])
	c.r += n
	return n, nil
}

// fill reads once into the buffer.
func (r *Response) fill() error {
	if !r.body.draining {
		return r.conn.fill(r.beforeRead())
	}
	if !r.conn.fillNow() {
		return io.ErrNoProgress
	}
	return nil
}

// beforeRead prepares a read of the network and returns its deadline.
func (r *Response) beforeRead() time.Time {
	if r.BeforeWait != nil {
		r.BeforeWait()
	}
	return r.readDue()
}

func (r *Response) readDue() time.Time {
	if !r.deadline.IsZero() {
		return r.deadline
	}
	if r.limits.Idle <= 0 {
		return time.Time{}
	}
	return time.Now().Add(r.limits.Idle)
}

// Await waits until something of the body has come, or until Read returns an error. A
// caller thus needs no memory for reading while there is nothing to read.
func (r *Response) Await() {
	if r.err != nil || r.body.done || r.conn.r < r.conn.w {
		return
	}
	// The next read returns why nothing came.
	r.conn.failed = r.fill()
}

// lentSize is the size of the memory that Lend lends after Await: most events are
// small.
const lentSize = 2 << 10

// Lend lends memory to read into.
func (r *Response) Lend() *[]byte { return r.client.lent.Get().(*[]byte) }

// TakeBack takes back memory that Lend has lent.
func (r *Response) TakeBack(b *[]byte) { r.client.lent.Put(b) }

// nextChunked delivers as many chunks as have come and fit: a burst of events costs
// one call. It waits only when it has nothing to deliver.
func (r *Response) nextChunked(p []byte) (n int, err error) {
	chunks := &r.body.chunks
	for {
		if chunks.Left > 0 {
			if n == len(p) || n > 0 && r.conn.r == r.conn.w {
				return n, nil
			}
			m, err := r.take(p[n:min(int64(len(p)), int64(n)+chunks.Left)])
			if err != nil {
				return n, unexpectedEOF(err)
			}
			n += m
			chunks.Left -= int64(m)
			continue
		}
		moved, err := r.step()
		if err != nil {
			return n, err
		}
		if moved {
			continue
		}
		if n > 0 {
			return n, nil
		}
		if err := r.fill(); err != nil {
			return 0, unexpectedEOF(err)
		}
	}
}

// step consumes the next piece of framing; moved is false when it has not come
// whole. io.EOF is the end of the body.
func (r *Response) step() (moved bool, err error) {
	taken, err := r.body.chunks.Step(r.conn.buffered())
	r.conn.r += taken
	r.body.done = r.body.chunks.Ended()
	if err != nil && !r.body.done {
		err = flaw(err.Error())
	}
	return taken > 0, err
}
