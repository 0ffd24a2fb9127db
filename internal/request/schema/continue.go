package schema

import (
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// Continuation is the beginning of an answer. A model is to go on with it.
type Continuation struct {
	Text chat.Text
	// Most is how many tokens the rest may have; 0 means that nothing is said.
	Most int64

	asked *chat.Request // nil for a request that is no chat
}

// Continue gives a request the beginning of its answer, and the model is to go on with it:
// it is the last message that Chat returns. The rest may have so many tokens, or any number
// for 0. An empty text takes the beginning away.
func (r *Request) Continue(text []byte, most int64) error {
	r.begun = nil
	if len(text) == 0 {
		return nil
	}
	begun := &Continuation{Text: chat.Escape(text), Most: most}
	if r.Door != DoorCompletions {
		asked, err := r.Chat()
		if err != nil {
			return err
		}
		begun.asked = withBeginning(asked, begun)
	}
	r.begun = begun
	return nil
}

// Continuation returns the beginning of the answer, nil if the request has none.
func (r *Request) Continuation() *Continuation { return r.begun }

// withBeginning returns a request that ends with the beginning of its answer.
func withBeginning(asked *chat.Request, begun *Continuation) *chat.Request {
	longer := *asked
	longer.Messages = append(slices.Clip(slices.Clone(asked.Messages)), chat.Said(chat.Assistant, begun.Text))
	if begun.Most > 0 {
		var number jsonscan.Document
		if number.Parse(strconv.AppendInt(nil, begun.Most, 10)) == nil {
			longer.MaxTokens = number.Root()
		}
	}
	return &longer
}
