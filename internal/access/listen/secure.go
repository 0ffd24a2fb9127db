package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// handshakeTime bounds the time for the handshake of a client.
const handshakeTime = 10 * time.Second

// Secure is a listener of encrypted connections. Its Accept returns connections after their
// handshake: a client with a slow handshake keeps nobody waiting. The listener that HTTP2 returns
// accepts the connections with HTTP/2 instead.
type Secure struct {
	net.Listener
	config  *tls.Config
	options SecureOptions

	begin      sync.Once
	accepted   queue // connections with HTTP/1.1
	multi      queue // connections with HTTP/2
	handshakes sync.WaitGroup
	ctx        context.Context // of the handshakes
	cancel     context.CancelFunc
}

// SecureOptions are the settings of a Secure listener.
type SecureOptions struct {
	Certificates *Certificates
	// NoTLS is the reply to a client that speaks HTTP without TLS.
	NoTLS []byte
	Log   *slog.Logger
}

// NewSecure returns a listener of the encrypted connections of another listener.
func NewSecure(inner net.Listener, options SecureOptions) *Secure {
	ctx, cancel := context.WithCancel(context.Background())
	return &Secure{
		Listener: inner, config: options.Certificates.config(), options: options,
		accepted: newQueue(inner.Addr()), multi: newQueue(inner.Addr()), ctx: ctx, cancel: cancel,
	}
}

// HTTP2 returns the listener of the connections of clients that asked for HTTP/2. They
// are of type *tls.Conn.
func (s *Secure) HTTP2() net.Listener { return s.multi }

// Accept waits for the next connection that has completed its handshake. It is of type *tls.Conn.
func (s *Secure) Accept() (net.Conn, error) {
	s.begin.Do(func() { s.handshakes.Go(s.acceptAll) })
	return s.accepted.Accept()
}

// Close ends the handshakes that are going on and waits for their end. Connections
// that were accepted stay.
func (s *Secure) Close() error {
	err := s.Listener.Close()
	s.cancel()
	s.begin.Do(func() {}) // nobody accepts any more
	s.accepted.fail(net.ErrClosed)
	s.multi.fail(net.ErrClosed)
	s.handshakes.Wait()
	return err
}

// acceptAll accepts connections until that fails.
func (s *Secure) acceptAll() {
	for {
		conn, err := s.Listener.Accept()
		if err == nil {
			s.handshakes.Go(func() {
				if !logs.Contain(s.options.Log, "a TLS handshake", func() { s.shake(conn) }) {
					_ = conn.Close()
				}
			})
			continue
		}
		if temporary, ok := err.(interface{ Temporary() bool }); ok && temporary.Temporary() && s.ctx.Err() == nil {
			if !s.accepted.report(err) {
				return
			}
			continue
		}
		s.accepted.fail(err)
		s.multi.fail(err)
		return
	}
}

// shake does the handshake of a connection and passes it on.
func (s *Secure) shake(conn net.Conn) {
	ctx, cancel := context.WithTimeout(s.ctx, handshakeTime)
	defer cancel()
	secured := tls.Server(conn, s.config)
	if err := secured.HandshakeContext(ctx); err != nil {
		s.refuse(conn, err)
		return
	}
	to := s.accepted
	if secured.ConnectionState().NegotiatedProtocol == http2 {
		to = s.multi
	}
	if !to.pass(secured) {
		_ = conn.Close()
	}
}

// refuse ends a connection with a failed handshake.
func (s *Secure) refuse(conn net.Conn, err error) {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil && isHTTP(record.RecordHeader) {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(s.options.NoTLS)
	}
	_ = conn.Close()
	if s.ctx.Err() == nil {
		s.options.Log.Debug("a TLS handshake failed", "remote", conn.RemoteAddr().String(), "error", err)
	}
}

// isHTTP reports whether a connection begins with the bytes of a request.
func isHTTP(begin [5]byte) bool {
	switch string(begin[:]) {
	case "GET /", "POST ", "HEAD ", "PUT /", "OPTIO", "DELET", "PATCH", "PRI *":
		return true
	}
	return false
}

// queue is a listener of connections that others have accepted.
type queue struct {
	addr  net.Addr
	conns chan accepted
	*ending
}

// accepted is a result of Accept.
type accepted struct {
	conn net.Conn
	err  error
}

// ending is the end of a queue and the reason for it.
type ending struct {
	once   sync.Once
	done   chan struct{}
	reason error
}

func newQueue(addr net.Addr) queue {
	return queue{addr: addr, conns: make(chan accepted), ending: &ending{done: make(chan struct{})}}
}

// pass waits until Accept takes the connection. False means that nobody will call it.
func (q queue) pass(conn net.Conn) bool { return q.send(accepted{conn: conn}) }

// report lets Accept return an error once. False means that nobody will call it.
func (q queue) report(err error) bool { return q.send(accepted{err: err}) }

func (q queue) send(a accepted) bool {
	select {
	case q.conns <- a:
		return true
	case <-q.done:
		return false
	}
}

// fail lets every Accept return the error.
func (q queue) fail(err error) {
	q.once.Do(func() {
		q.reason = err
		close(q.done)
	})
}

// Accept waits for the next connection.
func (q queue) Accept() (net.Conn, error) {
	select {
	case a := <-q.conns:
		return a.conn, a.err
	case <-q.done:
		return nil, q.reason
	}
}

// Close makes Accept fail.
func (q queue) Close() error {
	q.fail(net.ErrClosed)
	return nil
}

// Addr returns the address of the listener that accepted the connections.
func (q queue) Addr() net.Addr { return q.addr }
