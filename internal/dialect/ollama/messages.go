package ollama

import (
	"bytes"
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// conversation writes the messages of a request.
type conversation struct {
	jsonwrite.Writer
	// calls holds the function of every tool call so far by the call's id: a
	// result names the call, and Ollama wants the function.
	calls map[string][]byte
	inner jsonscan.Document // the parts or tool calls of the message at hand
}

// writeMessages translates the messages of a request.
func writeMessages(messages jsonscan.Value) ([]byte, error) {
	c := conversation{Writer: jsonwrite.Writer{Out: make([]byte, 0, len(messages.Raw())+64)}}
	c.Array()
	i := 0
	for m := messages.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if err := c.message(m); err != nil {
			return nil, inRequest(fmt.Sprintf("messages[%d].", i), err)
		}
		i++
	}
	c.EndArray()
	return c.Out, nil
}

// inRequest places an error that names a field of a message into the request.
func inRequest(place string, err *schema.Error) *schema.Error {
	param := place + *err.Param
	return schema.InvalidValue(param, "'"+param+"' "+err.Message)
}

// message writes one message; the error names fields relative to it.
func (c *conversation) message(m jsonscan.Value) *schema.Error {
	role := string(m.Get("role").Text())
	switch role {
	case "developer":
		role = "system"
	case "function":
		role = "tool"
	}
	c.Object()
	c.Name("role")
	c.Plain(role)
	c.Name("content")
	if err := c.content(m); err != nil {
		return err
	}
	switch role {
	case "assistant":
		thinking := m.Get("reasoning_content")
		if thinking.Kind() != jsonscan.String {
			thinking = m.Get("reasoning")
		}
		if thinking.Kind() == jsonscan.String {
			c.Member("thinking", thinking.Raw())
		}
		if err := c.toolCalls(m); err != nil {
			return err
		}
	case "tool":
		c.toolResult(m)
	}
	c.EndObject()
	return nil
}

// content writes the text of a message, and its images.
func (c *conversation) content(m jsonscan.Value) *schema.Error {
	content := m.Get("content")
	switch content.Kind() {
	case jsonscan.String:
		c.Raw(content.Raw())
		return nil
	case jsonscan.Array:
		return c.parts(content)
	}
	if refusal := m.Get("refusal"); refusal.Kind() == jsonscan.String {
		c.Raw(refusal.Raw())
		return nil
	}
	c.Plain("")
	return nil
}

// parts joins the texts as they are, and lists the images.
func (c *conversation) parts(content jsonscan.Value) *schema.Error {
	list := dialect.Rescan(&c.inner, content)
	c.Open(`"`)
	images, i := 0, 0
	for part := list.First(); part.Kind() != jsonscan.Absent; part = part.Next() {
		kind := string(part.Get("type").Text())
		switch kind {
		case "text", "refusal":
			text := part.Get(kind)
			if text.Kind() != jsonscan.String {
				return schema.InvalidValue(fmt.Sprintf("content[%d].%s", i, kind), "must be a string.")
			}
			c.Out = append(c.Out, dialect.RawText(text)...)
		case "image_url":
			images++
		default:
			return schema.InvalidValue(fmt.Sprintf("content[%d].type", i),
				"must be text or image_url: the backend of this model takes nothing else.")
		}
		i++
	}
	c.Close(`"`)
	if images == 0 {
		return nil
	}
	return c.images(list)
}

// images lists the images among the parts, without the data URL around them.
func (c *conversation) images(list jsonscan.Value) *schema.Error {
	c.Name("images")
	c.Array()
	i := -1
	for part := list.First(); part.Kind() != jsonscan.Absent; part = part.Next() {
		i++
		if string(part.Get("type").Text()) != "image_url" {
			continue
		}
		url := part.Get("image_url")
		if url.Kind() == jsonscan.Object {
			url = url.Get("url")
		}
		data, ok := imageData(url.Text())
		if !ok {
			return schema.InvalidValue(fmt.Sprintf("content[%d].image_url.url", i),
				"must be a data URL in base64, such as data:image/png;base64,...: images are not fetched from other places for this model.")
		}
		c.Text(data)
	}
	c.EndArray()
	return nil
}

// imageData returns what a data URL carries in base64, still encoded.
func imageData(url []byte) (data []byte, ok bool) {
	const scheme = "data:"
	if len(url) < len(scheme) || !bytes.EqualFold(url[:len(scheme)], []byte(scheme)) {
		return nil, false
	}
	kind, data, ok := bytes.Cut(url[len(scheme):], []byte(","))
	return data, ok && len(data) > 0 && bytes.HasSuffix(bytes.ToLower(kind), []byte(";base64"))
}

// toolCalls writes the calls that the model made in an earlier turn.
func (c *conversation) toolCalls(m jsonscan.Value) *schema.Error {
	calls := m.Get("tool_calls")
	if calls.Kind() != jsonscan.Array || calls.Empty() {
		if legacy := m.Get("function_call"); legacy.Kind() == jsonscan.Object {
			c.Open(`"tool_calls":[{"function":`)
			if err := c.function(dialect.Rescan(&c.inner, legacy)); err != nil {
				return schema.InvalidValue("function_call."+*err.Param, err.Message)
			}
			c.Close("}]")
		}
		return nil
	}
	c.Name("tool_calls")
	c.Array()
	i := 0
	for call := dialect.Rescan(&c.inner, calls).First(); call.Kind() != jsonscan.Absent; call = call.Next() {
		c.Object()
		function := call.Get("function")
		if id := call.Get("id"); id.Kind() == jsonscan.String {
			c.Member("id", id.Raw())
			c.remember(id.Text(), function.Get("name"))
		}
		c.Name("function")
		if err := c.function(function); err != nil {
			return schema.InvalidValue(fmt.Sprintf("tool_calls[%d].function.%s", i, *err.Param), err.Message)
		}
		c.EndObject()
		i++
	}
	c.EndArray()
	return nil
}

func (c *conversation) remember(id []byte, name jsonscan.Value) {
	if c.calls == nil {
		c.calls = make(map[string][]byte)
	}
	c.calls[string(id)] = bytes.Clone(name.Raw())
}

// function writes what was called; the arguments are a text of JSON here and
// JSON there.
func (c *conversation) function(f jsonscan.Value) *schema.Error {
	name := f.Get("name")
	if len(name.Text()) == 0 {
		return schema.InvalidValue("name", "must be the name of a function.")
	}
	c.Object()
	c.Member("name", name.Raw())
	arguments := f.Get("arguments")
	text := arguments.Raw()
	if arguments.Kind() == jsonscan.String {
		text = bytes.TrimSpace(arguments.Text())
	}
	if !arguments.Given() || len(text) == 0 {
		text = []byte("{}")
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if doc.Parse(text) != nil || doc.Root().Kind() != jsonscan.Object {
		return schema.InvalidValue("arguments", "must hold a JSON object.")
	}
	c.Member("arguments", text)
	c.EndObject()
	return nil
}

// toolResult says which call a result belongs to.
func (c *conversation) toolResult(m jsonscan.Value) {
	id := m.Get("tool_call_id")
	name := c.calls[string(id.Text())]
	if own := m.Get("name"); len(own.Text()) > 0 {
		name = own.Raw()
	}
	if len(name) > 0 {
		c.Member("tool_name", name)
	}
	if id.Kind() == jsonscan.String {
		c.Member("tool_call_id", id.Raw())
	}
}
