package spring_test

import (
	"fmt"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/wings/importer/spring"
)

func TestPlaceholders(t *testing.T) {
	for text, want := range map[string]string{
		"plain":             "[]",
		"${A}":              "[{0 4 A  false}]",
		"a${A:b:c}d":        "[{1 9 A b:c true}]",
		"${A:${B:x}}${C}":   "[{0 11 A ${B:x} true} {11 15 C  false}]",
		"${open":            "[]",
		"{noop}${A:}":       "[{6 11 A  true}]",
		"${a.b-c} ${a.b-c}": "[{0 8 a.b-c  false} {9 17 a.b-c  false}]",
	} {
		if got := fmt.Sprint(spring.Placeholders(text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for name, want := range map[string]string{"TOKEN": "TOKEN", "jairouter.api-token": "JAIROUTER_APITOKEN", "file": "FILE", "sha256": "SHA256", "lower": "lower"} {
		if got := spring.EnvironmentName(name); got != want {
			t.Errorf("%s is looked for as %s, want %s", name, got, want)
		}
	}
}
