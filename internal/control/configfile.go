package control

import (
	"reflect"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/config"
)

// configFile is what this gateway knows about its configuration file. Control.mu guards
// all but terms.
type configFile struct {
	// applied is the file as it was last applied. Its edits become versions by a
	// comparison with it.
	applied appliedFile
	// services and terms are those of the file as it was last read. Terms are read
	// without the lock, too.
	services Services
	terms    atomic.Pointer[access.TermSet]
	// waiting is a file whose edits are not in the shared log yet, because its database
	// was away; nil where there is none.
	waiting *config.Document
}

// setRead remembers the file as it was read.
func (f *configFile) setRead(doc *config.Document) {
	f.services = doc.Clone().Services
	terms := doc.Security.TermSet()
	f.terms.Store(&terms)
}

// isApplied tells whether a file has the services that were last applied.
func (f *configFile) isApplied(doc *config.Document) bool { return isSource(f.applied.source, doc) }

// edited returns the file as it is after it was applied, or nil if its services are those
// that were last applied.
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
}

func appliedFileOf(doc *config.Document) appliedFile {
	services := doc.Clone().Services
	return appliedFile{source: sourceOf(doc), services: services, stored: withoutDefaults(services)}
}

// lastApplied returns the file as it was last applied, as far as that is known. Older
// releases did not store it; for those it is the newest version that came from the file.
func lastApplied(store Store, last Head, numbers []int) appliedFile {
	state := appliedFile{source: last.Source, stored: last.File}
	if len(last.File) > 0 && json.Unmarshal(last.File, &state.services) == nil {
		return state
	}
	state.services = config.Default().Services // the edit then adds and changes, and removes nothing
	for i := len(numbers) - 1; i >= 0; i-- {
		v, err := store.Load(numbers[i])
		if err == nil && (v.Origin == FromFile || v.Origin == FromReload || v.Origin == FromReset) {
			state.services = v.Services
			break
		}
	}
	state.stored = withoutDefaults(state.services)
	return state
}

// withoutDefaults encodes services without the settings that have their defaults. A
// release that changes a default then does not take that for an edit of the file.
func withoutDefaults(services Services) jsontext.Value {
	serviceDefaults, instanceDefaults := treeOf(config.DefaultService()), treeOf(backend.DefaultSettings())
	tree := treeOf(services)
	for _, value := range tree {
		service, _ := value.(map[string]any)
		instances, _ := service["instances"].([]any)
		for _, instance := range instances {
			if settings, ok := instance.(map[string]any); ok {
				dropEqual(settings, instanceDefaults)
			}
		}
		dropEqual(service, serviceDefaults)
	}
	data, _ := json.Marshal(tree, json.Deterministic(true)) // it came from JSON
	return data
}

// treeOf returns settings as JSON has them. Settings can always be encoded.
func treeOf(settings any) map[string]any {
	data, _ := json.Marshal(settings)
	var tree map[string]any
	_ = json.Unmarshal(data, &tree)
	return tree
}

// dropEqual removes the members that a tree has in common with another one.
func dropEqual(from, defaults map[string]any) {
	for name, value := range from {
		inner, isGroup := value.(map[string]any)
		innerDefaults, hasGroup := defaults[name].(map[string]any)
		if isGroup && hasGroup {
			dropEqual(inner, innerDefaults)
		}
		if reflect.DeepEqual(value, defaults[name]) || isGroup && hasGroup && len(inner) == 0 {
			delete(from, name)
		}
	}
}
