package kinds_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
)

func TestUnknownAdapterNamesTheNearest(t *testing.T) {
	for written, want := range map[string]string{
		"olama": `did you mean "ollama"?`, "openia": `did you mean "openai"?`, "Antropic": `did you mean "anthropic"?`, "something": `"something" (known: `,
	} {
		_, err := kinds.Lookup(written)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "known: anthropic, ") {
			t.Errorf("%s: %v, want %s and the list", written, err, want)
		}
	}
}
