//go:build !unix

package waittest

import "testing"

// hold returns an address at which no program listens by chance: port 1 is privileged on
// most systems, and none gives it away.
func hold(testing.TB, string) string { return "127.0.0.1:1" }
