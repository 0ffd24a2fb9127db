//go:build !linux

package transport

import "time"

type turn struct{}

// canTurn reports whether turnTo works for the connection: there is no way here to
// write without waiting.
func (c *conn) canTurn() bool { return false }

func (c *conn) turnTo(pieces [][]byte, _ time.Time) (rest [][]byte, stale bool) { return pieces, false }

func (c *conn) visitSocket(uintptr) bool { return true }
