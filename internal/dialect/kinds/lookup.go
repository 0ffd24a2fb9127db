package kinds

import (
	"slices"
	"sort"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Default is the kind of backends without a setting for it: most servers speak OpenAI's
// dialect.
const Default = "openai"

// GuideTo returns the guide of a kind, given its name or an alias; an empty one for an
// unknown name.
func GuideTo(name string) dialect.Guide {
	kind, err := Lookup(name)
	if err != nil {
		return dialect.Guide{}
	}
	return kind.Guide
}

// All returns the kinds in the order of questions to an unknown backend: kinds with a
// dialect of their own before Default.
func All() []*dialect.Kind {
	all := slices.Clone(table)
	slices.Reverse(all)
	return all
}

// Lookup finds a kind by its name or an alias, in any spelling.
func Lookup(name string) (*dialect.Kind, error) {
	folded := schema.Fold(name)
	for _, k := range table {
		if schema.Fold(k.Name) == folded {
			return k, nil
		}
		for _, alias := range k.Aliases {
			if schema.Fold(alias) == folded {
				return k, nil
			}
		}
	}
	known := names(nil)
	if nearest := schema.Nearest(name, known, 1); len(nearest) > 0 {
		return nil, say.Error("field.adapter_near", "name", name, "near", nearest[0],
			"known", strings.Join(known, ", "))
	}
	return nil, say.Error("field.adapter", "name", name, "known", strings.Join(known, ", "))
}

// Check reports whether an adapter exists and can serve a service type.
func Check(name string, service schema.ServiceType) error {
	k, err := Lookup(name)
	if err != nil {
		return err
	}
	if _, ok := k.Routes[service]; !ok {
		return say.Error("field.adapter_service", "name", name, "service", service,
			"known", strings.Join(names(&service), ", "))
	}
	return nil
}

// Names returns the names and aliases of all kinds, in order. Lookup knows them in
// other spellings, too.
func Names() []string {
	var list []string
	for _, k := range table {
		list = append(append(list, k.Name), k.Aliases...)
	}
	sort.Strings(list)
	return list
}

// names lists the kinds, or the kinds that serve one service type.
func names(service *schema.ServiceType) []string {
	var list []string
	for _, k := range table {
		if service != nil {
			if _, ok := k.Routes[*service]; !ok {
				continue
			}
		}
		list = append(list, k.Name)
	}
	sort.Strings(list)
	return list
}
