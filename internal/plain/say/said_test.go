package say

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// makers are the functions that make a sentence, and which of their arguments is the code.
var makers = map[string]int{
	"say.New": 0, "say.Text": 0, "say.Error": 0, "say.Wrap": 1, "Reword": 0, "Hint": 0, "ofOwner": 0, "withHint": 1,
	"BadField": 1, "CodedError": 1, "BadInput": 1, "NoSuch": 0, "invalidValue": 1, "faultAt": 1, "unexpected": 1,
}

// withMore are the functions that add values of their own.
var withMore = []string{"Hint", "ofOwner", "withHint"}

// The sentences of wings are declared in their folders, which this package does not import.
func init() {
	for path, content := range wingFiles("sentences.go") {
		file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			pair, is := node.(*ast.CompositeLit)
			if !is || pair.Type != nil || len(pair.Elts) != 2 {
				return true
			}
			code, _ := literal(pair.Elts[0], nil)
			text, _ := literal(pair.Elts[1], nil)
			Declare([]Entry{{code, text}})
			return false
		})
	}
}

// wingFiles returns the files with a name in the folders of wings.
func wingFiles(name string) map[string]string {
	found := map[string]string{}
	err := filepath.WalkDir("../../wings", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != name {
			return err
		}
		content, err := os.ReadFile(path)
		found[path] = string(content)
		return err
	})
	if err != nil {
		panic(err)
	}
	return found
}

// Every sentence that the gateway makes is in the catalogue and gets the values that are in
// it.
func TestSentencesAreMadeOfTheCatalogue(t *testing.T) {
	made := 0
	eachFile(t, func(path string, set *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			call, is := node.(*ast.CallExpr)
			if !is {
				return true
			}
			name := calledName(call.Fun)
			at, is := makers[name]
			if !is || len(call.Args) <= at {
				return true
			}
			code, is := textOf(call.Args[at])
			if !is || slices.Contains(withMore, name) {
				return true // the code is made of two, or values are added
			}
			made++
			parts, known := templates[Code(code)]
			if !known {
				t.Errorf("%s: there is no sentence %q", set.Position(call.Pos()), code)
				return true
			}
			var want, got []string
			for _, p := range parts {
				if p.name != "" {
					want = append(want, p.name)
				}
			}
			for i := at + 1; i < len(call.Args); i += 2 {
				value, _ := textOf(call.Args[i])
				got = append(got, value)
			}
			slices.Sort(want)
			slices.Sort(got)
			if want = slices.Compact(want); !slices.Equal(want, got) && !call.Ellipsis.IsValid() {
				t.Errorf("%s: %s has the values %q, not %q", set.Position(call.Pos()), code, want, got)
			}
			return true
		})
	})
	if _, err := os.Stat("../../wings/batches"); err != nil {
		return // a tree without wings does not say everything
	}
	if made < 500 {
		t.Errorf("only %d sentences were found: the test looks for them in the wrong way", made)
	}
}

// Every sentence of the catalogue is said. A code may be made of two literals, or of one that
// ends within a word.
func TestEverySentenceIsSaid(t *testing.T) {
	if _, err := os.Stat("../../wings/batches"); err != nil {
		t.Skip("a tree without wings does not say everything")
	}
	said := map[string]bool{}
	eachFile(t, func(_ string, _ *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			if text, is := textOf(node); is {
				said[text] = true
				said[reflect.StructTag(text).Get("want")] = true
			}
			return true
		})
	})
	for code := range templates {
		said[string(Sentence{Code: code}.plain().Code)] = true
	}
	isSaid := func(code string) bool {
		for i := range code {
			end := code[i+1:]
			if said[code[:i+1]] && (end == "" || said[end] || code[i] == '_' || code[i] == '.') {
				return true
			}
		}
		return false
	}
	for _, code := range Codes() {
		if code != Other && !isSaid(string(code)) {
			t.Errorf("got no use of %s, want one: %s", code, english(code))
		}
	}
	for code := range said {
		if strings.HasPrefix(code, "field.") && templates[Code(code)] == nil {
			t.Errorf("there is no sentence %s", code)
		}
	}
}

// A text of the gateway's own has a code, unless it is said on a terminal before the start.
func TestTextsHaveCodes(t *testing.T) {
	eachFile(t, func(path string, set *token.FileSet, file *ast.File) {
		if slices.Contains(atTheStart, filepath.Base(filepath.Dir(path))) {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, is := node.(*ast.CallExpr)
			if is && calledName(call.Fun) == "say.Plain" && len(call.Args) == 1 {
				if text, known := sample(call.Args[0], nil); known {
					t.Errorf("%s: %q has no code", set.Position(call.Pos()), text)
				}
			}
			return true
		})
	})
}

// eachFile calls a function with each source of the program, without its tests and this
// package.
func eachFile(t *testing.T, do func(path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	for _, root := range []string{"../..", "../../../cmd"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "plain/say/") || filepath.Base(path) == "sentences.go" {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err == nil {
				do(path, set, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// calledName returns the name of a function that is called, with its package if that is say.
func calledName(function ast.Expr) string {
	switch f := function.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if from, is := f.X.(*ast.Ident); is && from.Name == "say" {
			return "say." + f.Sel.Name
		}
		return f.Sel.Name
	}
	return ""
}

// textOf returns the text of a literal.
func textOf(node ast.Node) (text string, is bool) {
	literal, is := node.(*ast.BasicLit)
	if !is || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}
