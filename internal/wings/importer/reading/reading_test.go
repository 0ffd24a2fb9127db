package reading_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

func parsed(t *testing.T, content string) (*reading.Account, string) {
	t.Helper()
	account := reading.NewAccount("f")
	documents, err := account.Parse(reading.File{Name: "f", Content: []byte(content)})
	if err != nil {
		return account, err.Error()
	}
	var lines []string
	for _, root := range documents {
		lines = append(lines, fmt.Sprintf("%d:%s", root.At("a").Line(), root.Text("a")))
	}
	return account, strings.Join(lines, " ")
}

func TestDocumentsKeepTheirLines(t *testing.T) {
	for content, want := range map[string]string{
		"a: 1\n---\na: 2\n":                 "1:1 3:2",
		"{\"a\": 1}\n\n{\t\"a\": 2}":        "1:1 3:2",
		"{\n\t\"a\": \"x\"\n}":              "2:x",
		"\ufeffa: 1\n":                      "1:1",
		"base: &b {a: 1}\n<<: *b\n":         "1:1",
		"base: &b {a: 1}\na: 2\n<<: [*b]\n": "2:2",
		"a: 1\na: 2\n":                      "2:2",
		"":                                  "f says nothing",
		"# only a comment\n":                "f says nothing",
		"a: [":                              "f: line 1: did not find expected node content",
		"{\"a\": 1":                         "f: line 1: did not find expected ',' or '}'",
	} {
		if _, got := parsed(t, content); got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
	account, _ := parsed(t, "s: {a: 1, a: 2}\n")
	if rows := account.Rows(); len(rows) != 1 || rows[0].Setting != "s.a" || rows[0].Outcome != reading.NotInForce {
		t.Errorf("what is said twice: %+v", rows)
	}
}

func TestWhatWasNotLookedAtIsLeftOver(t *testing.T) {
	account := reading.NewAccount("f")
	documents, err := account.Parse(reading.File{Name: "f", Content: []byte("known: {a: 1, b: {c: 2, d: 3}}\nsection: {x: 1, y: {z: 1}}\nbranch: {x: 1, y: 2}\nempty: {}\nlist: [1, {a: 1, b: 2}]\n")})
	if err != nil {
		t.Fatal(err)
	}
	root := documents[0]
	root.Text("known", "b", "c")
	root.At("list").Items()[1].Text("a")
	root.Leftovers(func(path string) (string, bool) { return "why", path == "branch" })
	var got []string
	for _, row := range account.Rows() {
		got = append(got, row.Setting)
	}
	if want := "known.a known.b.d section.x section.y branch list[0] list[1].b"; strings.Join(got, " ") != want {
		t.Errorf("left over are %v, want %s", got, want)
	}
}
