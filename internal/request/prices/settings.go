package prices

import (
	"fmt"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
)

// Settings are the prices of models.
type Settings struct {
	// Currency is a label; nothing is converted.
	Currency string  `json:"currency"`
	Models   []Model `json:"models"`
}

// Model is the price of all models with a name that matches a pattern.
type Model struct {
	// Model is a name; * in it matches any text.
	Model string `json:"model"`
	Price
}

// Price lists the prices of the parts of a request, and the sizes of the model. A part without a
// price costs nothing.
type Price struct {
	// Input, CachedInput, CacheWrite and Output are for a million tokens. Without CachedInput tokens
	// that were in the cache cost as much as others, and without CacheWrite those that are written to it.
	Input       Amount `json:"input,omitzero"`
	CachedInput Amount `json:"cachedInput,omitzero"`
	CacheWrite  Amount `json:"cacheWrite,omitzero"`
	Output      Amount `json:"output,omitzero"`
	// Image is for one image, Minute for a minute of sound, and Characters for a
	// thousand characters of text that is spoken.
	Image      Amount `json:"image,omitzero"`
	Minute     Amount `json:"minute,omitzero"`
	Characters Amount `json:"characters,omitzero"`
	// MaxInputTokens and MaxOutputTokens are the longest prompt and the longest answer, 0 if unknown.
	MaxInputTokens  int64 `json:"maxInputTokens,omitzero" minimum:"0"`
	MaxOutputTokens int64 `json:"maxOutputTokens,omitzero" minimum:"0"`
}

const (
	maxCurrency = 16
	maxModels   = 20_000
)

// DefaultSettings returns the settings of an empty configuration: nothing has a price.
func DefaultSettings() Settings { return Settings{Currency: "USD"} }

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	isOdd := func(r rune) bool { return r <= ' ' || r > '~' }
	if s.Currency == "" || len(s.Currency) > maxCurrency || strings.ContainsFunc(s.Currency, isOdd) {
		report("currency", say.Plain("want a short name such as USD"))
	}
	if len(s.Models) > maxModels {
		report("models", say.New("field.entries", "most", maxModels))
	}
	first := make(map[string]int, len(s.Models))
	for i, m := range s.Models {
		sizes := map[string]int64{"maxInputTokens": m.MaxInputTokens, "maxOutputTokens": m.MaxOutputTokens}
		for name, most := range sizes {
			if most < 0 {
				report(fmt.Sprintf("models[%d].%s", i, name), say.New("field.at_least", "least", "0", "found", most))
			}
		}
		at := fmt.Sprintf("models[%d].model", i)
		if m.Model == "" {
			report(at, say.New("field.required"))
			continue
		}
		if before, twice := first[m.Model]; twice {
			report(at, say.New("field.same_as", "other", fmt.Sprintf("models[%d]", before)))
		}
		first[m.Model] = i
	}
}

// List is compiled settings.
type List struct {
	Currency string
	exact    map[string]*Price
	patterns []priced
}

type priced struct {
	pattern naming.Pattern
	weight  int // how many characters are no stars
	price   *Price
}

// Compile makes a list of settings, which were checked.
func Compile(s Settings) *List {
	l := &List{Currency: s.Currency, exact: make(map[string]*Price, len(s.Models))}
	for i := range s.Models {
		m := s.Models[i]
		stars := strings.Count(m.Model, "*")
		if stars == 0 {
			l.exact[m.Model] = &m.Price
			continue
		}
		l.patterns = append(l.patterns, priced{naming.NewPattern(m.Model), len(m.Model) - stars, &m.Price})
	}
	slices.SortStableFunc(l.patterns, func(a, b priced) int { return b.weight - a.weight })
	return l
}

// Of returns the price of a model: the price of the first of its names that has one, else of the
// pattern which says most about one of them. It returns nil for a model without a price. It is
// called when a table of models is compiled, not for requests.
func (l *List) Of(names ...string) *Price {
	if l == nil {
		return nil
	}
	for _, name := range names {
		if price := l.exact[name]; price != nil {
			return price
		}
	}
	for i := range l.patterns {
		if slices.ContainsFunc(names, l.patterns[i].pattern.Matches) {
			return l.patterns[i].price
		}
	}
	return nil
}
