package access_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// fill sets every exported field of a value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(t, v.Field(i))
			}
		}
	default:
		t.Fatalf("fill cannot set a %s", v.Type())
	}
}

// A field that keys get one day is stored by an edit, and is a default of wider terms.
func TestNoFieldOfAKeyIsLeftOut(t *testing.T) {
	t.Parallel()
	var want access.Key
	fill(t, reflect.ValueOf(&want).Elem())
	if got := (access.Terms{}).Or(want.Terms); !reflect.DeepEqual(got, want.Terms) {
		t.Errorf("the defaults: got %+v, want %+v", got, want.Terms)
	}
	credentials := openKeys(t, t.TempDir(), access.Settings{Enabled: true})
	change := access.Change{By: "a", At: time.Now()}
	_, issued, err := credentials.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{ID: "k"}}, change)
	if err != nil {
		t.Fatal(err)
	}
	change.DryRun = true // the values need not be valid
	edited, err := credentials.Keys.Edit(t.Context(), "k", change, func(access.IssuedKey) (access.Key, error) { return want, nil })
	want.ID, want.KeySHA256 = issued.ID, issued.KeySHA256
	if err != nil || !reflect.DeepEqual(edited.Key, want) {
		t.Errorf("an edit: got %+v, %v, want %+v", edited.Key, err, want)
	}
}
