package dialect

import (
	"net/http"
	"strings"
)

// Meaning is what a failure that a backend reports says about the backend.
type Meaning uint8

// The meanings. The zero value is what a 5xx, and an error inside an answer that
// began as a success, mean unless the text of the error says something else.
const (
	// BackendFault means that the backend failed; another one may do better.
	BackendFault Meaning = iota
	// RequestFault means that the request cannot be served as it is, whichever
	// backend of the kind gets it.
	RequestFault
	// Overload means that the backend is well and has too much to do.
	Overload
)

// Complaint is a text by which backends of a kind tell that a request is at fault,
// or that they are busy, under a status that says neither.
type Complaint struct {
	// Status is the status under which the text has its meaning; 0 stands for any
	// 5xx and for an error inside a successful answer.
	Status int
	// Text is a part of the message, in lower case.
	Text  string
	Means Meaning
}

// maxWords is how much of a message is searched; backends come to the point.
const maxWords = 4 << 10

// Meaning returns what a failure that a backend of this kind reports says about the
// backend. Only what would otherwise be a fault of the backend is looked at.
func (k *Kind) Meaning(f *Failure) Meaning {
	if f.Status != http.StatusOK && f.Status < 500 {
		return BackendFault
	}
	words := strings.ToLower(f.Message[:min(len(f.Message), maxWords)])
	for _, list := range k.Complaints {
		for i := range list {
			c := &list[i]
			if (c.Status == 0 || c.Status == f.Status) && strings.Contains(words, c.Text) {
				return c.Means
			}
		}
	}
	return BackendFault
}
