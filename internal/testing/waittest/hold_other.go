//go:build !unix

package waittest

import "testing"

// hold returns an address that no program listens on by chance: port 1 is privileged on
// most systems, and none gives it away.
func hold(testing.TB, string) string { return "127.0.0.1:1" }
