package references

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	for text, want := range map[string][]string{
		"":                               nil,
		"plain":                          nil,
		"$":                              nil,
		"a $B $$ ${":                     nil,
		"$${NOT}":                        nil,
		"${A}":                           {"A"},
		"Bearer ${A} and ${B:-c}":        {"A", "B"},
		"${A:${B:-${file:/run/c}}}${D:}": {"A", "B", "file:/run/c", "D"},
		"${sha256:A:${sha256:file:b}}":   {"A", "file:b"},
		"${file:with:colon}":             {"file:with:colon"},
	} {
		if got := Names(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestLimitedReferences: only names that are listed are resolved, whatever way leads to
// them, and never one that gives a forbidden text away.
func TestLimitedReferences(t *testing.T) {
	dir := t.TempDir()
	const master = "the master key"
	for name, content := range map[string]string{"listed": "a", "other": "b", "master": "x " + master + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	limited := Resolver{
		Variables: map[string]string{"LISTED": "l", "OTHER": "o", "MASTER": master, "COPY": "of " + master},
		Directory: dir,
	}.Only(Limit{
		Names:      []string{"LISTED", "UNSET", "MASTER", "COPY", "file:listed", "file:master"},
		NeverNames: []string{"MASTER"},
		NeverTexts: []string{"", master},
	})
	for reference, want := range map[string]string{
		"${LISTED}":                           "l",
		"${UNSET:-${LISTED}}":                 "l",
		"${LISTED:-${OTHER}}":                 "l", // what is not needed is not resolved
		"${file:listed}":                      "a",
		"${file:" + dir + "/./listed}":        "a",
		"${file:../" + last(dir) + "/listed}": "a",
	} {
		if got, err := limited.Resolve(reference); got != want || err != nil {
			t.Errorf("%s: %q, %v", reference, got, err)
		}
	}
	for reference, isMasterKey := range map[string]bool{
		"${OTHER}":                false,
		"${OTHER:default}":        false,
		"${UNSET:-${OTHER}}":      false,
		"${LISTED} ${OTHER}":      false,
		"${file:other}":           false,
		"${file:listed/../other}": false,
		"${file:/etc/passwd}":     false,
		"${sha256:OTHER}":         false,
		"${sha256:MASTER}":        true,
		"${MASTER}":               true,
		"${COPY}":                 true,
		"${file:master}":          true,
		"${UNSET:-${MASTER}}":     true,
	} {
		got, err := limited.Resolve(reference)
		var refused *RefusedError
		if got != "" || !errors.As(err, &refused) || refused.IsMasterKey != isMasterKey {
			t.Errorf("%s: %q, %v", reference, got, err)
		}
	}
}

func last(path string) string { return filepath.Base(path) }

func TestNamesThatCanBeListed(t *testing.T) {
	for name, isFine := range map[string]bool{"KEY": true, "file:/run/key": true, "file:key": true, "${KEY}": false, "": false, "file:": false, "a b": false} {
		if (CheckName(name) == "") != isFine {
			t.Errorf("%q: %s", name, CheckName(name))
		}
	}
}
