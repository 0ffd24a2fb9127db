// Package naming decides which model serves a name that callers ask for, and which ones
// take over from it.
package naming

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// maxLength is how long the name of a model may be.
const maxLength = 256

// Aliases are further names of models: the name that callers ask for, and its model, or
// another alias. One with a * on the left is a pattern: the text matched by it replaces the * on the
// right, if there is one.
type Aliases map[string]string

// ModelOf returns the model of a name, which is the name itself unless it is an alias. It
// returns an empty name where aliases lead back to the name. It knows no patterns: the
// present models decide whether one applies.
func (a Aliases) ModelOf(name string) string {
	for range len(a) + 1 {
		target, isAlias := a[name]
		if !isAlias {
			return name
		}
		name = target
	}
	return ""
}

// Rewrites are the patterns of aliases, the longest first.
type Rewrites []rewrite

type rewrite struct{ before, after, target string }

// Rewrites returns the patterns among the aliases.
func (a Aliases) Rewrites() Rewrites {
	var list Rewrites
	for alias, target := range a {
		if before, after, isPattern := strings.Cut(alias, star); isPattern {
			list = append(list, rewrite{before, after, target})
		}
	}
	slices.SortFunc(list, func(x, y rewrite) int {
		return cmp.Or(len(y.before)+len(y.after)-len(x.before)-len(x.after), strings.Compare(x.before, y.before))
	})
	return list
}

// Apply returns the name that the longest pattern makes of a name, or an empty one where none
// matches.
func (r Rewrites) Apply(name string) string {
	for _, p := range r {
		if len(name) > len(p.before)+len(p.after) && strings.HasPrefix(name, p.before) &&
			strings.HasSuffix(name, p.after) {
			return strings.Replace(p.target, star, name[len(p.before):len(name)-len(p.after)], 1)
		}
	}
	return ""
}

// star matches any text in a pattern.
const star = "*"

// Models are the models that a service type has.
type Models interface {
	// Has reports whether instances serve the model, or may serve it.
	Has(model string) bool
	// Names returns the models that are known, for suggestions.
	Names() []string
}

// Check reports the aliases that could not be used as they are written. The paths begin
// below the setting.
func (a Aliases) Check(models Models, report say.Report) {
	written := models.Names()
	for _, alias := range slices.Sorted(maps.Keys(a)) {
		path, target := key(alias), a[alias]
		switch model := a.ModelOf(alias); {
		case Fault(alias).Is():
			report(path, say.New("field.alias_fault", "fault", Fault(alias)))
		case slices.Contains(written, alias):
			report(path, say.New("field.alias_model"))
		case Fault(target).Is():
			report(path, say.New("field.model_fault", "fault", Fault(target)))
		case model == "":
			report(path, say.New("field.alias_loop"))
		case patternFault(alias, target).Is():
			report(path, patternFault(alias, target))
		case !strings.Contains(target, star) && !models.Has(model):
			report(path, noInstance(model, written))
		}
	}
}

// patternFault returns why the stars of an alias cannot be used, and nothing if they can be. The
// models that a * on the right stands for need not be there: they may be found later.
func patternFault(alias, target string) say.Sentence {
	switch {
	case strings.Count(alias, star) > 1 || strings.Count(target, star) > strings.Count(alias, star):
		return say.New("field.alias_stars")
	case alias == star:
		return say.New("field.alias_all")
	}
	return say.Sentence{}
}

func key(name string) string { return "[" + strconv.Quote(name) + "]" }

func noInstance(model string, written []string) say.Sentence {
	if near := schema.Nearest(model, written, 1); len(near) > 0 {
		return say.New("field.no_such_model_near", "model", model, "near", near[0])
	}
	return say.New("field.no_such_model", "model", model)
}

// Fault says why a text cannot be the name of a model, as the rest of a sentence. It says
// nothing about a name that can be.
func Fault(name string) say.Sentence {
	switch {
	case name == "":
		return say.New("field.empty")
	case strings.TrimSpace(name) != name:
		return say.New("field.spaces")
	case strings.ContainsFunc(name, unicode.IsControl):
		return say.New("field.control")
	case len(name) > maxLength:
		return say.New("field.bytes", "most", maxLength)
	}
	return say.Sentence{}
}
