//go:build !unix

package front

// canTryRead says that a socket can return the bytes that have come without waiting.
const canTryRead = false

func (*conn) tryRead(uintptr) bool { return true }

func (*conn) hasUnread() bool { return false }
