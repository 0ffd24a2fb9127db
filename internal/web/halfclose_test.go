package web

import (
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
)

// resetSocket is the connection of a client that has left. Its reset arrives after the
// first write. The second one takes the error from the socket, so that whoever looks at
// the socket later finds none.
type resetSocket struct {
	net.Conn
	writes atomic.Int32
	closed chan struct{}
}

func (s *resetSocket) Write(p []byte) (int, error) {
	if s.writes.Add(1) == 1 {
		return len(p), nil
	}
	return 0, syscall.EPIPE
}

func (s *resetSocket) Close() error {
	close(s.closed)
	return s.Conn.Close()
}

func (s *resetSocket) SyscallConn() (syscall.RawConn, error) { return rawSocket{s}, nil }

// rawSocket is a socket on which nothing happens until it is closed.
type rawSocket struct{ *resetSocket }

func (rawSocket) Control(func(fd uintptr)) error    { return nil }
func (rawSocket) Write(func(fd uintptr) bool) error { return nil }

func (s rawSocket) Read(func(fd uintptr) bool) error {
	<-s.closed
	return net.ErrClosed
}

// A client that has left is noticed by the probe as well, which may meet the error of its
// socket before anybody else on a busy machine.
func TestProbesNoticeAClientThatHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, served := net.Pipe()
		defer client.Close()
		c := &Conn{Conn: &resetSocket{Conn: served, closed: make(chan struct{})}}
		if c.halfClosed() == nil {
			t.Error("the client is still there")
		}
	})
}
