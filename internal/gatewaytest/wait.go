package gatewaytest

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"
)

// Timeout is how long tests wait for anything that must happen. It is far longer than
// needed, so that only a defect reaches it, even on a busy machine.
const Timeout = 2 * time.Minute

// Never is a delay of a backend that is longer than any test: a request that ends
// before the test's deadline was ended by something else.
const Never = 10 * Timeout

// Eventually waits until a condition holds, by polling. It is for state whose changes
// cannot be waited for.
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

// Deadline returns a context that ends after Timeout.
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
