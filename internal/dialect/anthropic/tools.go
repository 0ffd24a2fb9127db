package anthropic

import (
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// writeTools writes the tools and the wish which of them to use, which the
// backend takes only together.
func (w *requestWriter) writeTools() *schema.Error {
	field := w.req.Field("tools")
	if field.Kind() != jsonscan.Array || field.Empty() {
		return nil
	}
	w.Name("tools")
	w.Array()
	i := 0
	for tool := dialect.Rescan(&w.calls, field).First(); tool.Kind() != jsonscan.Absent; tool = tool.Next() {
		if err := w.tool(tool); err != nil {
			param := "tools[" + strconv.Itoa(i) + "]"
			return schema.InvalidValue(param, "'"+param+"' "+err.Message)
		}
		i++
	}
	w.EndArray()
	return w.writeToolChoice()
}

func (w *requestWriter) tool(tool jsonscan.Value) *schema.Error {
	function := tool.Get("function")
	if !function.Given() && tool.Get("name").Kind() == jsonscan.String {
		w.Raw(tool.Raw()) // a tool in the backend's own words
		return nil
	}
	name := function.Get("name")
	if len(dialect.RawText(name)) == 0 {
		return schema.InvalidValue("", "must be a function with a name: this backend takes no other tools.")
	}
	w.Object()
	w.Member("name", name.Raw())
	w.Field("description", function.Get("description"))
	w.Name("input_schema")
	w.inputSchema(function.Get("parameters"))
	if function.Get("strict").Kind() == jsonscan.True {
		w.Name("strict")
		w.Literal("true")
	}
	w.endBlock(tool.Get("cache_control"))
	return nil
}

// inputSchema writes the schema of a tool's input, which must be there and must
// say that it is an object.
func (w *requestWriter) inputSchema(parameters jsonscan.Value) {
	if parameters.Kind() != jsonscan.Object || parameters.Empty() {
		w.Literal(`{"type":"object","properties":{}}`)
		return
	}
	if dialect.Rescan(&w.deep, parameters).Get("type").Kind() != jsonscan.Absent {
		w.Raw(parameters.Raw())
		return
	}
	w.beginBlock("object")
	for m := w.deep.Root().First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		w.Copy(m)
	}
	w.EndObject()
}

func (w *requestWriter) writeToolChoice() *schema.Error {
	single := w.req.Field("parallel_tool_calls").Kind() == jsonscan.False
	kind, name, err := w.toolChoice()
	if err != nil {
		return err
	}
	if kind == "" {
		if !single {
			return nil
		}
		kind = "auto"
	}
	w.Name("tool_choice")
	w.beginBlock(kind)
	w.Field("name", name)
	if single && kind != "none" {
		w.Name("disable_parallel_tool_use")
		w.Literal("true")
	} else {
		w.Field("disable_parallel_tool_use", w.req.Field("tool_choice").Get("disable_parallel_tool_use"))
	}
	w.EndObject()
	return nil
}

// toolChoice reads the wish which tool to use, in the unified words or in the
// backend's own, and returns the backend's word for it, empty if there is none.
func (w *requestWriter) toolChoice() (kind string, name jsonscan.Value, err *schema.Error) {
	field := w.req.Field("tool_choice")
	if !field.Given() {
		return "", jsonscan.Value{}, nil
	}
	choice := dialect.Rescan(&w.deep, field)
	word := choice.Text()
	if choice.Kind() == jsonscan.Object {
		word = choice.Get("type").Text()
	}
	switch string(word) {
	case "auto", "none", "any":
		return string(word), jsonscan.Value{}, nil
	case "required":
		return "any", jsonscan.Value{}, nil
	case "function":
		name = choice.Get("function").Get("name")
	case "tool":
		name = choice.Get("name")
	}
	if len(dialect.RawText(name)) == 0 {
		return "", name, schema.InvalidValue("tool_choice", "'tool_choice' must be auto, none, required, or a function with a name.")
	}
	return "tool", name, nil
}
