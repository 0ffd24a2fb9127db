package gemini

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// addTools adds the tools and the choice among them.
func addTools(body *jsonwrite.Members, asked *chat.Request, schemas *schemaBudget) error {
	if len(asked.Tools) > 0 {
		list, err := toolList(asked.Tools, schemas)
		if err != nil {
			return err
		}
		body.Add("tools", list)
	}
	if !asked.ToolChoice.Given() {
		return nil
	}
	calling, err := callingConfig(&asked.ToolChoice)
	if err != nil {
		return err
	}
	var config jsonwrite.Members
	config.Add("functionCallingConfig", calling)
	for _, name := range []string{"toolConfig", "tool_config"} {
		for m := range asked.Other(name).All() {
			config.AddField(lowerCamel(string(m.Key())), m)
		}
	}
	body.Add("toolConfig", config.Object())
	return nil
}

// toolList writes the functions as one tool, and after it the tools that the
// caller wrote in the backend's own words.
func toolList(tools []chat.Tool, schemas *schemaBudget) ([]byte, error) {
	var functions, native jsonwrite.Writer
	for i := range tools {
		tool, place := &tools[i], schema.Element("tools", i)
		switch {
		case tool.Type == chat.FunctionTool:
			if err := writeDeclaration(&functions, tool, place+".function", schemas); err != nil {
				return nil, err
			}
		case tool.Type != "":
			return nil, schema.BadField(place+".type", "value.only_here", "known", "function")
		case tool.Raw[0] != '{':
			return nil, schema.BadField(place, "value.object")
		default:
			native.Raw(tool.Raw)
		}
	}
	var list jsonwrite.Writer
	list.Array()
	if len(functions.Out) > 0 {
		list.Open(`{"functionDeclarations":[`).Raw(functions.Out)
		list.Close("]}")
	}
	if len(native.Out) > 0 {
		list.Raw(native.Out)
	}
	list.EndArray()
	return list.Out, nil
}

// writeDeclaration writes the description of a function for the model.
func writeDeclaration(w *jsonwrite.Writer, tool *chat.Tool, place string, schemas *schemaBudget) error {
	if !tool.IsFunction || tool.Name == nil {
		return schema.MissingParameter(place + ".name")
	}
	w.Object()
	w.EscapedMember("name", tool.Name)
	if len(tool.Description) > 0 && tool.Description[0] == '"' {
		w.Member("description", tool.Description)
	}
	if tool.Schema != nil {
		reduced, err := schemas.reduce(tool.Schema, place+".parameters")
		if err != nil {
			return err
		}
		// A function without parameters must have no schema of them either.
		if len(reduced.properties) > 0 {
			w.Name("parameters")
			reduced.write(w, false)
		}
	}
	w.EndObject()
	return nil
}

// callingConfig writes how the model may choose among the functions.
func callingConfig(choice *chat.ToolChoice) ([]byte, error) {
	switch {
	case choice.Name != nil:
		return slices.Concat([]byte(`{"mode":"ANY","allowedFunctionNames":["`), choice.Name, []byte(`"]}`)), nil
	case choice.Mode == "auto":
		return []byte(`{"mode":"AUTO"}`), nil
	case choice.Mode == "none":
		return []byte(`{"mode":"NONE"}`), nil
	case choice.Mode == "required", choice.Mode == "any":
		return []byte(`{"mode":"ANY"}`), nil
	case choice.Allowed == nil || slices.ContainsFunc(choice.Allowed, func(name chat.Text) bool { return name == nil }):
		return nil, schema.BadField("tool_choice", "value.choice_allowed")
	}
	// A choice among some of the functions. AUTO takes no names; the mode that leaves the
	// model free and takes them is VALIDATED.
	var w jsonwrite.Writer
	if choice.Must {
		w.Open(`{"mode":"ANY","allowedFunctionNames":[`)
	} else {
		w.Open(`{"mode":"VALIDATED","allowedFunctionNames":[`)
	}
	for _, name := range choice.Allowed {
		w.Escaped(name)
	}
	w.Close("]}")
	return w.Out, nil
}
