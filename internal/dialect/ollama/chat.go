// Package ollama translates chat, completion and embedding requests and answers into and
// out of Ollama's own dialect.
package ollama

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Chat speaks Ollama's own chat dialect rather than the one it imitates,
// which takes neither the size of the context nor most of the options.
var Chat = &dialect.Adapter{Refuse: refuseChat, Call: callChat, Continues: dialect.Always, Decode: decode,
	DecodeStream: decodeStream}

// callChat translates a chat request.
func callChat(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if err := refuseChat(req); err != nil {
		return err
	}
	asked, err := req.Chat()
	if err != nil {
		return err
	}
	body := newRequestWriter(req, to)
	accept := body.stream(req)
	for _, translate := range []func(*chat.Request) error{
		body.force, body.format, body.think, body.tools, body.chatSettings,
	} {
		if err := translate(asked); err != nil {
			return err
		}
	}
	messages, err := writeMessages(asked.Messages, len(req.Body.Data()))
	if err != nil {
		return err
	}
	to.Begin(call, to.Path, "application/json", accept)
	call.Body = body.body(call.Body[:0], "messages", messages)
	return nil
}

// refuseChat returns an error for fields that the dialect cannot express if leaving
// them out would change the answer.
func refuseChat(req *schema.Request) error {
	s := req.Settings()
	if s.N.Given() {
		if n, ok := s.N.Int(); !ok || n != 1 {
			return schema.BadField("n", "value.one_answer")
		}
	}
	for _, name := range []string{"logit_bias", "functions", "moderation", "web_search_options"} {
		if v := s.Other(name); v.Given() && !v.Empty() {
			return schema.BadField(name, "value.unsupported")
		}
	}
	for v := range s.Other("modalities").All() {
		if string(v.Text()) != "text" {
			return schema.BadField("modalities", "value.only", "known", "text")
		}
	}
	if s.Format.Given {
		switch s.Format.Type {
		case "text", "json_object", "json_schema":
		default:
			return schema.BadField("response_format.type",
				"value.or", "known", "text, json_object", "last", "json_schema")
		}
	}
	_, err := thinkingOf(s, false)
	return err
}

// format translates response_format.
func (b *requestWriter) format(asked *chat.Request) error {
	switch asked.Format.Type {
	case "json_object":
		b.top.Add("format", []byte(`"json"`))
	case "json_schema":
		if !asked.Format.HasSchema() {
			return schema.BadField("response_format.json_schema.schema", "value.object")
		}
		b.top.Add("format", asked.Format.Schema)
	}
	return nil // Refuse has refused other types
}

// think translates how much the model shall think.
func (b *requestWriter) think(asked *chat.Request) error {
	level, err := thinkingOf(&asked.Settings, b.levels)
	if level != "" {
		b.top.Add("think", []byte(level))
	}
	return err
}

// thinkingOf returns how much the model shall think as JSON, empty if nothing is said.
// Only gpt-oss knows levels; with other models Ollama takes only whether they shall think,
// and refuses a level.
func thinkingOf(s *chat.Settings, levels bool) (string, error) {
	param, effort := "reasoning_effort", s.Effort
	if other := s.Other("reasoning").Get("effort"); effort == "" && other.Given() {
		param, effort = "reasoning.effort", string(other.Text())
	} else if effort == "" {
		if s.EffortHint == "none" {
			return "false", nil // every model takes that
		}
		return "", nil
	}
	level := ""
	switch effort {
	case "none":
		return "false", nil
	case "minimal", "low":
		level = `"low"`
	case "medium":
		level = `"medium"`
	case "high", "xhigh", "max":
		level = `"high"`
	default:
		return "", schema.BadField(param,
			"value.or", "known", "none, minimal, low, medium, high, xhigh", "last", "max")
	}
	if !levels {
		level = "true"
	}
	return level, nil
}

// tools passes the functions on that the model may call. A choice of one function leaves
// only that one.
func (b *requestWriter) tools(asked *chat.Request) error {
	if len(asked.Tools) == 0 {
		if tools := asked.Other("tools"); tools.Given() && !tools.Empty() {
			return schema.BadField("tools", "value.array")
		}
		return nil
	}
	choice := &asked.ToolChoice
	switch {
	case !choice.Given(), choice.Mode == "auto", choice.Mode == "required", len(choice.Name) > 0:
	case choice.Mode == "none":
		return nil
	default:
		return schema.BadField("tool_choice", "value.choice_function")
	}
	var list jsonwrite.Writer
	list.Array()
	empty := len(list.Out)
	for i := range asked.Tools {
		tool := &asked.Tools[i]
		if tool.Type != chat.FunctionTool || !tool.IsFunction {
			return schema.BadField(schema.Element("tools", i), "value.function")
		}
		if len(choice.Name) == 0 || tool.Name.String() == choice.Name.String() {
			chat.WriteTool(&list, tool)
		}
	}
	if len(list.Out) == empty {
		return schema.BadField("tool_choice", "value.not_among")
	}
	list.EndArray()
	b.top.Add("tools", list.Out)
	return nil
}
