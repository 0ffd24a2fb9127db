package llamaswap_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/wings/importer/llamaswap"
)

func TestMacrosAreExpanded(t *testing.T) {
	global := []llamaswap.Macro{{"ctx", "4096"}, {"args", "-c ${ctx} --alias ${MODEL_ID}"}, {"server", "llama-server ${args} --port ${PORT}"}}
	scope := llamaswap.Scope("qwen", global, []llamaswap.Macro{{"ctx", "8192"}, {"temp", "0.7"}})
	if got := llamaswap.Expand("${server} ${temp} ${unknown}", scope); got != "llama-server -c 8192 --alias qwen --port ${PORT} 0.7 ${unknown}" {
		t.Error(got)
	}
	if global[0].Value != "4096" {
		t.Error("a macro of a model has changed those of the file")
	}
}

func TestCommandsHaveNoComments(t *testing.T) {
	got := llamaswap.Command("  # ${server}\r\n  a \\\r\n  -b 'c\n    d' \\  \n\n # e\n -f#g\n")
	if want := "a\n  -b 'c\nd'\n -f#g"; got != want {
		t.Errorf("%q", got)
	}
}

// together lists the pairs that may run together by the groups that were made.
func together(models []string, all llamaswap.Apart) string {
	count, of := all.Groups()
	var pairs []string
	for n, a := range models {
		for _, b := range models[n+1:] {
			if !slices.ContainsFunc(of[a], func(group int) bool { return slices.Contains(of[b], group) }) {
				pairs = append(pairs, a+b)
			}
		}
	}
	return fmt.Sprint(count, " ", strings.Join(pairs, " "))
}

func TestGroupsSayWhichModelsRunTogether(t *testing.T) {
	models := strings.Split("abcdef", "")
	swap := llamaswap.Group{Swap: true, Exclusive: true}
	for name, c := range map[string]struct {
		groups []llamaswap.Group
		want   string
	}{
		"none":                     {nil, "1 "},
		"one of all":               {[]llamaswap.Group{{Swap: true, Exclusive: true, Members: models}}, "1 "},
		"two that swap":            {[]llamaswap.Group{{Swap: true, Exclusive: true, Members: []string{"a", "b"}}, swap}, "1 "},
		"some stay for ever":       {[]llamaswap.Group{{Persistent: true, Members: []string{"e", "f"}}}, "1 ae af be bf ce cf de df ef"},
		"some leave others alone":  {[]llamaswap.Group{{Swap: true, Members: []string{"e", "f"}}}, "2 ae af be bf ce cf de df"},
		"some exclude all others":  {[]llamaswap.Group{{Exclusive: true, Members: []string{"a", "b"}}}, "2 ab"},
		"exclusive and persistent": {[]llamaswap.Group{{Swap: true, Exclusive: true, Persistent: true, Members: []string{"e", "f"}}}, "2 ae af be bf ce cf de df"},
	} {
		if got := together(models, llamaswap.ByGroups(models, c.groups)); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}

func TestSetsSayWhichModelsRunTogether(t *testing.T) {
	models := strings.Split("abcdef", "")
	for sets, want := range map[string]string{
		"x: a":                             "1 ",
		"x: a & b":                         "2 ab",
		"x: (a | b | v) & d":               "2 ad bd cd",
		"x: a|b; y: +x & d; z: e & f":      "4 ad bd ef",
		"x: a & b; y: b & c; z: a & c":     "2 ab bc refused [a c]",
		"x: a & b; y: b & c; z: a & c & b": "3 ab ac bc",
		"x: f; y: +x & (+z); z: a":         "2 af",
	} {
		var all []llamaswap.Set
		for set := range strings.SplitSeq(sets, "; ") {
			name, text, _ := strings.Cut(set, ": ")
			all = append(all, llamaswap.Set{Name: name, Text: text})
		}
		combinations, err := llamaswap.Combinations(all, func(word string) (string, bool) {
			if word == "v" {
				return "c", true
			}
			return word, slices.Contains(models, word)
		})
		if err != nil {
			t.Errorf("%s: %v", sets, err)
			continue
		}
		apart, refused := llamaswap.ByCombinations(models, combinations)
		got := together(models, apart)
		if len(refused) > 0 {
			got += fmt.Sprint(" refused ", refused[0])
		}
		if got != want {
			t.Errorf("%s: %s, not %s", sets, got, want)
		}
	}
}

func TestSetsThatMeanNothingAreReported(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("(a|b|c|d|e) & ", 6), "& ")
	for text, want := range map[string]string{
		"": "ends too early", "a &": "ends too early", "a b": "not expected", "(a | b": "not closed", "a & ?": "no model",
		"+": "ends too early", "+y": "no set", "+x": "refers to itself", "nobody": "no model", many: "more than 4096",
	} {
		if _, err := llamaswap.Combinations([]llamaswap.Set{{Name: "x", Text: text}}, func(word string) (string, bool) { return word, len(word) == 1 && word != "?" }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
