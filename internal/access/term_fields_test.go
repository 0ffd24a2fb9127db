package access_test

import (
	"reflect"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Every field of terms is declared whole: the program's verbs set it, and the wider settings complete it.
func TestEveryFieldOfTermsIsDeclared(t *testing.T) {
	paths := map[string]bool{}
	for _, f := range access.Fields() {
		if f.Flag == "" || f.Doc == "" {
			t.Errorf("%s: got flag %q and doc %q, want both", f.Path, f.Flag, f.Doc)
		}
		if paths[f.Path] {
			t.Errorf("%s is there twice", f.Path)
		}
		paths[f.Path] = true
		var wider access.Terms
		given := someValue(t, f.In(&wider))
		if got := (access.Terms{}).Or(wider); !reflect.DeepEqual(f.In(&got).Interface(), given) {
			t.Errorf("%s: got %v of the wider settings, want %v", f.Path, f.In(&got), given)
		}
		if got := wider.Or(access.Terms{}); !reflect.DeepEqual(f.In(&got).Interface(), given) {
			t.Errorf("%s: got %v beside empty settings, want %v", f.Path, f.In(&got), given)
		}
	}
	for _, path := range []string{"services", "limits.tokensPerMinute", "budgets.total.cost", "runs.concurrency"} {
		if !paths[path] {
			t.Errorf("no field has the path %s", path)
		}
	}
}

// someValue sets a value that is not empty and returns it.
func someValue(t *testing.T, v reflect.Value) any {
	t.Helper()
	switch value := v.Addr().Interface().(type) {
	case *[]schema.ServiceType:
		*value = []schema.ServiceType{schema.Embedding}
	case *[]string:
		*value = []string{"a"}
	case *string:
		*value = "2030-01-31T00:00:00Z"
	default:
		if v.CanInt() {
			v.SetInt(3)
		} else {
			v.SetUint(1)
		}
	}
	return v.Interface()
}
