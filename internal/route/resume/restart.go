// Package resume decides how an answer that broke off goes on at another instance: which
// part of the new answer the client has already, and which part it gets. It knows neither
// instances nor dialects, only the deltas of answers.
package resume

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
)

// Restart returns the deltas of an answer for a client that got the beginning of
// another one, without any content: the opening of the answer is left out.
func Restart(from dialect.Deltas) dialect.Deltas { return &restarted{Deltas: from} }

// restarted are deltas without their beginning.
type restarted struct {
	dialect.Deltas
	begun bool // content has come, or the end
}

// Next implements dialect.Deltas.
func (r *restarted) Next() (*chat.Delta, error) {
	for {
		delta, err := r.Deltas.Next()
		if err != nil {
			return nil, err
		}
		for i := range delta.Choices {
			c := &delta.Choices[i]
			c.Begins = false
			r.begun = r.begun || c.HasContent() || c.Finish != ""
		}
		if r.begun {
			return delta, nil
		}
	}
}
