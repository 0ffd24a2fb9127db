package config_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// Slots that are learned need a queue, and answers that consist of tokens.
func TestAutoConcurrencyNeedsAQueueAndTokens(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"services: {chat: {queue: {size: 9}, instances: [{name: m, base-url: \"http://a\", max-concurrency: auto}]}}":      "",
		"services: {embedding: {queue: {size: 9}, instances: [{name: m, base-url: \"http://a\", max-concurrency: auto}]}}": "",
		"services: {chat: {instances: [{name: m, base-url: \"http://a\", max-concurrency: auto}]}}":                        "auto needs a queue",
		"services: {tts: {queue: {size: 9}, instances: [{name: m, base-url: \"http://a\", max-concurrency: auto}]}}":       "answers of tts do not have",
		"services: {chat: {queue: {size: 9}, instances: [{name: m, base-url: \"http://a\", max-concurrency: -2}]}}":        "must not be negative",
		"services: {chat: {queue: {size: 9}, instances: [{name: m, base-url: \"http://a\", max-concurrency: many}]}}":      "want a whole number, or auto",
	} {
		_, err := config.Load(config.Source{File: "test.yaml", Content: []byte(yaml)})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", yaml, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}
