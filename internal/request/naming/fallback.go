package naming

import (
	"fmt"
	"maps"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// maxFallbacks is how many models may take over from one.
const maxFallbacks = 10

// Fallbacks are the models that take over from a model that cannot serve a request, in
// the order of the attempts.
type Fallbacks map[string][]string

// Check reports the fallbacks that could not be used as they are written. The paths
// begin below the setting.
func (f Fallbacks) Check(aliases Aliases, models Models, report say.Report) {
	written := models.Names()
	fault := func(name string) say.Sentence {
		if why := Fault(name); why.Is() {
			return say.New("field.model_fault", "fault", why)
		}
		if model := aliases.ModelOf(name); model != "" && !models.Has(model) {
			return noInstance(model, written)
		}
		return say.Sentence{}
	}
	first := make(map[string]string, len(f))
	for _, name := range slices.Sorted(maps.Keys(f)) {
		path, list, model := key(name), f[name], aliases.ModelOf(name)
		switch wrong := fault(name); {
		case wrong.Is():
			report(path, wrong)
			continue
		case first[model] != "":
			report(path, say.New("field.fallback_same", "other", first[model]))
		case len(list) == 0:
			report(path, say.New("field.empty"))
		case len(list) > maxFallbacks:
			report(path, say.New("field.models", "most", maxFallbacks))
		}
		first[model] = name
		seen := map[string]bool{}
		for i, next := range list {
			at, target := fmt.Sprintf("%s[%d]", path, i), aliases.ModelOf(next)
			switch wrong := fault(next); {
			case wrong.Is():
				report(at, wrong)
			case target == model:
				report(at, say.New("field.fallback_self"))
			case seen[target]:
				report(at, say.New("field.fallback_twice"))
			}
			seen[target] = true
		}
	}
}

// Reason is why a model cannot serve a request. A fallback may serve it then.
type Reason = schema.Choice[reason]

type reason struct{}

func (reason) Names() []string { return []string{"unavailable", "overloaded", "context"} }

// The reasons.
const (
	// Unavailable means that no instance is there: all are down, disabled or open, or
	// the last one that was tried failed in a way that another one may not.
	Unavailable Reason = iota
	// Overloaded means that all slots are taken or all instances at their limits, or
	// that the last one that was tried said that it has too much to do.
	Overloaded
	// Context means that the request is too long for the model.
	Context

	// ReasonCount sizes arrays that are indexed by Reason.
	ReasonCount = int(Context) + 1
)

// Reasons returns all reasons.
func Reasons() []Reason { return []Reason{Unavailable, Overloaded, Context} }
