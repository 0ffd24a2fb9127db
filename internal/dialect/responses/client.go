package responses

import (
	"bytes"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Parse reads the body of a request, as far as is needed before the request is routed.
func Parse(req *schema.Request, body []byte) error { return ParseFor(req, schema.DoorResponses, body) }

// ParseFor is Parse for a request of another door with the same members in its body.
func ParseFor(req *schema.Request, door schema.Door, body []byte) error {
	if err := req.ParseBody(door, body, Fields); err != nil {
		return err
	}
	root := req.Body.Root()
	if err := Fields.Check(root); err != nil {
		return err
	}
	if err := req.CheckExtraBody(root.Get("extra_body")); err != nil {
		return err
	}
	req.Stream = root.IsTrue("stream")
	req.IncludeUsage = true // the last event has the usage
	if err := req.ReadUser("safety_identifier", root.Get("safety_identifier")); err != nil {
		return err
	}
	return req.ReadUser("user", root.Get("user"))
}

// Conversation is the context of a request of the API, beside its body.
type Conversation struct {
	// Past finds the caller's earlier responses; nil where nothing is kept.
	Past Past
	// Recall returns the items that Past adds to this input; see dialect.Client. It may
	// be nil.
	Recall func(input jsonscan.Value) [][]byte
	// Keep is called with the response when it is complete and the request wants it to be
	// kept, before the client has all of it. It may be nil.
	Keep func(req *Request, response []byte)
	// Translate insists on a translation, because the request has something that was made
	// by one and that no backend knows.
	Translate bool
	// Instance is the id of the instance that keeps the response which the request
	// continues; empty if it may go anywhere. Previous is the id of that response.
	Instance, Previous string
}

// translator translates one request and its answer.
type translator struct {
	Conversation
	req *Request
}

// NewClient returns the client that translates one request. The form of the answer
// depends on that request. The request is read by it, too.
func NewClient(req *schema.Request, c Conversation) *dialect.Client {
	t := &translator{Conversation: c}
	req.Decode = t.decode
	client := &dialect.Client{Reply: t.reply, Events: t.events, MustTranslate: c.Translate}
	client.Again = func(copied *schema.Request) *dialect.Client { return NewClient(copied, c) }
	if c.Instance != "" {
		client.RefuseInstance = t.refuseInstance
	}
	if c.Recall != nil && c.Translate {
		client.Recalled = func(req *schema.Request) [][]byte { return c.Recall(req.Body.Root().Get("input")) }
	}
	return client
}

// refuseInstance refuses instances that do not know the response which is continued.
func (c *translator) refuseInstance(id string) error {
	if c.Instance == id {
		return nil
	}
	return keptElsewhere(c.Previous, modelOf(c.Instance), modelOf(id))
}

// modelOf returns the model of an instance by the id of the instance. The rest of it is an
// address, which callers are not told.
func modelOf(instance string) string { return instance[:max(0, strings.LastIndexByte(instance, '@'))] }

// NamesTranslated reports whether the input of a request has something that was made by a
// translation here: a state that a backend wants back, or a reference to an item.
func NamesTranslated(root jsonscan.Value) bool {
	for item := range root.Get("input").All() {
		if bytes.HasPrefix(chat.TextIn(item, "encrypted_content"), []byte(statePrefix)) {
			return true
		}
		if id, isReference := ReferenceIn(item); isReference {
			if _, ours := ResponseOf(id); ours {
				return true
			}
		}
	}
	return false
}

// decode reads the chat that the request asks for.
func (c *translator) decode(req *schema.Request, room chat.Room) (_ *chat.Request, err error) {
	if room.Reserve != nil {
		// The input that is kept, and the members that the response repeats.
		if err := room.Reserve(2 * len(req.Body.Data())); err != nil {
			return nil, err
		}
	}
	if c.req, err = Read(req.Body.Root(), c.Past, room); err != nil {
		return nil, err
	}
	return c.req.Chat, nil
}

// reply writes a whole answer as a response.
func (c *translator) reply(_ *schema.Request, answer *chat.Answer, reply *dialect.Reply) error {
	if err := c.req.answer(answer, reply); err != nil {
		return err
	}
	c.keep(reply.Segments[0])
	return nil
}

// keep keeps the response if that is wanted.
func (c *translator) keep(response []byte) {
	if c.Keep != nil && c.req.Store {
		c.Keep(c.req, bytes.Clone(response))
	}
}

// events writes deltas as the events of a response.
func (c *translator) events(_ *schema.Request, from dialect.Deltas) *dialect.Stream {
	e := &events{Written: dialect.Written{From: from}, client: c, stream: c.req.NewStream()}
	return &dialect.Stream{Events: e, IsComplete: e.IsComplete, Failure: e.failure}
}

// events are the events of a response that is made of deltas.
type events struct {
	dialect.Written
	client *translator
	stream *Stream
	out    []byte
}

// Next returns the events for the next delta that adds something.
func (e *events) Next() ([]byte, error) { return e.NextFrom(e) }

// Restart implements dialect.EventWriter.
func (e *events) Restart() { e.out = nil }

// Bytes implements dialect.EventWriter.
func (e *events) Bytes() []byte { return e.out }

// Add writes the events for a delta.
func (e *events) Add(delta *chat.Delta) (err error) {
	choice := delta.First()
	e.Content = e.Content || choice != nil && choice.HasContent()
	e.out, err = e.stream.Add(delta)
	return err
}

// End writes the end of the response.
func (e *events) End() {
	var response []byte
	e.out, response = e.stream.End(e.From.Usage())
	e.client.keep(response)
}

// CanResume implements dialect.Resumer.
func (e *events) CanResume() bool { return !e.Complete }

// failure returns the event that ends a response which broke off.
func (e *events) failure(known *schema.Error, _ string) []byte { return e.stream.Fail(known) }
