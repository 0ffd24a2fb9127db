package anthropic

import (
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// writeTools writes the tools and the choice among them. The backend takes only both
// together.
func (w *requestWriter) writeTools() *schema.Error {
	if len(w.Tools) == 0 {
		return nil
	}
	w.Name("tools").Array()
	for i := range w.Tools {
		if err := w.tool(&w.Tools[i]); err != nil {
			return err.WithinElement("tools", i)
		}
	}
	w.EndArray()
	return w.writeToolChoice()
}

func (w *requestWriter) tool(tool *chat.Tool) *schema.Error {
	switch {
	case !tool.IsFunction && tool.Name != nil:
		w.Raw(tool.Raw) // a tool in the backend's own words
		return nil
	case !tool.IsFunction || len(tool.Name) == 0:
		return schema.BadField("", "value.function_here")
	}
	w.Object()
	w.EscapedMember("name", tool.Name)
	w.Given("description", tool.Description)
	w.Name("input_schema")
	w.inputSchema(tool.Schema)
	if string(tool.Strict) == "true" {
		w.Literal(`"strict":true`)
	}
	w.endBlock(tool.Cache)
	return nil
}

// inputSchema writes the schema of a tool's input, which must be there and must
// say that it is an object.
func (w *requestWriter) inputSchema(parameters []byte) {
	w.deep.AllowDuplicateKeys = true
	if w.deep.Parse(parameters) != nil || w.deep.Root().Kind() != jsonscan.Object || w.deep.Root().Empty() {
		w.Literal(`{"type":"object","properties":{}}`)
		return
	}
	if w.deep.Root().Get("type").Kind() != jsonscan.Absent {
		w.Raw(parameters)
		return
	}
	w.beginBlock("object")
	for m := range w.deep.Root().All() {
		w.Copy(m)
	}
	w.EndObject()
}

func (w *requestWriter) writeToolChoice() *schema.Error {
	kind, err := w.toolChoice()
	if err != nil {
		return err
	}
	if kind == "" {
		if !w.SingleCall {
			return nil
		}
		kind = "auto"
	}
	w.Name("tool_choice")
	w.beginBlock(kind)
	if kind == "tool" {
		w.EscapedMember("name", w.ToolChoice.Name)
	}
	if w.SingleCall && kind != "none" {
		w.Literal(`"disable_parallel_tool_use":true`)
	} else {
		w.Field("disable_parallel_tool_use", w.Other("tool_choice").Get("disable_parallel_tool_use"))
	}
	w.EndObject()
	return nil
}

// toolChoice returns the backend's word for the choice of tools, empty if nothing is
// said.
func (w *requestWriter) toolChoice() (kind string, err *schema.Error) {
	switch choice := &w.ToolChoice; choice.Mode {
	case "auto", "none", "any":
		return choice.Mode, nil
	case "required":
		return "any", nil
	case chat.FunctionTool:
		if len(choice.Name) > 0 {
			return "tool", nil
		}
	case "":
		if !choice.Given() {
			return "", nil
		}
	}
	return "", schema.BadField("tool_choice", "value.choice_named_function")
}
