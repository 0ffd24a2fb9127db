//go:build unix

package web

import (
	"io"
	"net"
	"syscall"
)

// awaitReset waits until a client that has closed its sending side resets the
// connection, and returns io.EOF then, or the error of the read deadline.
func awaitReset(c net.Conn) error {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return io.EOF
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return io.EOF
	}
	// The socket is always readable, because it is at its end. Returning false waits
	// for the next event of the poller.
	err = raw.Read(func(fd uintptr) bool {
		code, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		return err != nil || code != 0
	})
	if err != nil {
		return err
	}
	return io.EOF
}
