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
	w.name("tools")
	w.out = append(w.out, '[')
	i := 0
	for tool := w.scan(&w.calls, field).First(); tool.Kind() != jsonscan.Absent; tool = tool.Next() {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.tool(tool); err != nil {
			param := "tools[" + strconv.Itoa(i) + "]"
			return schema.InvalidValue(param, "'"+param+"' "+err.Message)
		}
		i++
	}
	w.out = append(w.out, ']')
	return w.writeToolChoice()
}

func (w *requestWriter) tool(tool jsonscan.Value) *schema.Error {
	function := tool.Get("function")
	if !function.Given() && tool.Get("name").Kind() == jsonscan.String {
		w.out = append(w.out, tool.Raw()...) // a tool in the backend's own words
		return nil
	}
	name := function.Get("name")
	if len(dialect.RawText(name)) == 0 {
		return schema.InvalidValue("", "must be a function with a name: this backend takes no other tools.")
	}
	w.out = append(append(w.out, `{"name":`...), name.Raw()...)
	if description := function.Get("description"); description.Given() {
		w.out = append(append(w.out, `,"description":`...), description.Raw()...)
	}
	w.out = append(w.out, `,"input_schema":`...)
	w.inputSchema(function.Get("parameters"))
	if function.Get("strict").Kind() == jsonscan.True {
		w.out = append(w.out, `,"strict":true`...)
	}
	w.out = endBlock(w.out, tool.Get("cache_control"))
	return nil
}

// inputSchema writes the schema of a tool's input, which must be there and must
// say that it is an object.
func (w *requestWriter) inputSchema(parameters jsonscan.Value) {
	if parameters.Kind() != jsonscan.Object || parameters.Empty() {
		w.out = append(w.out, `{"type":"object","properties":{}}`...)
		return
	}
	raw := parameters.Raw()
	if w.scan(&w.deep, parameters).Get("type").Kind() == jsonscan.Absent {
		w.out = append(w.out, `{"type":"object",`...)
		raw = raw[1:]
	}
	w.out = append(w.out, raw...)
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
	w.name("tool_choice")
	w.out = append(append(append(w.out, `{"type":"`...), kind...), '"')
	if name.Given() {
		w.out = append(append(w.out, `,"name":`...), name.Raw()...)
	}
	if single && kind != "none" {
		w.out = append(w.out, `,"disable_parallel_tool_use":true`...)
	} else if own := w.req.Field("tool_choice").Get("disable_parallel_tool_use"); own.Given() {
		w.out = append(append(w.out, `,"disable_parallel_tool_use":`...), own.Raw()...)
	}
	w.out = append(w.out, '}')
	return nil
}

// toolChoice reads the wish which tool to use, in the unified words or in the
// backend's own, and returns the backend's word for it, empty if there is none.
func (w *requestWriter) toolChoice() (kind string, name jsonscan.Value, err *schema.Error) {
	field := w.req.Field("tool_choice")
	if !field.Given() {
		return "", jsonscan.Value{}, nil
	}
	choice := w.scan(&w.deep, field)
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
