package openai

import (
	"bytes"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// callNumbers gives the tool calls of a stream their numbers. Clients put the pieces of
// calls together by them. Some backends give all calls of an answer the same number, as
// Ollama does where it imitates this dialect, and some give none: clients would make
// one call of several. The cost of a piece does not depend on the number of calls.
type callNumbers struct {
	choices map[int64]*choiceCalls // by their indexes
	count   int                    // calls of all choices
	delta   jsonscan.Document
}

// choiceCalls are the calls of one choice.
type choiceCalls struct {
	next   int64                   // above the numbers of all calls
	taken  map[int64]bool          // the numbers that calls have
	latest map[int64]*numberedCall // the latest call of each number that the backend gives
	byID   map[givenID]int64       // the numbers of the calls that have ids
}

// givenID is the number that a backend gives to a call, and the call's id.
type givenID struct {
	given int64
	id    string
}

// numberedCall is a call of the stream.
type numberedCall struct {
	given  int64 // the number that the backend gives it, -1 if none
	number int64 // the number that the client gets
	hasID  bool
}

var toolCallsName = []byte(`"tool_calls"`)

// mend adds the edits that a choice of a chunk needs, and reports whether it has pieces of
// calls.
func (n *callNumbers) mend(edits []jsonscan.Edit,
	choice jsonscan.Value) (mended []jsonscan.Edit, hasCalls bool, err error) {
	delta := choice.Get("delta")
	if delta.Kind() != jsonscan.Object || !bytes.Contains(delta.Raw(), toolCallsName) {
		return edits, false, nil
	}
	which, _ := choice.Get("index").Int()
	at, _ := delta.Span()
	n.delta.Deep = true
	for piece := range n.delta.Rescan(delta).Get("tool_calls").All() {
		hasCalls = true
		if piece.Kind() != jsonscan.Object {
			continue
		}
		index := piece.Get("index")
		given, isGiven := index.Int()
		if !isGiven {
			given = -1
		}
		number, err := n.numberOf(which, given, piece.TextOf("id"),
			len(piece.Get("function").TextOf("name")) > 0)
		if err != nil {
			return edits, true, err
		}
		if number == given {
			continue
		}
		edit := addMissingMember(nil, piece, index, strconv.AppendInt([]byte(`"index":`), number, 10))[0]
		edit.Start += at
		edit.End += at
		edits = append(edits, edit)
	}
	return edits, hasCalls, nil
}

// numberOf returns the number of the call that a piece belongs to. Given is the number that
// the backend gives it, -1 if none.
func (n *callNumbers) numberOf(choice, given int64, id []byte, isNamed bool) (int64, error) {
	calls := n.choices[choice]
	if calls == nil {
		calls = &choiceCalls{taken: map[int64]bool{}, latest: map[int64]*numberedCall{}, byID: map[givenID]int64{}}
		if n.choices == nil {
			n.choices = map[int64]*choiceCalls{}
		}
		n.choices[choice] = calls
	}
	if len(id) > 0 {
		if number, known := calls.byID[givenID{given, string(id)}]; known {
			return number, nil
		}
	}
	if latest := calls.latest[given]; latest != nil && !latest.isFollowed(len(id) > 0, isNamed) {
		return latest.number, nil
	}
	if n.count++; n.count > dialect.MaxCalls {
		return 0, dialect.ErrTooManyCalls
	}
	return calls.add(given, id), nil
}

// add adds a call and returns its number.
func (c *choiceCalls) add(given int64, id []byte) int64 {
	number := given
	if given < 0 || c.taken[given] {
		number = c.next
	}
	c.next = max(c.next, number+1)
	c.taken[number] = true
	c.latest[given] = &numberedCall{given: given, number: number, hasID: len(id) > 0}
	if len(id) > 0 {
		c.byID[givenID{given, string(id)}] = number
	}
	return number
}

// isFollowed reports whether a piece with the number of the call and another id begins the
// next one. With a number, it takes a name and ids that differ: some backends repeat the
// name with every piece.
func (c *numberedCall) isFollowed(hasID, isNamed bool) bool {
	if c.given < 0 {
		return isNamed || hasID
	}
	return isNamed && hasID && c.hasID
}
