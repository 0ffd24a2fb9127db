package routing

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/naming"
)

// Fallback is a model that takes over from another one: its name as it is written, and
// the model with that name.
type Fallback struct{ Name, Model string }

func (s *Service) listFallbacks() {
	if len(s.Policy.FallbackOn) == 0 {
		return
	}
	s.fallbacks = make(map[string][]Fallback, len(s.Policy.Fallbacks))
	for name, list := range s.Policy.Fallbacks {
		model := s.modelOf(name)
		for _, next := range list {
			to := Fallback{next, s.Policy.Aliases.ModelOf(next)}
			if s.IsRewritten(next) {
				to.Model = s.modelOf(next)
				to.Name = to.Model // who may use the name need not be allowed the model
			}
			s.fallbacks[model] = append(s.fallbacks[model], to)
		}
		if pool := s.byModel[model]; pool != nil {
			pool.HasFallbacks = true
		}
	}
	for _, reason := range s.Policy.FallbackOn {
		s.fallsBackOn[reason] = true
	}
}

// Fallbacks returns the models that take over from the model with a name, for a reason.
func (s *Service) Fallbacks(name string, why naming.Reason) []Fallback {
	if s == nil || !s.fallsBackOn[why] {
		return nil
	}
	return s.Takeovers(name)
}

// Serves reports whether the model, or a fallback of a model that is unavailable, is present.
func (s *Service) Serves(model []byte) bool {
	return s.FindBytes(model) != nil ||
		slices.ContainsFunc(s.Fallbacks(string(model), naming.Unavailable),
			func(to Fallback) bool { return s.Find(to.Model) != nil })
}

// Takeovers returns the models that take over from the model with a name, for whichever
// reasons are in force; a nil Service has none.
func (s *Service) Takeovers(name string) []Fallback {
	if s == nil || len(s.fallbacks) == 0 {
		return nil
	}
	return s.fallbacks[s.modelOf(name)]
}

// modelOf returns the model that a name refers to, whether or not it is there now.
func (s *Service) modelOf(name string) string {
	model := s.Policy.Aliases.ModelOf(name)
	if pool := s.findExact(model); pool != nil {
		return pool.Model
	}
	rewritten := s.rewrites.Apply(model)
	if rewritten == "" {
		return model
	}
	if pool := s.findRewritten(model); pool != nil {
		return pool.Model
	}
	return s.Policy.Aliases.ModelOf(rewritten)
}
