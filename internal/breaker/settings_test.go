package breaker_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/breaker"
)

func TestSettingsRules(t *testing.T) {
	var paths []string
	collect := func(path, _ string) { paths = append(paths, path) }
	if breaker.DefaultSettings().Check(collect); paths != nil {
		t.Errorf("the defaults break rules of %v", paths)
	}
	breaker.Settings{}.Check(collect)
	if len(paths) != 3 {
		t.Errorf("broken rules of %v", paths)
	}
}
