package vouch

import (
	"maps"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config/references"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Trust knows the instances that holders of the master key have chosen, in signed
// versions and in the configuration file. The zero value knows none.
type Trust struct{ routes map[string]*known }

// known has the references and headers of the instances that share one route.
type known struct {
	// references and headers have the setting and its text.
	references, headers map[string]bool
}

// Add makes the instances of services known, unless they are in doubt.
func (t *Trust) Add(services Services) {
	if t.routes == nil {
		t.routes = map[string]*known{}
	}
	each(services, func(_ schema.ServiceType, s *backend.Settings) {
		if s.Doubt != "" {
			return
		}
		at := t.routes[s.Route()]
		if at == nil {
			at = &known{references: map[string]bool{}, headers: map[string]bool{}}
			t.routes[s.Route()] = at
		}
		eachSecret(s, func(setting string, secret backend.Secret) {
			if secret.IsReference() {
				at.references[setting+secret.Reveal()] = true
			} else {
				at.headers[setting+secret.Reveal()] = true
			}
		})
	})
}

// has reports whether an instance may send its secrets: its route is known, its
// references are known there, and so are its headers that are stored without encryption,
// because one of these could lead a backend to pass on the secrets.
func (t *Trust) has(s, stored *backend.Settings) bool {
	at := t.routes[s.Route()]
	if at == nil {
		return false
	}
	plain := stored.PlainHeaders()
	has := true
	eachSecret(s, func(setting string, secret backend.Secret) {
		name, isHeader := strings.CutPrefix(strings.TrimSuffix(setting, "\x00"), "headers/")
		switch {
		case secret.IsReference():
			has = has && at.references[setting+secret.Reveal()]
		case isHeader && slices.Contains(plain, name):
			has = has && at.headers[setting+secret.Reveal()]
		}
	})
	return has
}

// eachSecret calls a function with every secret of an instance, and with its setting.
func eachSecret(s *backend.Settings, visit func(setting string, secret backend.Secret)) {
	prefix := "/" + s.ID() + "/"
	s.EachSecret("", func(at string, secret backend.Secret) {
		visit(strings.TrimPrefix(at, prefix)+"\x00", secret)
	})
}

// Judge returns the services of a version that is not signed with the doubts about its
// instances. Stored are the services as they are stored, in the same order. More makes further instances
// known, and returns false when there are no more; it is called as long as there are
// doubts.
func (t *Trust) Judge(services, stored Services, more func(*Trust) bool) Services {
	for {
		judged, hasDoubts := t.judge(services, stored)
		if !hasDoubts || !more(t) {
			return judged
		}
	}
}

func (t *Trust) judge(services, stored Services) (judged Services, hasDoubts bool) {
	// By their places: instances of a version that was not checked may have the same id.
	next := map[schema.ServiceType]int{}
	judged, _ = mapInstances(services, func(serviceType schema.ServiceType,
		s backend.Settings) (backend.Settings, error) {
		is := &stored[serviceType].Instances[next[serviceType]]
		next[serviceType]++
		switch {
		case t.has(&s, is):
			s.Doubt = ""
		case is.Entrusts():
			s.Doubt = backend.DoubtForeign
		default:
			s.Doubt = backend.DoubtBare
		}
		hasDoubts = hasDoubts || s.Doubt != ""
		return s, nil
	})
	return judged, hasDoubts
}

// Lift returns the services of a signed version without the doubts that have ended: about
// instances that are known meanwhile and, for DoubtFound, about instances that refer to
// listed names only. The doubt about an unsigned backup stays. More is the argument of Judge.
func (t *Trust) Lift(services Services, listed []string, more func(*Trust) bool) Services {
	for {
		hasDoubts := false
		lifted, _ := mapInstances(services, func(_ schema.ServiceType, s backend.Settings) (backend.Settings, error) {
			isKnown := t.has(&s, &s) || s.Doubt == backend.DoubtFound && refersTo(&s, listed)
			if isKnown && s.Doubt != backend.DoubtRestored {
				s.Doubt = ""
			}
			hasDoubts = hasDoubts || s.Doubt != ""
			return s, nil
		})
		if !hasDoubts || !more(t) {
			return lifted
		}
	}
}

// Entrusted returns services with new doubts for doubtful instances that have got secrets
// they did not have before: an instance in doubt may keep its secrets and gets no others.
func Entrusted(services, before Services) Services {
	had := map[string]*backend.Settings{}
	each(before, func(serviceType schema.ServiceType, s *backend.Settings) { had[keyOf(serviceType, s)] = s })
	entrusted, _ := mapInstances(services, func(serviceType schema.ServiceType,
		s backend.Settings) (backend.Settings, error) {
		if is := had[keyOf(serviceType, &s)]; s.Doubt == backend.DoubtBare &&
			(is == nil || s.APIKey != is.APIKey || s.Proxy != is.Proxy ||
				s.ForwardAuthorization != is.ForwardAuthorization || !maps.Equal(s.Headers, is.Headers)) {
			s.Doubt = backend.DoubtForeign
		}
		return s, nil
	})
	return entrusted
}

// Find returns the services of a version that was stored before versions were signed,
// with doubts about instances that refer to secrets in an unknown way.
func (t *Trust) Find(services Services) Services {
	found, _ := mapInstances(services, func(_ schema.ServiceType, s backend.Settings) (backend.Settings, error) {
		if len(s.References()) > 0 && !t.has(&s, &s) {
			s.Doubt = backend.DoubtFound
		}
		return s, nil
	})
	return found
}

// refersTo reports whether an instance refers to these names only.
func refersTo(s *backend.Settings, names []string) bool {
	for _, written := range s.References() {
		for _, name := range references.Names(written) {
			if !slices.Contains(names, name) {
				return false
			}
		}
	}
	return true
}
