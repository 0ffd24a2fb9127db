//go:build unix

package transport

import (
	"io"
	"net"
	"os"
	"syscall"
)

// probe reads from a socket without waiting, past the deadlines of net.Conn.
// It serves one goroutine at a time.
type probe struct {
	raw syscall.RawConn
	// try is the method value of attempt, made once because probing must not allocate;
	// into, n and err are its arguments and results.
	try  func(fd uintptr)
	into []byte
	n    int
	err  error
	// await is the method value of readOrWait; lend and idle are its arguments.
	await func(fd uintptr) bool
	lend  func() []byte
	idle  func()
}

// newProbe returns nil for connections that are not TCP sockets.
func newProbe(nc net.Conn) *probe {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	p := &probe{raw: raw}
	p.try, p.await = p.attempt, p.readOrWait
	return p
}

// read is one non-blocking read; waiting is true when nothing has come and the
// peer has not closed.
func (p *probe) read(b []byte) (n int, waiting bool) {
	p.into = b
	// Control, unlike Read, does not look at deadlines: the deadline of the last call
	// may have passed while the connection was idle.
	err := p.raw.Control(p.try)
	p.into = nil
	if err != nil {
		return 0, false
	}
	return p.n, p.err == syscall.EAGAIN || p.err == syscall.EWOULDBLOCK
}

// wait reads once, and waits until something has come. The memory is asked for when
// it is needed: lend returns it, and idle is called before each wait.
func (p *probe) wait(lend func() []byte, idle func()) (int, error) {
	p.lend, p.idle = lend, idle
	err := p.raw.Read(p.await)
	p.lend, p.idle, p.into = nil, nil, nil
	switch {
	case err != nil:
		return 0, err
	case p.err != nil:
		return 0, os.NewSyscallError("read", p.err)
	case p.n == 0:
		return 0, io.EOF
	}
	return p.n, nil
}

func (p *probe) readOrWait(fd uintptr) bool {
	p.into = p.lend()
	p.attempt(fd)
	if p.err != syscall.EAGAIN {
		return true
	}
	p.idle()
	return false
}

func (p *probe) attempt(fd uintptr) {
	for {
		p.n, p.err = syscall.Read(int(fd), p.into)
		if p.err != syscall.EINTR {
			break
		}
	}
	p.n = max(p.n, 0)
}
