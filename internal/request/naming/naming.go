// Package naming decides which model serves a name that callers ask for, and which ones
// take over from it.
package naming

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// maxLength is how long the name of a model may be.
const maxLength = 256

// Aliases are further names of models: the name that callers ask for, and the model, or
// another alias, that it stands for.
type Aliases map[string]string

// ModelOf returns the model that a name stands for, which is the name itself unless it is
// an alias. It returns an empty name where aliases lead back to the name.
func (a Aliases) ModelOf(name string) string {
	for range len(a) + 1 {
		target, isAlias := a[name]
		if !isAlias {
			return name
		}
		name = target
	}
	return ""
}

// Models are the models that a service type has.
type Models interface {
	// Has tells whether instances serve the model, or may serve it.
	Has(model string) bool
	// Names returns the models that are known, for suggestions.
	Names() []string
}

// Check reports the aliases that could not be used as they are written. The paths are
// those below the setting.
func (a Aliases) Check(models Models, report func(path, message string)) {
	written := models.Names()
	for _, alias := range slices.Sorted(maps.Keys(a)) {
		path, target := key(alias), a[alias]
		switch model := a.ModelOf(alias); {
		case Fault(alias) != "":
			report(path, "the alias "+Fault(alias))
		case slices.Contains(written, alias):
			report(path, "is the name of a model that has instances; they would never be asked for it")
		case Fault(target) != "":
			report(path, "the model "+Fault(target))
		case model == "":
			report(path, "leads back to itself")
		case !models.Has(model):
			report(path, noInstance(model, written))
		}
	}
}

func key(name string) string { return "[" + strconv.Quote(name) + "]" }

func noInstance(model string, written []string) string {
	message := fmt.Sprintf("no instance has the name %q", model)
	if near := schema.Nearest(model, written, 1); len(near) > 0 {
		message += fmt.Sprintf(" (did you mean %q?)", near[0])
	}
	return message
}

// Fault says why a text cannot be the name of a model, as the rest of a sentence. It is
// empty for a name that can be.
func Fault(name string) string {
	switch {
	case name == "":
		return "must not be empty"
	case strings.TrimSpace(name) != name:
		return "must not begin or end with a space"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "must not contain control characters"
	case len(name) > maxLength:
		return fmt.Sprintf("must not be longer than %d bytes", maxLength)
	}
	return ""
}
