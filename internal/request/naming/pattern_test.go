package naming_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/naming"
)

func TestPatternsMatchWholeNames(t *testing.T) {
	for _, row := range []struct {
		pattern, name string
		want          bool
	}{
		{"qwen*", "qwen2.5:7b", true}, {"qwen*", "qwen", true}, {"qwen*", "my-qwen", false},
		{"*", "anything/at:all", true}, {"*", "", true}, {"*:7b", "qwen2.5:7b", true}, {"*:7b", "7b", false},
		{"a*b*c", "a-b-c", true}, {"a*b*c", "abc", true}, {"a*b*c", "acb", false}, {"a*a", "a", false}, {"a*a", "aa", true},
		{"llama3", "llama3", true}, {"llama3", "llama3.2", false}, {"[ab]", "a", false}, {"[ab]", "[ab]", true},
	} {
		if got := naming.NewPattern(row.pattern).Matches(row.name); got != row.want {
			t.Errorf("%s matches %s: %v", row.pattern, row.name, got)
		}
	}
}
