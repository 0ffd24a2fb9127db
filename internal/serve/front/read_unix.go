//go:build unix

package front

import (
	"io"
	"syscall"
)

// canTryRead says that a socket can return the bytes that have come without waiting.
const canTryRead = true

// tryRead reads without waiting into a buffer that it gives back if nothing has
// come. False means that it is to be called again when something has.
func (c *conn) tryRead(fd uintptr) bool {
	c.borrow()
	for {
		n, err := syscall.Read(int(fd), c.buf[c.w:])
		switch {
		case n > 0:
			c.w += n
			return true
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			c.giveBackIfEmpty()
			return false
		case err == nil:
			err = io.EOF
		}
		c.waitErr = err
		return true
	}
}

// hasUnread reports whether bytes have come that nobody has read yet, as on a busy machine.
func (c *conn) hasUnread() bool {
	if c.raw == nil {
		return false
	}
	n := 0
	err := c.raw.Control(func(fd uintptr) {
		var first [1]byte
		n, _, _ = syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && n > 0
}
