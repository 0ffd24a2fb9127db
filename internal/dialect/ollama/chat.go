// Package ollama translates chat, completion and embedding requests and answers into and
// out of Ollama's own dialect.
package ollama

import (
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// Chat speaks Ollama's own chat dialect rather than the one it imitates,
// which takes neither the size of the context nor most of the options.
var Chat = &dialect.Adapter{Refuse: refuseChat, Call: callChat, Decode: decode, DecodeStream: decodeStream}

// callChat translates a chat request.
func callChat(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if err := refuseChat(req); err != nil {
		return err
	}
	if err := dialect.ReserveTranslation(req); err != nil {
		return err
	}
	body := newRequestWriter(req, to)
	accept := body.stream(req)
	for _, translate := range []func(*schema.Request) error{
		body.format, body.think, body.tools, body.sampling, body.chatExtensions,
	} {
		if err := translate(req); err != nil {
			return err
		}
	}
	messages, err := writeMessages(req.Body.Root().Get("messages"))
	if err != nil {
		return err
	}
	to.Begin(call, to.Path, "application/json", accept)
	call.Body = body.body(call.Body[:0], "messages", messages)
	return nil
}

// refuseChat returns an error for fields that the dialect cannot express and whose
// omission would change the answer.
func refuseChat(req *schema.Request) error {
	if v := req.Field("n"); v.Given() {
		if n, ok := v.Int(); !ok || n != 1 {
			return schema.InvalidValue("n", "'n' must be 1: the backend of this model gives one answer per request.")
		}
	}
	for _, name := range []string{"logit_bias", "functions", "moderation", "web_search_options"} {
		if v := req.Field(name); v.Given() && !v.Empty() {
			return schema.InvalidValue(name, "'"+name+"' is not supported by the backend of this model.")
		}
	}
	modalities := req.Field("modalities")
	for v := modalities.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		if string(v.Text()) != "text" {
			return schema.InvalidValue("modalities", "'modalities' must be text: the backend of this model gives nothing else.")
		}
	}
	if format := req.Field("response_format"); format.Given() {
		switch string(format.Get("type").Text()) {
		case "text", "json_object", "json_schema":
		default:
			return schema.InvalidValue("response_format.type", "'response_format.type' must be text, json_object or json_schema.")
		}
	}
	return new(requestWriter).think(req)
}

// format translates response_format.
func (b *requestWriter) format(req *schema.Request) error {
	format := req.Field("response_format")
	if !format.Given() {
		return nil
	}
	// It may stand in extra_body, where its inner parts are not recorded.
	var doc jsonscan.Document
	format = dialect.Rescan(&doc, format)
	switch string(format.Get("type").Text()) {
	case "json_object":
		b.top.Add("format", []byte(`"json"`))
	case "json_schema":
		shape := format.Get("json_schema").Get("schema")
		if shape.Kind() != jsonscan.Object {
			return schema.InvalidValue("response_format.json_schema.schema", "'response_format.json_schema.schema' must be an object.")
		}
		b.top.Add("format", shape.Raw())
	}
	return nil // Refuse has refused other types
}

// think translates how much the model shall think. Only gpt-oss knows levels; with other
// models Ollama takes only whether they shall think, and refuses a level.
func (b *requestWriter) think(req *schema.Request) error {
	param := "reasoning_effort"
	effort := req.Field(param)
	if !effort.Given() {
		param = "reasoning.effort"
		effort = req.Field("reasoning").Get("effort")
	}
	if !effort.Given() {
		if req.EffortHint == "none" {
			b.top.Add("think", []byte("false")) // every model takes that
		}
		return nil
	}
	level := "true"
	switch string(effort.Text()) {
	case "none":
		level = "false"
	case "minimal", "low":
		if b.levels {
			level = `"low"`
		}
	case "medium":
		if b.levels {
			level = `"medium"`
		}
	case "high", "xhigh", "max":
		if b.levels {
			level = `"high"`
		}
	default:
		return schema.InvalidValue(param, "'"+param+"' must be none, minimal, low, medium, high, xhigh or max.")
	}
	b.top.Add("think", []byte(level))
	return nil
}

// tools passes the functions on that the model may call. The dialect cannot
// make the model call one; a choice of one function leaves only that one.
func (b *requestWriter) tools(req *schema.Request) error {
	tools := req.Field("tools")
	if !tools.Given() || tools.Empty() {
		return nil
	}
	if tools.Kind() != jsonscan.Array {
		return schema.InvalidValue("tools", "'tools' must be an array.")
	}
	chosen, err := toolChoice(req.Field("tool_choice"))
	if err != nil {
		return err
	}
	if chosen == noTool {
		return nil
	}
	var doc jsonscan.Document
	var list []string
	i := 0
	for tool := dialect.Rescan(&doc, tools).First(); tool.Kind() != jsonscan.Absent; tool = tool.Next() {
		if string(tool.Get("type").Text()) != "function" || tool.Get("function").Kind() != jsonscan.Object {
			param := fmt.Sprintf("tools[%d]", i)
			return schema.InvalidValue(param, "'"+param+"' must be a function: the backend of this model takes no other tools.")
		}
		if chosen == anyTool || string(tool.Get("function").Get("name").Text()) == chosen {
			list = append(list, string(tool.Raw()))
		}
		i++
	}
	if len(list) == 0 {
		return schema.InvalidValue("tool_choice", "'tool_choice' names a function that is not among the tools.")
	}
	b.top.Add("tools", []byte("["+strings.Join(list, ",")+"]"))
	return nil
}

// What a tool choice says besides the name of a function, which is never empty
// and has no spaces.
const (
	anyTool = ""
	noTool  = " "
)

// toolChoice returns the name of the one function to call, anyTool or noTool.
func toolChoice(choice jsonscan.Value) (string, error) {
	switch choice.Kind() {
	case jsonscan.Absent, jsonscan.Null:
		return anyTool, nil
	case jsonscan.String:
		switch string(choice.Text()) {
		case "none":
			return noTool, nil
		case "auto", "required":
			return anyTool, nil
		}
	case jsonscan.Object:
		var doc jsonscan.Document
		if name := dialect.Rescan(&doc, choice).Get("function").Get("name").Text(); len(name) > 0 {
			return string(name), nil
		}
	}
	return "", schema.InvalidValue("tool_choice", "'tool_choice' must be none, auto, required or a function.")
}
