// Package merge decides how an edit of the configuration file changes the configuration
// in force.
package merge

import (
	"reflect"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Services applies an edit of the configuration file to the services in force: the
// difference between the file as it was read before and as it is now. Settings that the
// edit does not change stay as they are in force. Where both sides changed the same
// setting, or one removed a setting that the other changed, the file wins. Instances are
// identified by name and base URL. The arguments are not modified.
func Services(before, after, inForce map[schema.ServiceType]config.Service) map[schema.ServiceType]config.Service {
	result := make(map[schema.ServiceType]config.Service, len(inForce))
	for _, serviceType := range schema.ServiceTypes() {
		base, hadBase := before[serviceType]
		file, inFile := after[serviceType]
		current, isInForce := inForce[serviceType]
		switch {
		case hadBase && inFile && isInForce:
			result[serviceType] = mergeService(base, file, current)
		case hadBase && !inFile: // the file removed it
		case inFile && (!hadBase || !settings.Equal(base, file)): // the file added it, or changed a removed service
			result[serviceType] = settings.Clone(file)
		case isInForce && !hadBase && !inFile:
			result[serviceType] = settings.Clone(current)
		}
	}
	return result
}

func mergeService(base, file, current config.Service) config.Service {
	merged := settings.Clone(current)
	mergeFields(reflect.ValueOf(&base).Elem(), reflect.ValueOf(&file).Elem(), reflect.ValueOf(&merged).Elem())
	merged.Instances = mergeInstances(base.Instances, file.Instances, current.Instances)
	return merged
}

// Managed is Services for the sections in force that management has changed. The arguments
// before and after have all sections of the file.
func Managed(before, after, inForce config.Managed) config.Managed {
	result := settings.Clone(inForce)
	before, after = settings.Clone(before), settings.Clone(after)
	for name, section := range result {
		mergeFields(reflect.ValueOf(before[name]).Elem(), reflect.ValueOf(after[name]).Elem(),
			reflect.ValueOf(section).Elem())
	}
	return result
}

// mergeFields puts the settings that differ between base and file into a struct,
// one by one. Instances and headers are left to their own functions; any other
// list or mapping is one setting, but for a mapping of groups.
func mergeFields(base, file, into reflect.Value) {
	for i := range into.NumField() {
		b, f, to := base.Field(i), file.Field(i), into.Field(i)
		switch {
		case to.Type() == reflect.TypeFor[[]backend.Settings]() ||
			to.Type() == reflect.TypeFor[map[string]backend.Secret]():
		case isGroup(to.Type()):
			mergeFields(b, f, to)
		case to.Kind() == reflect.Map && isGroup(to.Type().Elem()):
			mergeGroups(b, f, to)
		case !settings.Equal(b.Interface(), f.Interface()):
			to.Set(f)
		}
	}
}

// mergeGroups is mergeFields for a mapping of groups.
func mergeGroups(base, file, into reflect.Value) {
	for key := range base.Seq() {
		if !file.MapIndex(key).IsValid() && into.Len() > 0 {
			into.SetMapIndex(key, reflect.Value{})
		}
	}
	for key, after := range file.Seq2() {
		before, current := base.MapIndex(key), into.MapIndex(key)
		if before.IsValid() && settings.Equal(before.Interface(), after.Interface()) {
			continue
		}
		merged := reflect.New(after.Type()).Elem()
		merged.Set(after)
		if before.IsValid() && current.IsValid() {
			merged.Set(current)
			mergeFields(before, after, merged)
		}
		if into.IsNil() {
			into.Set(reflect.MakeMap(into.Type()))
		}
		into.SetMapIndex(key, merged)
	}
}

// isGroup reports whether a type is a group of settings, and not a single setting that
// happens to be a struct.
func isGroup(typ reflect.Type) bool {
	if typ.Kind() != reflect.Struct {
		return false
	}
	for field := range typ.Fields() {
		if !field.IsExported() {
			return false
		}
	}
	return true
}

func mergeInstances(base, file, current []backend.Settings) []backend.Settings {
	inBase, inFile, inForce := byID(base), byID(file), byID(current)
	var kept, added []backend.Settings // in the order of the configuration in force, and of the file
	for _, instance := range current {
		id := instance.ID()
		before, hadBase := inBase[id]
		after, isInFile := inFile[id]
		switch {
		case hadBase && isInFile:
			kept = append(kept, mergeInstance(before, after, instance))
		case isInFile: // both sides added it
			kept = append(kept, settings.Clone(after))
		case !hadBase:
			kept = append(kept, settings.Clone(instance))
		}
	}
	for _, instance := range file {
		id := instance.ID()
		if _, there := inForce[id]; there {
			continue
		}
		if before, hadBase := inBase[id]; !hadBase || !settings.Equal(before, instance) {
			added = append(added, settings.Clone(instance))
		}
	}
	return orderInstances(base, file, kept, added)
}

// orderInstances orders instances as in force, unless the edit of the file changed the
// order there. An instance that the other side added keeps its predecessor.
func orderInstances(base, file, kept, added []backend.Settings) []backend.Settings {
	inBase, inFile := byID(base), byID(file)
	shared := func(list []backend.Settings) []string {
		var ids []string
		for _, instance := range list {
			_, before := inBase[instance.ID()]
			_, after := inFile[instance.ID()]
			if before && after {
				ids = append(ids, instance.ID())
			}
		}
		return ids
	}
	if slices.Equal(shared(base), shared(file)) {
		return insertInstances(kept, file, added)
	}
	all := byID(append(slices.Clone(kept), added...))
	var sorted, own []backend.Settings
	for _, instance := range file {
		if merged, there := all[instance.ID()]; there {
			sorted = append(sorted, merged)
		}
	}
	for _, instance := range kept {
		if _, there := inFile[instance.ID()]; !there {
			own = append(own, instance)
		}
	}
	return insertInstances(sorted, kept, own)
}

// insertInstances adds instances to a list, each behind the nearest one that precedes it
// in the list that it comes from.
func insertInstances(into, from, added []backend.Settings) []backend.Settings {
	position := func(id string) int {
		return slices.IndexFunc(into, func(s backend.Settings) bool { return s.ID() == id })
	}
	isAdded := byID(added)
	at := 0
	for _, instance := range from {
		id := instance.ID()
		if own, is := isAdded[id]; is {
			into = slices.Insert(into, at, own)
			at++
		} else if n := position(id); n >= 0 {
			at = n + 1
		}
	}
	return into
}

func mergeInstance(base, file, current backend.Settings) backend.Settings {
	merged := settings.Clone(current)
	mergeFields(reflect.ValueOf(&base).Elem(), reflect.ValueOf(&file).Elem(), reflect.ValueOf(&merged).Elem())
	merged.Headers = mergeHeaders(base.Headers, file.Headers, merged.Headers)
	return merged
}

// mergeHeaders is Services for headers. Their names ignore case.
func mergeHeaders(base, file, current map[string]backend.Secret) map[string]backend.Secret {
	merged := make(map[string]backend.Secret, len(current))
	drop := func(name string) {
		for other := range merged {
			if strings.EqualFold(name, other) {
				delete(merged, other)
			}
		}
	}
	for name, value := range current {
		merged[name] = value
	}
	for name := range base {
		if _, stays := file[name]; !stays {
			drop(name)
		}
	}
	for name, value := range file {
		if before, had := base[name]; !had || before != value {
			drop(name)
			merged[name] = value
		}
	}
	if len(merged) == 0 && current == nil {
		return nil
	}
	return merged
}

func byID(instances []backend.Settings) map[string]backend.Settings {
	ids := make(map[string]backend.Settings, len(instances))
	for _, instance := range instances {
		ids[instance.ID()] = instance
	}
	return ids
}
