package kinds

import (
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// An error for a door that few kinds have names those that have it.
func TestRefusalsNameTheKindsThatHaveADoor(t *testing.T) {
	t.Parallel()
	for _, door := range schema.Doors() {
		if door.IsUnified() || door.IsTranslated() {
			continue
		}
		var names []string
		for _, kind := range table {
			if _, has := kind.Native[door]; has {
				names = append(names, kind.Name)
			}
		}
		err := new(dialect.Target).RefuseDoor(door)
		if err == nil {
			t.Errorf("%s is refused by no backend", door)
			continue
		}
		_, told, says := strings.Cut(strings.TrimSuffix(err.Error(), " do."), "Instances whose adapter is ")
		if says != (len(names) <= 2) || says && !slices.Equal(strings.Split(told, " or "), names) {
			t.Errorf("%s: %v, and %v have it", door, err, names)
		}
	}
}
