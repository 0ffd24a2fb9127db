package naming_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
)

// models are the names of models that have instances.
type models []string

func (m models) Has(name string) bool { return slices.Contains(m, name) }
func (m models) Names() []string      { return m }

// problems collects what is reported.
type problems []string

func (p *problems) report(path string, fault say.Sentence) { *p = append(*p, path+" "+fault.String()) }

func TestAliasesThatCannotWorkAreRefused(t *testing.T) {
	for _, row := range []struct {
		aliases naming.Aliases
		want    string // empty: nothing is wrong
	}{
		{naming.Aliases{"fast": "small", "default": "fast", "gpt-4o": "default"}, ""},
		{naming.Aliases{"a": "a"}, `["a"] leads back to itself`},
		{naming.Aliases{"a": "b", "b": "c", "c": "a"}, `["b"] leads back to itself`},
		{naming.Aliases{"a": "b", "b": "b"}, `["a"] leads back to itself`},
		{naming.Aliases{"big": "small"}, `["big"] is the name of a model that has instances`},
		{naming.Aliases{"a": "smal"}, `["a"] no instance has the name "smal" (did you mean "small"?)`},
		{naming.Aliases{"a": "b", "b": "none"}, `["a"] no instance has the name "none"`},
		{naming.Aliases{"": "big"}, `the alias must not be empty`},
		{naming.Aliases{"a ": "big"}, `the alias must not begin or end with a space`},
		{naming.Aliases{"a\nb": "big"}, `the alias must not contain control characters`},
		{naming.Aliases{strings.Repeat("a", 257): "big"}, `the alias must not be longer than 256 bytes`},
		{naming.Aliases{"a": ""}, `the model must not be empty`},
		{naming.Aliases{"openai/*": "*", "claude-*-latest": "anthropic/*"}, ""},
		{naming.Aliases{"openai/*": "small", "*-latest": "fast", "fast": "big"}, ""},
		{naming.Aliases{"openai/*": "smal"}, `["openai/*"] no instance has the name "smal" (did you mean "small"?)`},
		{naming.Aliases{"openai/*": "a", "a": "openai/*"}, `["a"] leads back to itself`},
		{naming.Aliases{"fast": "*"}, `["fast"] may have one * on the left`},
		{naming.Aliases{"a*b*": "*"}, `may have one * on the left`},
		{naming.Aliases{"a*": "*/*"}, `may have one * on the left`},
		{naming.Aliases{"a**": "small"}, `may have one * on the left`},
		{naming.Aliases{"*": "x/*"}, `must have more than a *`},
		{naming.Aliases{"*": "small"}, `must have more than a *`},
	} {
		var found problems
		row.aliases.Check(models{"big", "small"}, found.report)
		got := strings.Join(found, "\n")
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%v: %s, want %s", row.aliases, got, row.want)
		}
	}
}

func TestAliasesAreFollowed(t *testing.T) {
	aliases := naming.Aliases{"a": "b", "b": "m", "x": "y", "y": "x"}
	for name, want := range map[string]string{"a": "m", "b": "m", "m": "m", "other": "other", "x": ""} {
		if got := aliases.ModelOf(name); got != want {
			t.Errorf("%s stands for %q, want %q", name, got, want)
		}
	}
}

// The longest pattern counts, the * stands for at least one character, and the result is not
// looked up again.
func TestPatternsRewriteNames(t *testing.T) {
	rewrites := naming.Aliases{"a/*": "b/*", "a/long-*": "long/*", "b/*": "c/*", "*-latest": "*", "exact": "a/x", "claude-*": "m"}.Rewrites()
	for name, want := range map[string]string{
		"a/m": "b/m", "a/long-m": "long/m", "b/m": "c/m", "m-latest": "m", "a/": "", "-latest": "", "exact": "", "m": "",
		"claude-x": "m", "claude-": "",
	} {
		if got := rewrites.Apply(name); got != want {
			t.Errorf("%s becomes %q, want %q", name, got, want)
		}
	}
}
