package kinds

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// A transcript that expects a refusal and nothing else must get one.
func TestAnthropicTranscriptsThatExpectARefusal(t *testing.T) {
	paths, err := filepath.Glob("testdata/golden/anthropic/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal(len(paths), err)
	}
	for _, path := range paths {
		g := readGolden(t, path)
		if g.has("answer") || !g.has("error") {
			continue
		}
		target := g.target(t, schema.Chat)
		if err := target.Adapter.Call(g.request(t, schema.Chat), target, new(wire.Call)); err == nil {
			t.Errorf("%s: not refused", path)
		}
	}
}

// A transcript that expects an error of the request itself must get one: the
// golden test looks at the error only when there is one.
func TestGeminiRefusesWhatItCannotSay(t *testing.T) {
	paths, err := filepath.Glob("testdata/golden/gemini/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		g := readGolden(t, path)
		if !g.has("error") || g.has("answer") || g.settings["door"] != "" {
			continue
		}
		var service schema.ServiceType
		if err := service.UnmarshalText([]byte(g.settings["service"])); err != nil {
			t.Fatal(err)
		}
		target := g.target(t, service)
		var call wire.Call
		err := target.Adapter.Call(g.request(t, service), target, &call)
		var mistake *schema.Error
		if !errors.As(err, &mistake) || mistake.Param == nil || mistake.Type != schema.TypeInvalidRequest {
			t.Errorf("%s: %v, want a mistake of the request with its place", path, err)
		}
	}
}
