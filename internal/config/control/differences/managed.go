package differences

import (
	"fmt"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

// isManaged reports whether a difference is one of a section that management can change.
func (d Difference) isManaged() bool {
	isSame := func(s config.ManagedSection) bool { return s.Name == d.Service }
	return slices.ContainsFunc(config.ManagedSections(), isSame)
}

// hidden takes the place of a secret in differences, and otherHidden that of its successor.
const hidden, otherHidden = "****", "**** (another)"

// CompareManaged lists the changes that turn sections into others. The Service of such a
// difference is the name of the section.
func CompareManaged(from, to config.Managed) (found []Difference) {
	before := from.Secrets()
	show := func(all config.Managed, name string) map[string]any {
		shown, _ := all.MapSecrets(func(at string, secret backend.Secret) (backend.Secret, error) {
			switch {
			case secret.IsEmpty():
				return secret, nil
			case !before[at].IsEmpty() && before[at] != secret:
				return backend.Literal(otherHidden), nil
			}
			return backend.Literal(hidden), nil
		})
		return fieldsOf(shown[name])
	}
	for _, section := range config.ManagedSections() {
		if _, has := to[section.Name]; has && !settings.Equal(from[section.Name], to[section.Name]) {
			found = append(found, compareFields(Difference{Service: section.Name},
				show(from, section.Name), show(to, section.Name))...)
		}
	}
	// An empty list beside none differs as JSON only.
	return slices.DeleteFunc(found, func(d Difference) bool {
		return d.Field != "" && fmt.Sprint(formatValue(d.From)) == fmt.Sprint(formatValue(d.To))
	})
}
