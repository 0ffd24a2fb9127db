//go:build unix

package transport

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// awaitBytes waits until something has come on the only idle connection,
// without consuming it.
func awaitBytes(t *testing.T, c *Client) {
	t.Helper()
	c.idle.mu.Lock()
	defer c.idle.mu.Unlock()
	for _, s := range c.idle.stacks {
		raw, err := s.conns[0].socket.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		s.conns[0].socket.SetReadDeadline(time.Now().Add(waittest.Limit))
		// Asked every time: the bytes may have come before anybody waited.
		err = raw.Read(func(fd uintptr) bool {
			var first [1]byte
			_, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			return !errors.Is(err, syscall.EAGAIN)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
