package config

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/config/references"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// limitReferences returns the resolver for stored versions. It resolves the references in
// the secrets of the services and the names in security.references, and never the master
// key. It reports the settings that would lead to that key.
func (d *decoder) limitReferences(resolver references.Resolver, document *Document) references.Resolver {
	security := document.Security
	limit := references.Limit{
		Names:      slices.Clone(security.References),
		NeverTexts: []string{security.MasterKey, security.PreviousMasterKey},
	}
	for _, name := range []string{"master-key", "previous-master-key"} {
		limit.NeverNames = append(limit.NeverNames, environmentPrefix+"SECURITY_"+variableName(name))
		if from := d.written["security."+name]; from != nil {
			limit.NeverNames = append(limit.NeverNames, references.Names(from.reference)...)
		}
	}
	secrets := d.referringSecrets()
	for _, path := range secrets {
		limit.Names = append(limit.Names, references.Names(d.written[path].reference)...)
	}
	limited := resolver.Only(limit)
	for _, path := range secrets {
		if from := d.written[path]; leadsToMasterKey(limited, from.reference) {
			d.problems.say(from.origin, path, say.New("field.master_key"))
		}
	}
	for i, name := range security.References {
		path := indexed("security.references", i)
		message := references.CheckName(name)
		if message == "" && leadsToMasterKey(limited, "${"+name+"}") {
			message = "is the master key, to which no stored version may refer"
		}
		if message != "" {
			d.locate(Problem{Path: path, Said: say.Plain(message)})
		}
	}
	return limited
}

// referringSecrets returns the paths of the secrets that are references.
func (d *decoder) referringSecrets() []string {
	var paths []string
	for _, path := range slices.Sorted(maps.Keys(d.written)) {
		value := d.values[path]
		if d.written[path].reference != "" && value.IsValid() && value.Type() == reflect.TypeFor[backend.Secret]() {
			paths = append(paths, path)
		}
	}
	return paths
}

func leadsToMasterKey(with references.Resolver, reference string) bool {
	_, err := with.Resolve(reference)
	var refused *references.RefusedError
	return errors.As(err, &refused) && refused.IsMasterKey
}
