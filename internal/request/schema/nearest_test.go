package schema_test

import (
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestShortNamesAreNotNearEverything(t *testing.T) {
	known := []string{"log", "chat", "tts", "redis", "security"}
	for written, want := range map[string][]string{
		"foo": {}, "lag": {"log"}, "lgo": {"log"}, "logs": {"log"}, "stt": {}, "cat": {"chat"}, "cart": {}, "rdsi": {"redis"}, "secrity": {"security"},
	} {
		if got := schema.Nearest(written, known, 1); !slices.Equal(got, want) {
			t.Errorf("near %s: %v, want %v", written, got, want)
		}
	}
}
