package openai

import (
	"bytes"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// callNumbers gives the tool calls of a stream the numbers by which clients put their
// pieces together. Some backends give all calls of an answer the same number, as Ollama
// does where it imitates this dialect, and some give none: clients would make one call
// of several.
type callNumbers struct {
	calls []numberedCall
	delta jsonscan.Document
}

// numberedCall is a call of the stream.
type numberedCall struct {
	choice int64
	given  int64 // the number that the backend gives it, -1 if none
	number int64 // the number that the client gets
	id     []byte
}

var toolCallsName = []byte(`"tool_calls"`)

// mend adds the edits that a choice of a chunk needs, and reports whether it has pieces of
// calls.
func (n *callNumbers) mend(edits []jsonscan.Edit, choice jsonscan.Value) (mended []jsonscan.Edit, hasCalls bool) {
	delta := choice.Get("delta")
	if delta.Kind() != jsonscan.Object || !bytes.Contains(delta.Raw(), toolCallsName) {
		return edits, false
	}
	which, _ := choice.Get("index").Int()
	at, _ := delta.Span()
	n.delta.Deep = true
	for piece := dialect.Rescan(&n.delta, delta).Get("tool_calls").First(); piece.Kind() != jsonscan.Absent; piece = piece.Next() {
		hasCalls = true
		if piece.Kind() != jsonscan.Object {
			continue
		}
		index := piece.Get("index")
		given, isGiven := index.Int()
		if !isGiven {
			given = -1
		}
		number := n.numberOf(which, given, piece)
		if number == given {
			continue
		}
		edit := addMissingMember(nil, piece, index, strconv.AppendInt([]byte(`"index":`), number, 10))[0]
		edit.Start += at
		edit.End += at
		edits = append(edits, edit)
	}
	return edits, hasCalls
}

// numberOf returns the number of the call that a piece belongs to.
func (n *callNumbers) numberOf(choice, given int64, piece jsonscan.Value) int64 {
	id := piece.Get("id").Text()
	isNamed := len(piece.Get("function").Get("name").Text()) > 0
	next, isTaken := int64(0), false
	var last *numberedCall // of those with the same number
	for i := range n.calls {
		call := &n.calls[i]
		if call.choice != choice {
			continue
		}
		next = max(next, call.number+1)
		isTaken = isTaken || call.number == given
		if call.given != given {
			continue
		}
		if len(id) > 0 && bytes.Equal(id, call.id) {
			return call.number
		}
		last = call
	}
	if last != nil && !last.isFollowed(id, isNamed) {
		return last.number
	}
	number := given
	if given < 0 || isTaken {
		number = next
	}
	n.calls = append(n.calls, numberedCall{choice, given, number, bytes.Clone(id)})
	return number
}

// isFollowed reports whether a piece with the number of the call and another id begins the
// next one. With a number, it takes a name and ids that differ: some backends repeat the
// name with every piece.
func (c *numberedCall) isFollowed(id []byte, isNamed bool) bool {
	if c.given < 0 {
		return isNamed || len(id) > 0
	}
	return isNamed && len(id) > 0 && len(c.id) > 0
}
