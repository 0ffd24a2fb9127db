//go:build !unix

package transport

import (
	"net"
	"time"
)

// probe looks at a socket by a read that hardly waits: there is no way here to read
// without waiting at all. It leaves a passed deadline behind; the next read notices
// and replaces it.
type probe struct{ socket *net.TCPConn }

// newProbe returns nil for connections that are not TCP sockets.
func newProbe(nc net.Conn) *probe {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	return &probe{tcp}
}

// wait reads once, and waits until something has come.
func (p *probe) wait(lend func() []byte, idle func()) (int, error) {
	idle()
	return p.socket.Read(lend())
}

// read is one short read; waiting is true when nothing has come and the peer
// has not closed.
func (p *probe) read(b []byte) (n int, waiting bool) {
	_ = p.socket.SetReadDeadline(time.Now().Add(time.Millisecond))
	n, err := p.socket.Read(b)
	return n, n == 0 && expired(err)
}
