package gemini

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// inventedCall begins the ids that are made here for calls that came without
// one. The backend never saw such an id, so it does not get it back.
const inventedCall = "call_gemini_"

// unsignedCall is what Google documents as the signature of a call that was not
// made by the model: its newer models refuse calls without any.
const unsignedCall = `"skip_thought_signature_validator"`

// conversation writes a conversation as the dialect has it: turns of "user"
// and "model", each with one or more parts.
type conversation struct {
	jsonwrite.Writer        // the turns
	role             string // of the turn that is being written
	open             bool   // the part that was written last has not ended
	system           []byte // the content of a JSON string
	// calls are the calls so far, by their ids, and results the answers to them
	// that wait to be written in the order of the calls.
	calls   map[string]calledFunction
	results []functionResult
	// mustSign means that the model refuses calls without a signature.
	mustSign bool
}

type calledFunction struct {
	name  []byte // as JSON
	order int
}

type functionResult struct {
	order int
	parts []byte
}

// addContents adds the conversation and the instructions that stand above it.
func addContents(body *jsonwrite.Members, req *schema.Request, model string) error {
	c := conversation{calls: map[string]calledFunction{}, mustSign: generationOf(model) >= 30}
	i := 0
	for m := req.Body.Root().Get("messages").First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if err := c.message(m, "messages["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
		i++
	}
	c.flushResults()
	if c.role == "" {
		// The backend wants something to answer: instructions alone become it.
		if len(c.system) == 0 {
			return schema.InvalidValue("messages", "'messages' has no content that could be sent.")
		}
		c.part("user")
		c.Name("text")
		c.Escaped(c.system)
		c.system = nil
	}
	c.endTurn()
	body.Add("contents", slices.Concat([]byte{'['}, c.Out, []byte{']'}))
	if len(c.system) > 0 {
		body.Add("systemInstruction", slices.Concat([]byte(`{"parts":[{"text":"`), c.system, []byte(`"}]}`)))
	}
	return nil
}

func (c *conversation) message(m jsonscan.Value, place string) error {
	role := string(m.Get("role").Text())
	if role != "tool" && role != "function" {
		c.flushResults()
	}
	switch role {
	case "system", "developer":
		return c.addInstruction(m, place)
	case "assistant":
		return c.assistant(m, place)
	case "tool", "function":
		return c.result(m, place)
	}
	_, err := c.content("user", m.Get("content"), place)
	return err
}

// turn prepares for parts of a role; turns of the same role in a row become one.
func (c *conversation) turn(role string) {
	c.endPart()
	if c.role == role {
		return
	}
	if c.role != "" {
		c.endTurn()
	}
	c.role = role
	c.Object()
	c.Name("role")
	c.Plain(role)
	c.Name("parts")
	c.Array()
}

// part begins a part. It stays open, because a signature may belong to it.
func (c *conversation) part(role string) {
	c.turn(role)
	c.Object()
	c.open = true
}

func (c *conversation) endPart() {
	if c.open {
		c.EndObject()
		c.open = false
	}
}

func (c *conversation) endTurn() {
	c.endPart()
	c.Close("]}")
}

// text writes a text as a part.
func (c *conversation) text(role string, text jsonscan.Value) {
	c.part(role)
	c.Member("text", text.Raw())
}

// content writes the parts of a message and reports whether there were any.
// Empty texts are left out: the backend refuses them.
func (c *conversation) content(role string, content jsonscan.Value, place string) (bool, error) {
	if content.Kind() == jsonscan.String {
		if len(dialect.RawText(content)) == 0 {
			return false, nil
		}
		c.text(role, content)
		return true, nil
	}
	wrote := false
	err := eachPart(content, place, func(part jsonscan.Value, place string) error {
		text := partText(part)
		if text.Kind() == jsonscan.String {
			if len(dialect.RawText(text)) > 0 {
				c.text(role, text)
				wrote = true
			}
			return nil
		}
		wrote = true
		c.part(role)
		return writeMedia(&c.Writer, part, place)
	})
	return wrote, err
}

// eachPart calls do for every content part of a message.
func eachPart(content jsonscan.Value, place string, do func(part jsonscan.Value, place string) error) error {
	if content.Kind() != jsonscan.Array {
		return nil
	}
	var doc jsonscan.Document // parts lie deeper than the request records
	if err := doc.Parse(content.Raw()); err != nil {
		return err
	}
	i := 0
	for part := doc.Root().First(); part.Kind() != jsonscan.Absent; part = part.Next() {
		if err := do(part, place+".content["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
		i++
	}
	return nil
}

// partText returns the text of a part that has one.
func partText(part jsonscan.Value) jsonscan.Value {
	switch string(part.Get("type").Text()) {
	case "text", "input_text", "output_text":
		return part.Get("text")
	case "refusal":
		return part.Get("refusal")
	}
	return jsonscan.Value{}
}

// addInstruction collects the text of a system message. Several are joined.
func (c *conversation) addInstruction(m jsonscan.Value, place string) error {
	text, media, err := gather(m.Get("content"), place)
	if err != nil {
		return err
	}
	if media != nil {
		return schema.InvalidValue(place+".content", "'"+place+".content' may hold text only.")
	}
	if len(c.system) > 0 && len(text) > 0 {
		c.system = append(c.system, `\n\n`...)
	}
	c.system = append(c.system, text...)
	return nil
}

// gather returns the texts of a content joined, as the content of one JSON
// string, and its other parts as elements of an array.
func gather(content jsonscan.Value, place string) (text, media []byte, err error) {
	if content.Kind() == jsonscan.String {
		return dialect.RawText(content), nil, nil
	}
	var others jsonwrite.Writer
	err = eachPart(content, place, func(part jsonscan.Value, place string) error {
		if t := partText(part); t.Kind() == jsonscan.String {
			text = append(text, dialect.RawText(t)...)
			return nil
		}
		others.Object()
		defer others.EndObject()
		return writeMedia(&others, part, place)
	})
	return text, others.Out, err
}

// assistant writes what the model said and called before.
func (c *conversation) assistant(m jsonscan.Value, place string) error {
	wrote, err := c.content("model", m.Get("content"), place)
	if err != nil {
		return err
	}
	if signature := signatureIn(m.Get("extra_content")); signature != nil {
		if !wrote {
			c.part("model")
			c.Name("text")
			c.Plain("")
		}
		c.Member("thoughtSignature", signature)
	}
	if calls := m.Get("tool_calls"); calls.Kind() == jsonscan.Array {
		return c.toolCalls(calls, place)
	}
	if old := m.Get("function_call"); old.Kind() == jsonscan.Object {
		var doc jsonscan.Document
		if err := doc.Parse(old.Raw()); err != nil {
			return err
		}
		return c.call(doc.Root(), jsonscan.Value{}, c.firstSignature(nil, true), place+".function_call")
	}
	return nil
}

func (c *conversation) toolCalls(calls jsonscan.Value, place string) error {
	var doc jsonscan.Document
	if err := doc.Parse(calls.Raw()); err != nil {
		return err
	}
	i := 0
	for call := doc.Root().First(); call.Kind() != jsonscan.Absent; call = call.Next() {
		signature := c.firstSignature(signatureIn(call.Get("extra_content")), i == 0)
		err := c.call(call.Get("function"), call.Get("id"), signature, place+".tool_calls["+strconv.Itoa(i)+"]")
		if err != nil {
			return err
		}
		i++
	}
	return nil
}

// firstSignature replaces a signature that is missing on the first call of a
// message, the only one that must have one: many clients lose what they do not
// know, and calls of other models never had any.
func (c *conversation) firstSignature(signature []byte, first bool) []byte {
	if signature == nil && first && c.mustSign {
		return []byte(unsignedCall)
	}
	return signature
}

// signatureIn returns the signature, as JSON, that a caller gives back.
func signatureIn(extra jsonscan.Value) []byte {
	if extra.Kind() != jsonscan.Object {
		return nil
	}
	var doc jsonscan.Document
	if doc.Parse(extra.Raw()) != nil {
		return nil
	}
	v := doc.Root().Get("google").Get("thought_signature")
	if len(dialect.RawText(v)) == 0 {
		return nil
	}
	return v.Raw()
}

func (c *conversation) call(function, id jsonscan.Value, signature []byte, place string) error {
	name := function.Get("name")
	if len(dialect.RawText(name)) == 0 {
		return schema.MissingParameter(place + ".function.name")
	}
	c.part("model")
	c.Name("functionCall")
	c.Object()
	writeCallID(&c.Writer, id)
	c.Member("name", name.Raw())
	c.Name("args")
	writeArguments(&c.Writer, function.Get("arguments"))
	c.EndObject()
	if signature != nil {
		c.Member("thoughtSignature", signature)
	}
	if id.Kind() == jsonscan.String {
		c.calls[string(id.Text())] = calledFunction{name: bytes.Clone(name.Raw()), order: len(c.calls)}
	}
	return nil
}

func writeCallID(w *jsonwrite.Writer, id jsonscan.Value) {
	if text := dialect.RawText(id); len(text) > 0 && !bytes.HasPrefix(text, []byte(inventedCall)) {
		w.Member("id", id.Raw())
	}
}

// writeArguments writes the arguments of a call as an object. A text that is
// none, such as one that a limit cut, is kept as what it is: the conversation
// must be able to go on.
func writeArguments(w *jsonwrite.Writer, arguments jsonscan.Value) {
	text := bytes.TrimSpace(arguments.Text())
	switch object := objectText(text); {
	case arguments.Kind() == jsonscan.Object:
		w.Raw(arguments.Raw())
	case len(text) == 0:
		w.Literal("{}")
	case object != nil:
		w.Raw(object)
	default:
		w.Object()
		w.Member("arguments", arguments.Raw())
		w.EndObject()
	}
}

// result keeps the answer to a call until those to its siblings are there.
func (c *conversation) result(m jsonscan.Value, place string) error {
	id := m.Get("tool_call_id")
	called, known := c.calls[string(id.Text())]
	if !known {
		name := m.Get("name")
		if len(dialect.RawText(name)) == 0 {
			return schema.InvalidValue(place+".tool_call_id", "'"+place+".tool_call_id' names no tool call of an earlier message.")
		}
		called = calledFunction{name: name.Raw(), order: len(c.calls)}
	}
	text, media, err := gather(m.Get("content"), place)
	if err != nil {
		return err
	}
	var w jsonwrite.Writer
	w.Open(`{"functionResponse":{`)
	writeCallID(&w, id)
	w.Member("name", called.name)
	w.Name("response")
	if object := objectText(jsonscan.Unescape(nil, text)); object != nil {
		w.Raw(object)
	} else {
		w.Object()
		w.Name("result")
		w.Escaped(text)
		w.EndObject()
	}
	w.Close("}}")
	if len(media) > 0 {
		w.Raw(media)
	}
	c.results = append(c.results, functionResult{order: called.order, parts: w.Out})
	return nil
}

// flushResults writes the answers in the order of the calls: without ids the
// backend tells two answers of the same function apart by it.
func (c *conversation) flushResults() {
	slices.SortStableFunc(c.results, func(a, b functionResult) int { return a.order - b.order })
	for _, r := range c.results {
		c.turn("user")
		c.Raw(r.parts)
	}
	c.results = c.results[:0]
}
