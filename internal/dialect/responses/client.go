package responses

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Parse reads the body of a request, as far as is needed before the request is routed.
func Parse(req *schema.Request, body []byte) error {
	var f fields
	if err := req.ParseSource(schema.DoorResponses, body, fieldNames, f[:]); err != nil {
		return err
	}
	if err := checkNumbers(&f); err != nil {
		return err
	}
	if err := checkKinds(&f); err != nil {
		return err
	}
	if err := req.CheckExtraBody(f[fieldExtraBody]); err != nil {
		return err
	}
	req.Stream = f[fieldStream].Kind() == jsonscan.True
	req.IncludeUsage = true // the last event has the usage
	for _, v := range []jsonscan.Value{f[fieldUser], f[fieldSafetyIdentifier]} {
		if !v.Given() {
			continue
		}
		if v.Kind() != jsonscan.String {
			name := string(v.Key())
			return invalid(name, "'"+name+"' must be a string.")
		}
		if req.User == nil {
			req.User = v.Text()
		}
	}
	return nil
}

// checkNumbers checks the numbers of a request by the rules of the API, whatever backend
// it is for.
func checkNumbers(f *fields) error {
	if err := schema.CheckInteger("max_output_tokens", f[fieldMaxOutputTokens], 1); err != nil {
		return err
	}
	if err := schema.CheckInteger("max_tool_calls", f[fieldMaxToolCalls], 1); err != nil {
		return err
	}
	if err := schema.CheckNumber("temperature", f[fieldTemperature], 0, 2); err != nil {
		return err
	}
	if err := schema.CheckNumber("top_p", f[fieldTopP], 0, 1); err != nil {
		return err
	}
	top := f[fieldTopLogprobs]
	if err := schema.CheckInteger("top_logprobs", top, 0); err != nil {
		return err
	}
	return schema.CheckNumber("top_logprobs", top, 0, mostLogprobs)
}

// checkKinds checks the fields that a response repeats or that are looked into, whatever
// backend the request is for.
func checkKinds(f *fields) error {
	for _, field := range [...]struct {
		place int
		kind  jsonscan.Kind
		want  string
	}{
		{fieldMetadata, jsonscan.Object, "an object"}, {fieldReasoning, jsonscan.Object, "an object"}, {fieldText, jsonscan.Object, "an object"},
		{fieldInclude, jsonscan.Array, "an array"}, {fieldTools, jsonscan.Array, "an array"},
		{fieldInstructions, jsonscan.String, "a string"}, {fieldPreviousResponseID, jsonscan.String, "a string"},
	} {
		if v := f[field.place]; v.Given() && v.Kind() != field.kind {
			name := string(v.Key())
			return invalid(name, "'"+name+"' must be "+field.want+".")
		}
	}
	return nil
}

// mostLogprobs is for how many tokens at a place a request may ask for the probability.
const mostLogprobs = 20

// Client translates one request and its answer. It is a dialect.Client for that request
// only, because what the answer looks like depends on it.
type Client struct {
	// Past is what the caller's earlier responses left behind; nil where nothing is kept.
	Past Past
	// Recall returns what Past adds to this input; see dialect.Recaller. It may be nil.
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

	req *Request
	err error
}

// MustTranslate reports whether the request must not be passed on.
func (c *Client) MustTranslate() bool { return c.Translate }

// RefuseInstance refuses instances that do not know the response which is continued.
func (c *Client) RefuseInstance(id string) error {
	if c.Instance == "" || c.Instance == id {
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
	for item := root.Get("input").First(); item.Kind() != jsonscan.Absent; item = item.Next() {
		if bytes.HasPrefix(dialect.RawText(item.Get("encrypted_content")), []byte(statePrefix)) {
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

// Recalled returns what the gateway keeps of the conversation, unless a backend does.
func (c *Client) Recalled(req *schema.Request) [][]byte {
	if c.Recall == nil || !c.Translate {
		return nil
	}
	return c.Recall(req.Source.Body.Root().Get("input"))
}

// Unify returns the body of the request in the unified form.
func (c *Client) Unify(req *schema.Request, into []byte) ([]byte, error) {
	if c.req == nil && c.err == nil {
		if reserve := req.Body.Reserve; reserve != nil {
			// The unified body, the input that is kept, and what the response repeats.
			if err := reserve(3 * len(req.Source.Body.Data())); err != nil {
				return nil, err
			}
		}
		c.req, c.err = Read(req.Source.Body.Root(), c.Past, into)
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.req.Chat, nil
}

// Reply turns a whole unified answer into a response.
func (c *Client) Reply(_ *schema.Request, reply *dialect.Reply) error {
	root, err := reply.Unified()
	if err != nil {
		return err
	}
	if err := c.req.answer(root, reply); err != nil {
		return err
	}
	if c.keeps() {
		c.Keep(c.req, bytes.Clone(reply.Segments[0]))
	}
	return nil
}

// keeps reports whether the response is to be kept.
func (c *Client) keeps() bool { return c.Keep != nil && c.req.Store }

// Events turns unified chunks into the events of a response.
func (c *Client) Events(_ *schema.Request, from dialect.Events) dialect.FramedEvents {
	return &events{from: from, client: c, stream: c.req.NewStream()}
}

// events are the events of a response that is made of chunks.
type events struct {
	from   dialect.Events
	client *Client
	stream *Stream
	ended  bool
}

// Next returns the events for the next chunk that adds something.
func (e *events) Next() ([]byte, error) {
	for !e.ended {
		chunk, err := e.from.Next()
		if errors.Is(err, io.EOF) {
			e.ended = true
			out, response := e.stream.End()
			if e.client.keeps() {
				e.client.Keep(e.client.req, bytes.Clone(response))
			}
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if out, err := e.stream.Chunk(chunk); err != nil || len(out) > 0 {
			return out, err
		}
	}
	return nil, io.EOF
}

// Usage returns what the backend has reported so far.
func (e *events) Usage() schema.Usage { return e.from.Usage() }

// IsComplete reports whether the last event was returned.
func (e *events) IsComplete() bool { return e.ended }

// Ping returns nothing: a comment keeps the connection alive.
func (e *events) Ping() []byte { return nil }

// Failure returns the event that ends a response which broke off.
func (e *events) Failure(known *schema.Error, _ string) []byte { return e.stream.Fail(known) }
