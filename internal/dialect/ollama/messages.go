package ollama

import (
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// conversation writes the messages of a request.
type conversation struct {
	jsonwrite.Writer
	// calls holds the function of every tool call so far by the call's id: a
	// result names the call, and Ollama wants the function.
	calls map[string]chat.Text
}

// writeMessages translates the messages of a request that has about size bytes.
func writeMessages(messages []chat.Message, size int) ([]byte, error) {
	c := conversation{Writer: jsonwrite.Writer{Out: make([]byte, 0, size+64)}}
	c.Array()
	for i := range messages {
		if err := c.message(&messages[i]); err != nil {
			return nil, err.WithinElement("messages", i)
		}
	}
	c.EndArray()
	return c.Out, nil
}

// message writes one message; the error names fields relative to it.
func (c *conversation) message(m *chat.Message) *schema.Error {
	role := m.Role
	switch role {
	case chat.Developer:
		role = chat.System
	case chat.Function:
		role = chat.ToolRole
	}
	c.Open(`{"role":`).Plain(role)
	c.Name("content")
	if err := c.content(m); err != nil {
		return err
	}
	switch role {
	case chat.Assistant:
		c.EscapedMember("thinking", m.Reasoning)
		if err := c.toolCalls(m); err != nil {
			return err
		}
	case chat.ToolRole:
		c.toolResult(m)
	}
	c.EndObject()
	return nil
}

// content writes the text of a message, and its images.
func (c *conversation) content(m *chat.Message) *schema.Error {
	switch {
	case m.Parts != nil:
		return c.parts(m.Parts)
	case m.Text != nil:
		c.Escaped(m.Text)
	default:
		c.Escaped(m.Refusal)
	}
	return nil
}

// parts joins the texts as they are, and lists the images.
func (c *conversation) parts(parts []chat.Part) *schema.Error {
	c.Open(`"`)
	images := 0
	for i := range parts {
		switch part := &parts[i]; part.Type {
		case chat.TextPart, chat.RefusalPart:
			if part.Text == nil {
				return schema.BadField(schema.Element("content", i)+"."+part.Type, "value.string")
			}
			c.Out = append(c.Out, part.Text...)
		case chat.ImagePart:
			images++
		default:
			return schema.BadField(schema.Element("content", i)+".type",
				"value.or_nothing", "known", "text", "last", "image_url")
		}
	}
	c.Close(`"`)
	if images == 0 {
		return nil
	}
	return c.images(parts)
}

// images lists the images among the parts, without the data URL around them.
func (c *conversation) images(parts []chat.Part) *schema.Error {
	c.Name("images").Array()
	for i := range parts {
		if parts[i].Type != chat.ImagePart {
			continue
		}
		if parts[i].Data == nil {
			return schema.BadField(schema.Element("content", i)+".image_url.url", "value.data_url_image")
		}
		c.Escaped(parts[i].Data)
	}
	c.EndArray()
	return nil
}

// toolCalls writes the calls that the model made in an earlier turn.
func (c *conversation) toolCalls(m *chat.Message) *schema.Error {
	if len(m.Calls) == 0 {
		if m.FunctionCall != nil {
			c.Open(`"tool_calls":[{"function":`)
			if err := c.function(m.FunctionCall); err != nil {
				return err.Inside("function_call")
			}
			c.Close("}]")
		}
		return nil
	}
	c.Name("tool_calls").Array()
	for i := range m.Calls {
		call := &m.Calls[i]
		c.Object()
		if call.ID != nil {
			c.EscapedMember("id", call.ID)
			if c.calls == nil {
				c.calls = make(map[string]chat.Text)
			}
			c.calls[call.ID.String()] = call.Name
		}
		c.Name("function")
		if err := c.function(call); err != nil {
			return err.Inside(schema.Element("tool_calls", i) + ".function")
		}
		c.EndObject()
	}
	c.EndArray()
	return nil
}

// function writes the called function; the arguments are a text of JSON here and JSON
// there.
func (c *conversation) function(call *chat.ToolCall) *schema.Error {
	if len(call.Name) == 0 {
		return schema.BadField("name", "value.function_name")
	}
	arguments, ok := call.Object()
	if !ok {
		return schema.BadField("arguments", "value.holds_object")
	}
	c.Object()
	c.EscapedMember("name", call.Name)
	c.Member("arguments", arguments)
	c.EndObject()
	return nil
}

// toolResult says which call a result belongs to.
func (c *conversation) toolResult(m *chat.Message) {
	name := c.calls[m.CallID.String()]
	if len(m.Name) > 0 {
		name = m.Name
	}
	if len(name) > 0 {
		c.EscapedMember("tool_name", name)
	}
	c.EscapedMember("tool_call_id", m.CallID)
}
