package selfservice_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/wings/selfservice"
)

// People ask for the terms that their declaration marks, and for no others.
func TestPeopleAskForTheTermsThatAreDeclared(t *testing.T) {
	asked := map[string]bool{}
	for _, f := range access.Fields() {
		if f.IsAsked {
			name, _, _ := strings.Cut(f.Path, ".")
			asked[name] = true
		}
	}
	for i := range reflect.TypeFor[selfservice.AskedTerms]().NumField() {
		name := reflect.TypeFor[selfservice.AskedTerms]().Field(i).Tag.Get("json")
		if !asked[name] {
			t.Errorf("selfservice.AskedTerms has %s, which access.Terms does not mark as asked", name)
		}
		delete(asked, name)
	}
	for name := range asked {
		t.Errorf("selfservice.AskedTerms drops %s, which access.Terms marks as asked", name)
	}
	full := access.Terms{}
	for _, f := range access.Fields() {
		if v := f.In(&full); f.IsAsked && v.CanInt() {
			v.SetInt(7)
		}
	}
	full.ExpiresAt, full.Models = "2030-01-01T00:00:00Z", []string{"m"}
	wishes := selfservice.AskedOf(full)
	if got := wishes.Over(access.Terms{}); !reflect.DeepEqual(got, full) {
		t.Errorf("the wishes of %+v give %+v", full, got)
	}
}
