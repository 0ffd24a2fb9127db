package gatewaytest

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"
)

// Timeout is how long anything may take that is expected to happen: far longer
// than it does, so that only a defect reaches it, also on a busy machine.
const Timeout = 2 * time.Minute

// Never is a delay of a backend that no test waits for: a request that ends
// before the test's deadline was ended by something else.
const Never = 10 * Timeout

// Eventually waits until a condition holds. It is for state that tells nobody
// when it changes.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(Timeout)
	defer deadline.Stop()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-deadline.C:
			t.Fatalf("still waiting: %s", what)
		}
	}
}

// Deadline returns a context that ends when nothing can be expected any more.
func Deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	t.Cleanup(cancel)
	return ctx
}

// WriteFile writes a file or ends the test.
func WriteFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ReadFile reads a file or ends the test.
func ReadFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(content)
}
