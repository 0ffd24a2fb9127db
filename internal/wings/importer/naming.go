package importer

import (
	"maps"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
)

// discovers writes which models the instance discovers.
func (i instance) discovers() string {
	if slices.Contains(i.models, backend.Discover) {
		return backend.Discover
	}
	return list(i.models)
}

// finds reports whether the instance may discover a model that is called so.
func (i instance) finds(name string) bool {
	settings := backend.Settings{Name: i.name, Models: i.models}
	if i.name == discovered {
		settings.Name = ""
	}
	return settings.Finds(name)
}

// nameModels lets callers go on with the names that they use: what the source has before the
// names of a provider's models becomes an alias. Where another provider may have a model of the
// same name, it becomes a part of the names, and requests go nowhere else.
func (d *draft) nameModels() {
	for _, serviceType := range slices.Sorted(maps.Keys(d.services)) {
		s := d.services[serviceType]
		for n := range s.instances {
			s.nameDiscovered(serviceType, &s.instances[n])
		}
		for n := range s.instances {
			d.nameWritten(s, &s.instances[n])
		}
	}
}

// nameDiscovered names the models that an instance discovers.
func (s *service) nameDiscovered(serviceType schema.ServiceType, i *instance) {
	o := i.origin
	if len(i.models) == 0 || o.prefix == "" {
		return
	}
	pattern := "*"
	if i.models[0] != backend.Discover {
		pattern = i.models[0]
	}
	isMistaken := s.mayMistake(*i)
	if isMistaken && slices.Contains(o.asked, "*") && len(o.families) == 0 {
		return // their names have no other form
	}
	target := pattern
	if isMistaken {
		i.name, target = o.prefix+"*", o.prefix+pattern
	}
	for _, asked := range o.asked {
		s.alias(asked, target)
	}
	if !isMistaken {
		return
	}
	for _, family := range o.families {
		if discover.GuessService(strings.TrimRight(family, "*")) == serviceType {
			s.alias(family, o.prefix+family)
		}
	}
}

// mayList reports whether the backend of the instance may have a model that is called so.
func (i instance) mayList(name string) bool {
	return len(i.origin.families) == 0 || slices.ContainsFunc(i.origin.families, func(family string) bool {
		return family == name || naming.NewPattern(family).Matches(name)
	})
}

// mayMistake reports whether a model that the instance discovers may have the name of another
// provider's model. A provider without known families may have any.
func (s *service) mayMistake(i instance) bool {
	return slices.ContainsFunc(s.instances, func(other instance) bool {
		switch {
		case other.origin.prefix == i.origin.prefix && other.origin.prefix != "":
			return false
		case len(other.models) == 0:
			return !samePlace(other.baseURL, i.baseURL) && i.mayList(other.name)
		}
		// Another one without families gets names of its own, unless callers use the bare ones.
		return len(i.origin.families) == 0 ||
			len(other.origin.families) == 0 && slices.Contains(other.origin.asked, "*")
	})
}

// nameWritten gives a model that is written down the name with its provider. Where several
// providers have the model, the name with the provider is an instance of its own, and the bare
// name is served by all of them.
func (d *draft) nameWritten(s *service, i *instance) {
	o := i.origin
	if len(i.models) > 0 || o.prefix == "" {
		return
	}
	isShared, isAmongFound := false, false
	for _, other := range s.instances {
		isShared = isShared || len(other.models) == 0 && other.origin.prefix != o.prefix && other.name == i.name
		isAmongFound = isAmongFound || other.origin.prefix == o.prefix && other.name == o.prefix+"*"
	}
	if !isShared && !isAmongFound {
		s.alias(o.prefix+"*", "*")
		return
	}
	own := *i
	own.name = o.prefix + i.name
	if own.upstreamModel == "" {
		own.upstreamModel = i.name
	}
	own.origin.prefix = "" // it has its name
	if isShared {
		s.instances = append(s.instances, own)
		d.about("models " + i.name).Changed("several providers have it: the name without a provider before it goes " +
			"to any of them")
		return
	}
	bare := i.name
	*i = own
	s.alias(bare, own.name)
}

// alias adds an alias that leads somewhere else, once.
func (s *service) alias(name, model string) {
	written := quoted(name)
	isModel := slices.ContainsFunc(s.instances, func(i instance) bool { return i.name == name })
	if name == model || name == "*" || isModel || slices.ContainsFunc(s.aliases, func(other [2]string) bool {
		return other[0] == written
	}) {
		return
	}
	s.aliases = append(s.aliases, [2]string{written, quoted(model)})
}
