package schema_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

type wayHome struct{}

func (wayHome) Names() []string { return []string{"by_foot", "by_train"} }

// A choice is read in every spelling, written as its name, and refused with the words of its type.
func TestChoice(t *testing.T) {
	t.Parallel()
	var c schema.Choice[wayHome]
	if err := c.UnmarshalText([]byte("By-Train")); err != nil || c != 1 || c.String() != "by_train" || !c.Valid() {
		t.Errorf("got %v, %v, want by_train", c, err)
	}
	err := c.UnmarshalText([]byte("by car"))
	if err == nil || !strings.Contains(err.Error(), `unknown way home "by car" (known: by_foot, by_train)`) || c != 1 {
		t.Errorf("got %v and %v, want an error and the value before", err, c)
	}
	if beyond := schema.Choice[wayHome](2); beyond.Valid() || beyond.String() != "way home(2)" {
		t.Errorf("got %v, want no name", beyond)
	}
}
