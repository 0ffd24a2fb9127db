package dialect

import (
	"net/http"
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

// ErrorPattern is a text of backends of a kind. It means that a request is at fault,
// that they are busy, or that they end, under a status that says none of these.
type ErrorPattern struct {
	// Status is the status that gives the text its meaning; 0 means any 5xx and an
	// error inside a successful answer.
	Status int
	// Text is a part of the message, in lower case.
	Text  string
	Means Meaning
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
	for _, list := range k.ErrorPatterns {
		for i := range list {
			c := &list[i]
			if (c.Status == 0 || c.Status == f.Status) && strings.Contains(words, c.Text) {
				return c.Means
			}
		}
	}
	return BackendFault
}
