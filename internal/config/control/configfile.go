package control

import (
	"maps"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/stored"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

// configFile is this gateway's knowledge of its configuration file. Control.mu guards all
// but terms.
type configFile struct {
	// applied is the file as it was last applied. Its edits become versions by a
	// comparison with it.
	applied appliedFile
	// services and terms come from the last read of the file. Terms are read without the
	// lock, too.
	services Services
	terms    atomic.Pointer[access.TermSet]
	// managed are the sections that management can change, read without the lock, too.
	managed atomic.Pointer[config.Managed]
	// references are the names that stored versions may refer to, in addition to the
	// names that the services use.
	references []string
	// waiting is a file with edits that are not in the shared log yet, because its
	// database was away. It is nil where no edits wait.
	waiting *config.Document
}

// setRead remembers the file as it was read.
func (f *configFile) setRead(doc *config.Document) {
	f.services, f.references = settings.Clone(Services(doc.Services)), doc.Security.References
	terms := doc.Security.TermSet()
	f.terms.Store(&terms)
	managed := doc.Managed()
	f.managed.Store(&managed)
}

// isApplied reports whether a file has the services that were last applied.
func (f *configFile) isApplied(doc *config.Document) bool { return f.applied.source == sourceOf(doc) }

// edited returns the file to apply, or nil if its services were applied before.
func (f *configFile) edited(doc *config.Document) *appliedFile {
	if f.isApplied(doc) {
		return nil
	}
	edited := appliedFileOf(doc)
	return &edited
}

// appliedFile is the configuration file as it was last applied. The next edit of the file
// is compared with it.
type appliedFile struct {
	// source identifies the services that the file gave.
	source   string
	services Services
	// stored are the services as Head.File keeps them.
	stored jsontext.Value
	// managed are the sections that management can change.
	managed config.Managed
}

func appliedFileOf(doc *config.Document) appliedFile {
	services := settings.Clone(Services(doc.Services))
	return appliedFile{source: sourceOf(doc), services: services, stored: stored.WithoutDefaults(services),
		managed: doc.Managed()}
}

// keepLiterals replaces references that resolve to the literal in force by that literal: a file that
// patchbay export wrote changes nothing. The file is compared again at each start, because a variable
// may have another value then.
func (f *appliedFile) keepLiterals(inForce *config.Document, resolve backend.Resolver) {
	isKept := false
	keep := func(written, literal backend.Secret) backend.Secret {
		if text, err := written.Resolve(resolve); !written.IsReference() || literal.IsEmpty() || err != nil ||
			!literal.Equal(backend.Literal(text)) {
			return written
		}
		isKept = true
		return literal
	}
	for serviceType, service := range f.services {
		for i := range service.Instances {
			for _, other := range inForce.Services[serviceType].Instances {
				if s := &service.Instances[i]; s.ID() == other.ID() {
					s.APIKey = keep(s.APIKey, other.APIKey)
					for name, value := range s.Headers {
						s.Headers[name] = keep(value, other.Headers[name])
					}
				}
			}
		}
	}
	literals := map[string]backend.Secret{}
	_, _ = inForce.Managed().MapSecrets(func(at string, s backend.Secret) (backend.Secret, error) {
		literals[at] = s
		return s, nil
	})
	managed, err := f.managed.MapSecrets(func(at string, s backend.Secret) (backend.Secret, error) {
		return keep(s, literals[at]), nil
	})
	if !isKept || err != nil {
		return
	}
	f.managed, f.stored = managed, stored.WithoutDefaults(f.services)
	f.source += " with literals"
}

// lastApplied returns the file as it was last applied, as far as it can be read. Sections that
// it did not have count as they are now.
func lastApplied(last Head, now config.Managed) appliedFile {
	state := appliedFile{source: last.Source, stored: last.File, managed: now}
	maps.Copy(state.managed, last.FileSettings)
	if json.Unmarshal(last.File, &state.services) != nil {
		state.services = config.Default().Services // the edit then adds and changes, and removes nothing
	}
	return state
}
