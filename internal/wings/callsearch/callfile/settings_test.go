package callfile

import (
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

func TestSettingsRules(t *testing.T) {
	var paths []string
	collect := func(path string, _ say.Sentence) { paths = append(paths, path) }
	if DefaultSettings().Check(collect); paths != nil {
		t.Errorf("the defaults break rules of %v", paths)
	}
	if (Settings{}).Check(collect); !slices.Equal(paths, []string{"days", "maxBytes"}) {
		t.Errorf("broken rules of %v", paths)
	}
}
