// Package waittest is for tests that wait: how long they wait for what must happen, and
// where nobody answers.
package waittest

import (
	"context"
	"testing"
	"time"
)

// Limit is how long tests wait for anything that must happen. It is far longer than
// needed, so that only a defect reaches it, even on a busy machine.
const Limit = 2 * time.Minute

// Never is longer than any test waits: what ends within Limit was ended by something
// else.
const Never = 10 * Limit

// look is the time between two looks at a condition.
const look = 2 * time.Millisecond

// Eventually waits until a condition holds, by polling. It is for state whose changes
// cannot be waited for, and that lasts.
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

// Nobody returns an address at which nobody listens until the test ends.
func Nobody(t testing.TB) string {
	t.Helper()
	return hold(t, "127.0.0.1:0")
}

// Vacate keeps the address of a listener that was closed from those who ask for any port,
// so that connections are refused until the test ends. A listener that asks for this very
// address gets it.
func Vacate(t testing.TB, address string) {
	t.Helper()
	hold(t, address)
}
