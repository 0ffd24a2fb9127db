package dialect

import (
	"net/http"
	"slices"
	"strings"
)

// Meaning classifies a failure that a backend reports.
type Meaning uint8

// The meanings. The zero value is the meaning of a 5xx, and of an error inside an
// answer that began as a success, unless an ErrorPattern matches.
const (
	// BackendFault means that the backend failed; another one may do better.
	BackendFault Meaning = iota
	// RequestFault means that the request cannot be served as it is, whichever
	// backend of the kind gets it.
	RequestFault
	// Overload means that the backend works but is too busy.
	Overload
	// EngineDeath means that the backend's engine has ended, and the backend with it.
	EngineDeath
)

// ErrorPatterns are texts of backends of a kind, each a part of a message, in lower case. They mean that a
// request is at fault, that the backends are busy, or that they end, under a status that says none of
// these.
type ErrorPatterns struct {
	// Faults and Deaths mean RequestFault and EngineDeath under any 5xx and in an error inside a
	// successful answer, and Overloads means Overload under 503.
	Faults, Deaths, Overloads []string
}

// maxSearched is how many bytes of a message are searched for patterns.
const maxSearched = 4 << 10

// Meaning classifies a failure that a backend of this kind reports. Patterns apply
// only to failures that would otherwise be a fault of the backend.
func (k *Kind) Meaning(f *Failure) Meaning {
	if f.Status != http.StatusOK && f.Status < 500 {
		return BackendFault
	}
	words := strings.ToLower(f.Message[:min(len(f.Message), maxSearched)])
	isIn := func(text string) bool { return strings.Contains(words, text) }
	for _, patterns := range k.ErrorPatterns {
		switch {
		case slices.ContainsFunc(patterns.Faults, isIn):
			return RequestFault
		case slices.ContainsFunc(patterns.Deaths, isIn):
			return EngineDeath
		case f.Status == http.StatusServiceUnavailable && slices.ContainsFunc(patterns.Overloads, isIn):
			return Overload
		}
	}
	return BackendFault
}
