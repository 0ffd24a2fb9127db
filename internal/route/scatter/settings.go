// Package scatter decides how one request is split over several instances, and joins their
// answers: which requests can be split, how much work each of their inputs is, how many of
// them each instance gets, and how the one answer looks. It calls nobody: package proxy
// does.
package scatter

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Settings say which requests are split. The zero value splits none.
type Settings struct {
	// MaxSplit is how many instances may share one request; 0 and 1 split none.
	MaxSplit int `json:"maxSplit,omitzero" minimum:"0" maximum:"64"`
	// MinInputs and MinTokens are the least that an instance gets; 0 means the defaults.
	MinInputs int `json:"minInputs,omitzero" minimum:"0" maximum:"1000000"`
	MinTokens int `json:"minTokens,omitzero" minimum:"0" maximum:"1000000000"`
}

// Docs describes the members that a tag has no room for.
func (Settings) Docs() map[string]string {
	return map[string]string{ //nolint:gosec // tokens of text are no credentials
		"maxSplit":  "How many instances may share one request; 0 splits none.",
		"minInputs": "How many inputs, documents or prompts an instance gets at least; 0 means 16.",
		"minTokens": "How many tokens an instance gets at least, by an estimate; 0 means 512.",
	}
}

const (
	mostSplit  = 64
	mostInputs = 1_000_000
	mostTokens = 1_000_000_000

	// A call costs milliseconds of its own, which a smaller piece would not save.
	defaultMinInputs = 16
	defaultMinTokens = 512
)

// On reports whether requests are split.
func (s Settings) On() bool { return s.MaxSplit > 1 }

// Check reports every setting that has a value it may not have.
func (s Settings) Check(service schema.ServiceType, report say.Report) {
	switch {
	case s.MaxSplit < 0 || s.MaxSplit > mostSplit:
		report("maxSplit", say.New("field.range", "least", "0", "most", "64"))
	case s.On() && !Splits(service):
		report("maxSplit", say.New("field.split_services"))
	}
	if s.MinInputs < 0 || s.MinInputs > mostInputs {
		report("minInputs", say.New("field.range", "least", "0", "most", "1000000"))
	}
	if s.MinTokens < 0 || s.MinTokens > mostTokens {
		report("minTokens", say.New("field.range", "least", "0", "most", "1000000000"))
	}
}

// Splits reports whether a service type has requests that can be split.
func Splits(service schema.ServiceType) bool {
	return service == schema.Embedding || service == schema.Rerank || service == schema.Chat
}

// leastInputs and leastTokens return the least that an instance gets.
func (s Settings) leastInputs() int {
	if s.MinInputs == 0 {
		return defaultMinInputs
	}
	return s.MinInputs
}

func (s Settings) leastTokens() int64 {
	if s.MinTokens == 0 {
		return defaultMinTokens
	}
	return int64(s.MinTokens)
}
