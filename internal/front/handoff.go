package front

import (
	"crypto/tls"
	"net"
	"sync"
	"syscall"
)

// handoff is the listener from which net/http gets its connections.
type handoff struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	close sync.Once
}

func newHandoff() *handoff {
	return &handoff{conns: make(chan net.Conn), done: make(chan struct{})}
}

// give passes a connection on.
func (h *handoff) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		_ = c.Close()
	}
}

// Accept returns the next connection.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close makes Accept fail.
func (h *handoff) Close() error {
	h.close.Do(func() { close(h.done) })
	return nil
}

// Addr returns the address of the listener that accepted the connections.
func (h *handoff) Addr() net.Addr { return h.addr }

// begun is a connection of which something has been read.
type begun struct {
	net.Conn
	came []byte // comes before what the connection has
}

// Read reads what has come before, and then from the connection.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.came) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.came)
	if b.came = b.came[n:]; len(b.came) == 0 {
		b.came = nil
	}
	return n, nil
}

// HasBegun reports whether something was read that Read has not returned.
func (b *begun) HasBegun() bool { return len(b.came) > 0 }

// CloseWrite ends this side of the connection, so that the client can still read.
func (b *begun) CloseWrite() error {
	if socket, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return socket.CloseWrite()
	}
	return b.Conn.Close()
}

// SyscallConn returns the socket of the connection.
func (b *begun) SyscallConn() (syscall.RawConn, error) { return socketOf(b.Conn) }

// NetConn returns the connection itself.
func (b *begun) NetConn() net.Conn { return b.Conn }

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

var _ syscall.Conn = (*begun)(nil)
