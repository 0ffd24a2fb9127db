package schema

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// declaredCodes reads the constants whose names begin with Code.
func declaredCodes(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isValue := n.(*ast.ValueSpec)
		if isValue && strings.HasPrefix(spec.Names[0].Name, "Code") {
			declared[spec.Names[0].Name], err = strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	return declared
}

func TestEveryCodeHasOneRowInTheTable(t *testing.T) {
	rows := map[string]int{}
	for _, class := range errorClasses {
		rows[class.Code]++
		if class.Type == "" || class.Status < 400 || class.Status > 599 || class.Result == ResultSuccess {
			t.Errorf("the row of %s is not complete: %+v", class.Code, class)
		}
	}
	declared := declaredCodes(t)
	for name, code := range declared {
		if rows[code] != 1 {
			t.Errorf("%s (%s) has %d rows", name, code, rows[code])
		}
	}
	if len(declared) != len(errorClasses) {
		t.Errorf("%d codes are declared, the table has %d", len(declared), len(errorClasses))
	}
}

func TestStatusesOfErrors(t *testing.T) {
	for want, err := range map[int]*Error{
		400: NewError(CodeInvalidJSON, say.Plain("")),
		429: NewError(CodeNoSlot, say.Plain("")),
		500: NewError("a code that nobody declared", say.Plain("")),
		508: NewError(CodeLoopDetected, say.Plain("")),
		422: {Code: CodeUpstreamError, Status: 422}, // the backend decided it
	} {
		if got := err.HTTPStatus(); got != want {
			t.Errorf("%s: %d", err.Code, got)
		}
	}
}

func TestLookingUpACodeDoesNotAllocate(t *testing.T) {
	err := NewError(CodeUpstreamTimeout, say.Plain(""))
	if n := testing.AllocsPerRun(100, func() {
		_, _ = err.HTTPStatus(), ResultOf(err.Code)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
