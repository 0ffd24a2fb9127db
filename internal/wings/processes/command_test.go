package processes

import (
	"slices"
	"testing"
)

func TestACommandIsSplitIntoWords(t *testing.T) {
	for text, want := range map[string][]string{
		"llama-server --port $PORT":           {"llama-server", "--port", "$PORT"},
		"  a\t b\n  --c d\r\n":                {"a", "b", "--c", "d"},
		"a \\\n  -m x \\\n":                   {"a", "-m", "x"},
		"# how\na\n  # why\n  -m x#1 # y":     {"a", "-m", "x#1", "#", "y"},
		`a 'b c' "d e" f'g h'"i"`:             {"a", "b c", "d e", "fg hi"},
		`a "say \"hi\" \\ \n" 'it\s' b\ c \"`: {"a", `say "hi" \ \n`, `it\s`, "b c", `"`},
		`sh -c 'exec a | b > c; # d'`:         {"sh", "-c", "exec a | b > c; # d"},
		"sh -c 'a\n# b\nc'":                   {"sh", "-c", "a\n# b\nc"},
		`a "" ''`:                             {"a", "", ""},
		`a --json '{"k": "v"}' ü`:             {"a", "--json", `{"k": "v"}`, "ü"},
		`a \`:                                 {"a", `\`},
		"  ":                                  nil,
	} {
		if got, err := (Command{text}).words(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
	list := Command{"a b", "'", "# c"}
	if got, err := list.words(); err != nil || !slices.Equal(got, list) {
		t.Errorf("a list is split: %q %v", got, err)
	}
	for _, text := range []string{"a 'b", `a "b\"`} {
		if got, err := (Command{text}).words(); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}
