package access

import (
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Grant is what one API key allows, compiled from its settings when they change. It is
// immutable. A nil Grant, that of a caller who needs no key, allows everything.
type Grant struct {
	Key
	expires time.Time // zero means never
	scopes  []scope   // the request must be within all of them
}

// scope is a set of models of service types.
type scope struct {
	services [schema.ServiceTypeCount]bool
	models   []pattern // empty means all
}

// newGrant compiles a key, which was checked.
func newGrant(key Key) *Grant {
	expires, _ := time.Parse(time.RFC3339, key.ExpiresAt) // the settings were checked
	g := &Grant{Key: key, expires: expires}
	if len(key.Services)+len(key.Models) > 0 {
		g.scopes = append(g.scopes, newScope(key.Services, key.Models))
	}
	return g
}

func newScope(services []schema.ServiceType, models []string) scope {
	var s scope
	for service := range s.services {
		s.services[service] = len(services) == 0 || slices.Contains(services, schema.ServiceType(service))
	}
	for _, model := range models {
		s.models = append(s.models, newPattern(model))
	}
	return s
}

func (s *scope) includes(service schema.ServiceType, model string) bool {
	return s.services[service] &&
		(len(s.models) == 0 || slices.ContainsFunc(s.models, func(p pattern) bool { return p.matches(model) }))
}

// MayUse reports whether the key is good for a model of a service type.
func (g *Grant) MayUse(service schema.ServiceType, model string) bool {
	if g == nil {
		return true
	}
	for i := range g.scopes {
		if !g.scopes[i].includes(service, model) {
			return false
		}
	}
	return true
}

// RefuseModel returns an error unless the key is good for a model of a service type.
func (g *Grant) RefuseModel(service schema.ServiceType, model []byte) *schema.Error {
	if g == nil || len(g.scopes) == 0 || g.MayUse(service, string(model)) {
		return nil
	}
	return schema.NewError(schema.CodePermissionDenied, "This API key may not use this model.")
}

func (g *Grant) expired(now time.Time) bool { return !g.expires.IsZero() && now.After(g.expires) }
