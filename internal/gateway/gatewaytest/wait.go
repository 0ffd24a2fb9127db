package gatewaytest

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// Timeout is how long tests wait for anything that must happen.
const Timeout = waittest.Limit

// Never is a delay of a backend that is longer than any test: a request that ends
// before the test's deadline was ended by something else.
const Never = waittest.Never

// Eventually waits until a condition holds, by polling.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	waittest.Eventually(t, what, holds)
}

// Deadline returns a context that ends after Timeout.
func Deadline(t *testing.T) context.Context {
	t.Helper()
	return waittest.Context(t)
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
