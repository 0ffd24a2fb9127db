// Package waittest is for tests that wait: it has their time limit, and addresses without
// a listener.
package waittest

import (
	"context"
	"testing"
	"time"
)

// Limit is how long tests wait for anything that must happen. It is far longer than
// needed: only a defect reaches it, even on a busy machine.
const Limit = 2 * time.Minute

// Never is longer than any test waits: a wait that ends within Limit was ended by
// something else.
const Never = 10 * Limit

// look is the time between two looks at a condition.
const look = 2 * time.Millisecond

// Eventually waits until a condition holds, by polling. It is for lasting state without a
// signal of its changes.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	late := time.NewTimer(Limit)
	defer late.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("still waiting after %v: %s", Limit, what)
		}
	}
}

// Receive returns the next value of a channel, or the zero value of one that is closed.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	late := time.NewTimer(Limit)
	defer late.Stop()
	select {
	case value := <-from:
		return value
	case <-late.C:
		t.Fatalf("%s: nothing happened within %v", what, Limit)
		panic("unreachable")
	}
}

// Context returns a context that ends after Limit, or with the test.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	t.Cleanup(cancel)
	return ctx
}

// Nobody returns an address without a listener until the test ends.
func Nobody(t testing.TB) string {
	t.Helper()
	return hold(t, "127.0.0.1:0")
}

// Vacate keeps the address of a closed listener from programs that ask for any port:
// connections are refused until the test ends. A listener that asks for this very address
// gets it.
func Vacate(t testing.TB, address string) {
	t.Helper()
	hold(t, address)
}
