package transport

import (
	"golang.org/x/sys/unix"
)

// writeNow writes as much of a request as the socket takes without waiting, and
// returns the rest. Errors come again when the rest is written.
func (c *conn) writeNow(pieces [][]byte) (rest [][]byte) {
	if c.probe == nil || !c.vector {
		return pieces
	}
	var written int
	err := c.probe.raw.Control(func(fd uintptr) {
		for {
			n, err := unix.Writev(int(fd), pieces)
			if err == unix.EINTR {
				continue
			}
			written = max(n, 0)
			return
		}
	})
	if err != nil {
		return pieces
	}
	for len(pieces) > 0 && written >= len(pieces[0]) {
		written -= len(pieces[0])
		pieces = pieces[1:]
	}
	if written > 0 {
		pieces[0] = pieces[0][written:]
	}
	return pieces
}
