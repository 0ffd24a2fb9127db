package gateway_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A gateway whose own files cannot be read or written does not start, and says which.
func TestFilesThatCannotBeUsedEndTheStart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gateway-id", "keys.json", "versions"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			inTheWay := filepath.Join(dir, name)
			if name == "versions" {
				gatewaytest.WriteFile(t, inTheWay, "no directory")
			} else if err := os.Mkdir(inTheWay, 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := gateway.New(gatewaytest.LoadDocument(t, "", dir), slog.New(slog.DiscardHandler), gateway.Options{})
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v", err)
			}
		})
	}
}
