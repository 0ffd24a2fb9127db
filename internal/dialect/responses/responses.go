// Package responses speaks OpenAI's Responses API towards clients: it reads its
// requests, and writes unified answers as responses and their events.
//
// A response is a list of items: messages, reasoning, calls of tools. A chat.Request
// has messages: the items of one turn of the model become one message, and one message
// several items.
package responses

import (
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Past finds the items of earlier responses of the same caller.
type Past interface {
	// Conversation returns all items of the conversation that ends with a response, its
	// output included, as elements of a JSON array. The caller is told an error that is
	// a *schema.Error.
	Conversation(id string) ([]byte, error)
	// Item returns an item by its id, nil where it is not known.
	Item(id string) ([]byte, error)
}

// Request is a request of the Responses API that was read.
type Request struct {
	// Chat is the chat that it asks for.
	Chat *chat.Request
	// ID is the id of the response, which is made here, and Created its time in seconds.
	ID      string
	Created int64
	// Store says that the client wants the response to be kept, and Previous names the
	// response before this one, empty if there is none.
	Store    bool
	Previous string
	// Input is the client's input in this request, as elements of a JSON array, in the
	// form of listed input items. It is empty unless Store is set.
	Input []byte

	// root is the body of the request. The response repeats members of it. It is gone
	// before a stream ends; echo has these members then.
	root jsonscan.Value
	echo []byte
	// hasBriefTools says that a function lacks members that it has in a response.
	hasBriefTools bool
	tools         map[string]tool
}

const idPrefix = "resp_"

// idLength is the length of an id. Of the characters behind the prefix each has five
// random bits, 130 in all: nobody guesses an id.
const idLength = len(idPrefix) + 26

// NewID returns the id of a new response.
func NewID() string {
	const characters = "abcdefghijklmnopqrstuvwxyz234567"
	var id [idLength]byte
	random := id[copy(id[:], idPrefix):]
	_, _ = rand.Read(random) // it never fails
	for i, b := range random {
		random[i] = characters[b%32]
	}
	return string(id[:])
}

// IsID reports whether a text has the form of the ids that NewID makes.
func IsID(id string) bool { return len(id) == idLength && strings.HasPrefix(id, idPrefix) }

// The ids of items contain the id of their response: an item is found without an index
// of all items.
const (
	messagePrefix   = "msg_"
	reasoningPrefix = "rs_"
	callPrefix      = "fc_"
	customPrefix    = "ctc_"
	imagePrefix     = "ig_"
	outputPrefix    = "fco_"
)

// inputMark distinguishes the ids of input items from the ids of output items.
const inputMark = 'i'

// itemID returns the id of the output item of a response at an index.
func itemID(prefix, response string, index int) string {
	return prefix + response[len(idPrefix):] + "_" + strconv.Itoa(index)
}

// inputID returns the id of the input item of a response at an index.
func inputID(prefix, response string, index int) string {
	return prefix + response[len(idPrefix):] + "_" + string(inputMark) + strconv.Itoa(index)
}

// ResponseOf returns the id of an item's response, by the id of the item. It returns
// false for ids that were not made here.
func ResponseOf(item string) (response string, ok bool) {
	_, rest, found := strings.Cut(item, "_")
	token, _, _ := strings.Cut(rest, "_")
	id := idPrefix + token
	return id, found && IsID(id)
}

// invalid returns the error for a value that may not be there.
func invalidValue(param string, code say.Code, pairs ...any) *schema.Error {
	return schema.InvalidValue(param, say.New(code, pairs...))
}
