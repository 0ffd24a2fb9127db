package backend

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
)

// Discover is the word that means all models of a backend.
const Discover = "discover"

// Models say which of a backend's own models an instance serves, in place of one name:
// the word discover for all, or patterns such as qwen*. The list is read from the
// backend.
type Models []string

// OneOrMore allows a single word in place of a list.
func (Models) OneOrMore() {}

// Given reports whether the instance serves models that are found.
func (m Models) Given() bool { return len(m) > 0 }

// Include reports whether the instance serves a model.
func (m Models) Include(model string) bool {
	return slices.ContainsFunc(m, func(pattern string) bool {
		return pattern == Discover || naming.NewPattern(pattern).Matches(model)
	})
}

// check reports the patterns that could not be used.
func (m Models) check(report say.Report) {
	for i, pattern := range m {
		at := fmt.Sprintf("models[%d]", i)
		switch {
		case pattern == "":
			report(at, say.New("field.empty"))
		case strings.TrimSpace(pattern) != pattern || strings.ContainsFunc(pattern, unicode.IsControl):
			report(at, say.New("field.spaces_or_control"))
		case len(pattern) > maxNameLength:
			report(at, say.New("field.bytes", "most", maxNameLength))
		case pattern == Discover && len(m) > 1:
			report(at, say.New("field.pattern_all"))
		}
	}
}

// Found returns the settings of the instance that serves one of the models that were
// found.
func (s Settings) Found(model string) Settings {
	found := settings.Clone(s)
	found.Name, found.Models = model, nil
	if s.Models.Given() && s.Name != "" {
		found.Name, found.UpstreamModel = strings.Replace(s.Name, "*", model, 1), model
	}
	return found
}

// Finds reports whether a model that the instance may find has the name.
func (s Settings) Finds(name string) bool {
	before, after, _ := strings.Cut(s.Name, "*")
	return len(name) > len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after) &&
		s.Models.Include(name[len(before):len(name)-len(after)])
}

// ModelsOf are the models that a list of instances is named after, or that they may find.
type ModelsOf []Settings

// Has reports whether an instance serves the model, or may find it.
func (m ModelsOf) Has(model string) bool {
	return slices.ContainsFunc(m, func(s Settings) bool { return s.Finds(model) || s.Name == model })
}

// Names returns the models that instances are named after, sorted.
func (m ModelsOf) Names() []string {
	var names []string
	for i := range m {
		if m[i].Name != "" && !m[i].Models.Given() {
			names = append(names, m[i].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
