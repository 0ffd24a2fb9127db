package say

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// atTheStart are the packages whose settings are read when the gateway starts, and which no
// form of the console changes: what is wrong with them is said on a terminal.
var atTheStart = []string{
	"answers", "answercache", "batches", "doctor", "files", "importer", "listen", "logs", "processes", "prices", "redis", "sockets", "telemetry",
}

// Whatever is wrong with a field has a code, so that the console can say it in any language.
func TestFaultsOfFieldsHaveCodes(t *testing.T) {
	checked := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(atTheStart, filepath.Base(filepath.Dir(path))) {
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		for field, text := range faultsIn(t, path) {
			checked++
			if s, known := find(text); !known || !isWhole(s) {
				t.Errorf("%s: %q (of %s) is in no list of internal/see/say", path, text, field)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 90 {
		t.Errorf("only %d sentences were found: the test looks for them in the wrong way", checked)
	}
}

// faultsIn returns the sentences about fields that a file of Go says, by the field and its
// place, with a number for each value.
func faultsIn(t *testing.T, path string) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		switch called := call.Fun.(type) {
		case *ast.Ident:
			if called.Name != "report" {
				return true
			}
		case *ast.SelectorExpr:
			if called.Sel.Name != "Invalid" || isEmptyText(call.Args[0]) {
				return true
			}
		default:
			return true
		}
		field, _ := literal(call.Args[0], nil)
		text, known := sample(call.Args[1], nil)
		if known && text != "7" {
			found[field+" at "+set.Position(call.Pos()).String()] = text
		}
		return true
	})
	return found
}

// isEmptyText reports whether an error is about no field: then its text is a whole sentence.
func isEmptyText(field ast.Expr) bool {
	text, known := literal(field, nil)
	return known && text == ""
}

// sample returns what an expression may say, with a number for each value that is none of the
// constants.
func sample(expression ast.Expr, constants map[string]string) (text string, known bool) {
	text, known = literal(expression, constants)
	if inner, isCall := expression.(*ast.CallExpr); isCall && len(inner.Args) > 0 {
		if called, ok := inner.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Sprintf" {
			text, known = literal(inner.Args[0], constants)
		}
	}
	return regexp.MustCompile(`%[a-z]`).ReplaceAllStringFunc(text, func(verb string) string {
		if verb == "%q" {
			return `"7"`
		}
		return "7"
	}), known
}

// literal returns the text of an expression, with a number for each part that is neither a
// literal nor a constant.
func literal(expression ast.Expr, constants map[string]string) (text string, known bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, leftKnown := literal(e.X, constants)
		right, rightKnown := literal(e.Y, constants)
		return left + right, leftKnown || rightKnown
	case *ast.Ident:
		if text, known := constants[e.Name]; known {
			return text, true
		}
	}
	return "7", false
}
