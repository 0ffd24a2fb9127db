package say

import (
	"go/ast"
	"regexp"
	"strconv"
)

// atTheStart are the packages whose settings are read when the gateway starts, and which no
// form of the console changes: what is wrong with them is said on a terminal.
var atTheStart = []string{
	"answers", "answercache", "batches", "doctor", "files", "importer", "listen", "logs", "processes", "prices", "redis", "sockets", "telemetry",
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
