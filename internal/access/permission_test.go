package access_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
)

func TestShapeOfPermissions(t *testing.T) {
	for code, want := range map[access.Permission]bool{
		access.Anyone: true, access.ByKey: true, access.ByMembership: true, access.ReadModels: true, access.WriteInstances: true,
		"a:z": true, "a-z:b-y:read": true,
		"": false, "anybody": false, "read": false, ":": false, "a:": false, ":read": false, "a::read": false,
		"A:read": false, "a:re`d": false, "a:re{d": false, "a:read1": false, "a b:read": false,
	} {
		if code.Valid() != want {
			t.Errorf("%q is valid: %t", code, !want)
		}
	}
}

// An administrator holds every permission that this file has; init declares them.
func TestEveryPermissionIsListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "permission.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	listed := access.Admin.Permissions()
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Permission" {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		declared++
		if p := access.Permission(code); p != access.Anyone && p != access.ByKey && p != access.ByMembership && !slices.Contains(listed, p) {
			t.Errorf("init does not declare %s (%s)", spec.Names[0].Name, code)
		}
		return true
	})
	if declared != len(listed)+3 {
		t.Errorf("%d permissions are declared, %d and the three without a code are listed", declared, len(listed))
	}
}
