package socket

import (
	"errors"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// create is a message that asks for a response.
type create struct {
	// lane is the stream_id: the messages of one are answered in their order.
	lane string
	// text is the message, and doc where its members are.
	text []byte
	doc  jsonscan.Document
	// generates says that the model is asked. If not, only the input is kept for the next
	// request.
	generates bool
	// stores says that the response is kept where every later request finds it.
	stores bool
	// previous is the id of the response that is continued, if there is one.
	previous string
	// memory is the message's share of the memory for bodies.
	memory int64
}

// createType is the type of a message that asks for a response.
const createType = "response.create"

// longestLane is the longest length of a stream_id.
const longestLane = 256

// readCreate reads a message. It returns the lane of its answer even if there is an error.
func readCreate(text []byte, reserve func(bytes int) error) (*create, *schema.Error) {
	c := &create{text: text, doc: jsonscan.Document{Reserve: reserve}}
	if err := c.doc.Parse(text); err != nil {
		if known := new(schema.Error); errors.As(err, &known) { // there is no memory
			return c, known
		}
		return c, schema.CodedError(schema.CodeInvalidJSON, "socket.not_json", "why", say.From(err))
	}
	root := c.doc.Root()
	if root.Kind() != jsonscan.Object {
		return c, schema.CodedError(schema.CodeInvalidJSON, "socket.not_object")
	}
	if lane := root.Get("stream_id"); lane.Given() {
		if lane.Kind() != jsonscan.String || len(lane.Text()) == 0 || len(lane.Text()) > longestLane {
			return c, schema.BadField("stream_id", "value.text_bytes", "least", "1", "most", "256")
		}
		c.lane = string(lane.Text())
	}
	switch kind := string(root.Get("type").Text()); kind {
	case createType:
	case "":
		return c, schema.MissingParameter("type")
	default:
		return c, schema.InvalidValue("type",
			say.New("socket.type", "kind", web.Shorten(kind), "wanted", createType))
	}
	generate := root.Get("generate")
	if generate.Given() && generate.Kind() != jsonscan.True && generate.Kind() != jsonscan.False {
		return c, schema.BadField("generate", "value.switch")
	}
	c.generates = generate.Kind() != jsonscan.False
	c.stores = root.Get("store").Kind() != jsonscan.False
	if previous := root.Get("previous_response_id"); previous.Kind() == jsonscan.String {
		c.previous = string(previous.Text())
	}
	return c, nil
}

// body returns the request of the message as a body. The parameter before is the
// connection's part of the continued conversation; nil where it has none, and the request
// itself names the response.
func (c *create) body(before *conversation) []byte {
	w := jsonwrite.Writer{Out: make([]byte, 0, len(c.text)+before.size()+64)}
	w.Object()
	w.Literal(`"stream":true`)
	for m := c.doc.Root().First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		switch name := string(m.Key()); {
		case name == "type", name == "stream_id", name == "generate", name == "stream":
		case before != nil && (name == "previous_response_id" || name == "input"):
		default:
			w.Copy(m)
		}
	}
	if before != nil {
		w.Name("input")
		w.Array()
		for _, items := range [...][]byte{before.items, c.items()} {
			if len(items) > 0 {
				w.Raw(items)
			}
		}
		w.EndArray()
	}
	w.EndObject()
	return w.Out
}

// items returns the input as elements of a JSON array.
func (c *create) items() []byte {
	input := c.doc.Root().Get("input")
	switch {
	case input.Kind() == jsonscan.String:
		return slices.Concat([]byte(`{"type":"message","role":"user","content":`), input.Raw(), []byte(`}`))
	case input.Kind() == jsonscan.Array && !input.Empty():
		raw := input.Raw()
		return raw[1 : len(raw)-1]
	}
	return nil
}

// conversation is a connection's knowledge of a response that is kept nowhere else: all
// items of the conversation that ends with it.
type conversation struct {
	id    string
	lane  string
	items []byte // elements of a JSON array
}

// size returns how much memory the conversation takes.
func (c *conversation) size() int {
	if c == nil {
		return 0
	}
	return len(c.items)
}

// continued returns the conversation that goes on with the items of a response, nil where it
// is longer than the limit.
func (c *create) continued(before *conversation, response jsonscan.Value, limit int) *conversation {
	w := jsonwrite.Writer{}
	add := func(items []byte) {
		if len(items) > 0 && len(w.Out) <= limit {
			w.Raw(items)
		}
	}
	if before != nil {
		add(before.items)
	}
	add(c.items())
	for item := response.Get("output").First(); item.Kind() != jsonscan.Absent; item = item.Next() {
		if canReturn(item) {
			add(item.Raw())
		}
	}
	if len(w.Out) > limit {
		return nil
	}
	return &conversation{id: string(response.Get("id").Text()), lane: c.lane, items: w.Out}
}

// orphan returns the error for an output of a tool that nothing before it has called, as
// the API has it. It looks only at messages that continue a conversation of the connection.
func (c *create) orphan(before *conversation) *schema.Error {
	called := map[string]bool{}
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if doc.Parse(slices.Concat([]byte{'['}, before.items, []byte{']'})) != nil {
		return responses.NotFound(before.id)
	}
	for _, items := range [...]jsonscan.Value{doc.Root(), c.doc.Root().Get("input")} {
		for item := items.First(); item.Kind() != jsonscan.Absent; item = item.Next() {
			kind, id := string(item.Get("type").Text()), string(item.Get("call_id").Text())
			switch {
			case strings.HasSuffix(kind, "_call"):
				called[id] = true
			case strings.HasSuffix(kind, "_call_output") && !called[id]:
				return schema.InvalidValue("input", say.New("socket.no_call", "id", web.Shorten(id)))
			}
		}
	}
	return nil
}

// canReturn reports whether an item of a response may appear in the input of a request. The
// reasoning of a backend that keeps nothing may not, unless it is in the item: the backend
// would look for it by its id.
func canReturn(item jsonscan.Value) bool {
	if string(item.Get("type").Text()) != "reasoning" || item.Get("encrypted_content").Kind() == jsonscan.String {
		return true
	}
	_, ours := responses.ResponseOf(string(item.Get("id").Text()))
	return ours
}
