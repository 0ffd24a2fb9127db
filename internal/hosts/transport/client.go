// Package transport carries calls to backends: a lean HTTP/1.1 client that
// writes a request and reads its reply on the caller's goroutine.
//
// It has the features that a gateway needs and nothing else: no redirects, no compression, no
// cookies, no HTTP/2. Proxies and TLS settings are part of where a call goes; see
// Route.
package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
	"unique"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// Options are the settings of a Client. The zero value is ready for use.
type Options struct {
	// MaxIdlePerHost is how many idle connections are kept per backend; default 1024,
	// which spares a burst from connecting again.
	MaxIdlePerHost int
	// IdleTimeout is how long a connection may idle where the backend does not
	// say (Keep-Alive: timeout=); default 4 s. Common servers close after 5 s,
	// and a call that is on its way at that moment is lost.
	IdleTimeout time.Duration
	// TLS is the base of the TLS settings: roots, client certificates. The
	// protocol (http/1.1), the least version (1.2) and, if empty, the server
	// name are set by the Client.
	TLS *tls.Config
	// Dial replaces the dialer of the network, which refuses the addresses that package outgoing
	// forbids.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Timeouts are the limits of one call; zero means none.
type Timeouts struct {
	// Connect bounds name resolution, connecting and TLS together.
	Connect time.Duration
	// FirstByte bounds the time from the end of writing to the end of the
	// reply's head.
	FirstByte time.Duration
	// Idle bounds the wait of each read of the body, and how long a request
	// may make no progress in leaving (FirstByte does when Idle is zero).
	Idle time.Duration
}

// Client sends calls and owns the idle connections. It is safe for concurrent
// use. Close it to stop its goroutine.
type Client struct {
	dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	tls    *tls.Config
	idle   pool

	routesMu sync.Mutex
	routes   map[unique.Handle[Route]]*tls.Config // of routes with TLS settings of their own

	buffers       sync.Pool // *[]byte: read buffers, lent for a call
	socketBuffers sync.Pool // *[]byte: read buffers, lent while something has come
	scratch       sync.Pool // *[]byte: heads of requests, lent while writing
	lent          sync.Pool // *[]byte: see Response.Lend
	responses     sync.Pool // *Response: see Response.Free
}

// New returns a Client.
func New(o Options) *Client {
	c := &Client{dialer: o.Dial, tls: secureConfig(o.TLS), routes: make(map[unique.Handle[Route]]*tls.Config)}
	if c.dialer == nil {
		c.dialer = (&net.Dialer{Control: outgoing.RefuseMetadata}).DialContext
	}
	c.idle.max = cmp.Or(max(o.MaxIdlePerHost, 0), 1024)
	c.idle.ttl = cmp.Or(max(o.IdleTimeout, 0), 4*time.Second)
	c.idle.stacks = make(map[target]*stack)
	c.buffers.New = func() any { b := make([]byte, bufferSize); return &b }
	c.socketBuffers.New = func() any { b := make([]byte, socketBuffer); return &b }
	c.responses.New = func() any { return new(Response) }
	c.lent.New = func() any { b := make([]byte, lentSize); return &b }
	c.scratch.New = func() any { b := make([]byte, 0, 512); return &b } // most heads are shorter
	return c
}

// Close closes the idle connections and stops the reaper. Calls under way are
// not touched; their connections close when they end. Later calls fail.
func (c *Client) Close() { c.idle.close() }

// Send sends a call and returns when the head of the reply has come. The Response
// must be closed. The segments of the call's body must not change until then, or
// until Send returned an error; the same holds for an upload. Its reader must not
// block, because ending a call waits for it.
//
// When ctx ends, the call ends at once, whatever it is doing, the reading of the
// body included, and the backend sees its connection closed.
//
// A call that could not be written whole to a reused connection is sent again,
// once, on a fresh one: backends close idle connections whenever they like. A call
// that has left whole is never sent again: the backend may have worked on it.
func (c *Client) Send(ctx context.Context, to *Origin, call *wire.Call, limits Timeouts) (*Response, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx, stepConnect, to.addr)
	}
	scratch := c.scratch.Get().(*[]byte)
	head, length, err := appendHead((*scratch)[:0], to, call)
	*scratch = head
	if err != nil {
		c.putScratch(scratch)
		return nil, err
	}
	r, err := c.send(ctx, to, &leaving{call.Method, head, call.Body, call.Upload, length, call.Watcher}, limits)
	if err == nil && r.Status == http.StatusProxyAuthRequired && to.prefix != "" {
		_ = r.Close()
		c.putScratch(scratch)
		return nil, proxyRefuses(to.addr)
	}
	if err == nil && r.up != nil {
		r.scratch = scratch // the upload may still be writing it
		return r, nil
	}
	c.putScratch(scratch)
	return r, err
}

// proxyRefuses returns the error for a proxy that wants other credentials.
func proxyRefuses(addr string) error {
	return &Error{Step: stepConnect, Addr: addr, class: ErrConnect,
		cause: &proxyError{CauseProxyAuthentication, errors.New("status 407")}}
}

// leaving is a request ready to be written.
type leaving struct {
	method string
	head   []byte
	body   [][]byte
	upload *wire.Upload // instead of body, if not nil
	length int
	leaves wire.Watcher // nil for none
}

func (c *Client) send(ctx context.Context, to *Origin, out *leaving, limits Timeouts) (*Response, error) {
	now := time.Now()
	for {
		cn := c.idle.take(to.target, now)
		if cn == nil {
			break
		}
		r, err := attempt(ctx, cn, out, limits, now)
		if err == errStale {
			continue
		}
		if err == nil && r.isIdleTimeout() {
			r.discard()
			return c.sendAgain(ctx, to, out, limits)
		}
		if err == nil || cn.replyBegun || cn.sent.Load() || !errors.Is(err, ErrReset) {
			return r, err
		}
		return c.sendAgain(ctx, to, out, limits)
	}
	if c.idle.isClosed() {
		return nil, &Error{Step: stepConnect, Addr: to.addr, class: ErrConnect, cause: net.ErrClosed}
	}
	cn, err := c.dial(ctx, *to, limits.Connect)
	if err != nil {
		return nil, err
	}
	return attempt(ctx, cn, out, limits, time.Now())
}

// sendAgain sends a request that an idle connection did not take on a fresh one.
func (c *Client) sendAgain(ctx context.Context, to *Origin, out *leaving, limits Timeouts) (*Response, error) {
	fresh, err := c.dial(ctx, *to, limits.Connect)
	if err != nil {
		return nil, err
	}
	r, err := attempt(ctx, fresh, out, limits, time.Now())
	if err != nil {
		return nil, err
	}
	r.resent = true
	return r, nil
}

func (c *Client) putScratch(b *[]byte) {
	// Twice a record is the size to which gathering may grow it. Longer heads are rare.
	if cap(*b) <= 2*recordSize {
		c.scratch.Put(b)
	}
}

// pool keeps idle connections, the most recently used on top: it is the least
// likely to have been closed by the backend, and the others can age and go.
type pool struct {
	max int           // per target
	ttl time.Duration // how long a connection may idle where the backend does not say

	mu     sync.Mutex
	stacks map[target]*stack
	closed bool
	// The reaper runs from the first connection kept until close. quit ends it, and
	// gone is closed when it has ended; both are nil before it runs.
	quit, gone chan struct{}
}

type stack struct{ conns []*conn }

// take returns an idle connection that is still usable, or nil. A connection that
// turnTo looks at while it writes a request is not looked at before.
func (p *pool) take(to target, now time.Time) *conn {
	for {
		c := p.pop(to)
		if c == nil {
			return nil
		}
		if now.Before(c.idleUntil) && (c.canTurn() || c.isReusable()) {
			c.reused = true
			return c
		}
		c.abort()
	}
}

func (p *pool) pop(to target) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stacks[to]
	if s == nil || len(s.conns) == 0 {
		return nil
	}
	last := len(s.conns) - 1
	c := s.conns[last]
	s.conns[last] = nil
	s.conns = s.conns[:last]
	return c
}

// put keeps a connection that awaits nothing from now on, or closes it when there are
// enough. The stay is how long the backend said that it leaves the connection
// open, below zero where it said nothing.
func (p *pool) put(c *conn, stay time.Duration, now time.Time) {
	if stay < 0 {
		stay = p.ttl
	}
	c.idleUntil = now.Add(stay)
	if stay == 0 || !p.push(c) {
		c.abort()
	}
}

func (p *pool) push(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	s := p.stacks[c.to]
	if s == nil {
		s = &stack{}
		p.stacks[c.to] = s
	}
	if len(s.conns) >= p.bound(c.to) {
		return false
	}
	s.conns = append(s.conns, c)
	if p.quit == nil {
		p.quit, p.gone = make(chan struct{}), make(chan struct{})
		go p.reap()
	}
	return true
}

// bound is how many idle connections are kept for a target.
func (p *pool) bound(to target) int {
	if own := to.via().MaxIdle; own != 0 {
		return min(p.max, max(own, 0))
	}
	return p.max
}

func (p *pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// close closes every idle connection and waits for the reaper.
func (p *pool) close() {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	stacks, quit, gone := p.stacks, p.quit, p.gone
	p.stacks = nil
	if first && quit != nil {
		close(quit)
	}
	p.mu.Unlock()
	for _, s := range stacks {
		for _, c := range s.conns {
			c.abort()
		}
	}
	if gone != nil {
		<-gone
	}
}

// reap closes connections that idled for too long. A quarter of the time
// between looks keeps the overstay small; take checks the age anyway.
func (p *pool) reap() {
	defer close(p.gone)
	tick := time.NewTicker(max(p.ttl/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case now := <-tick.C:
			for _, c := range p.expired(now) {
				c.abort()
			}
		}
	}
}

// expired removes the connections that expired before now. Backends may announce
// another time with each reply, so all connections are looked at.
func (p *pool) expired(now time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*conn
	for to, s := range p.stacks {
		kept := s.conns[:0]
		for _, c := range s.conns {
			if c.idleUntil.Before(now) {
				out = append(out, c)
			} else {
				kept = append(kept, c)
			}
		}
		clear(s.conns[len(kept):])
		s.conns = kept
		if len(kept) == 0 {
			delete(p.stacks, to)
		}
	}
	return out
}
