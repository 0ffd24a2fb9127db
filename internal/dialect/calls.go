package dialect

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
)

// Calls are the tool calls of a choice whose pieces are put together, for dialects that have calls whole.
type Calls []chat.ToolCall

// mostWhole is how many calls may be put together. They are looked up one by one.
const mostWhole = 1000

// Add adds a piece of a call to its earlier pieces. The bytes of all calls of an answer are counted in
// total.
func (c *Calls) Add(piece *chat.ToolCall, total *int) error {
	if *total += len(piece.Arguments); *total > MaxEvent {
		return Invalid("its tool calls are too long")
	}
	for i := len(*c) - 1; i >= 0; i-- {
		if call := &(*c)[i]; call.Index == piece.Index {
			call.Arguments = append(call.Arguments, piece.Arguments...)
			return nil
		}
	}
	if len(*c) == mostWhole {
		return ErrTooManyCalls
	}
	*c = append(*c, chat.ToolCall{
		Index: piece.Index, ID: bytes.Clone(piece.ID), Name: bytes.Clone(piece.Name),
		Arguments: bytes.Clone(piece.Arguments), Extra: bytes.Clone(piece.Extra),
	})
	return nil
}
