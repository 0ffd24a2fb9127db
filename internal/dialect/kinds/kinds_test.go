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

// A benchmark asks a backend of such a kind directly, without translation.
func TestKindsThatServeOpenAIsChatAPI(t *testing.T) {
	for name, want := range map[string]bool{
		"openai": true, "vllm": true, "llamacpp": true, "ollama": true,
		"azure": false, "anthropic": false, "claude": false, "gemini": false, "tei": false,
	} {
		kind, err := kinds.Lookup(name)
		if err != nil || kind.ServesOpenAIChat() != want {
			t.Errorf("%s serves it: %t, want %t (%v)", name, kind.ServesOpenAIChat(), want, err)
		}
	}
}
