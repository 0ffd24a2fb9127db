package gemini

import (
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// addTools adds the tools and the choice among them.
func addTools(body *jsonwrite.Members, req *schema.Request, schemas *schemaBudget) error {
	if tools := req.Field("tools"); tools.Kind() == jsonscan.Array && !tools.Empty() {
		list, err := toolList(tools, schemas)
		if err != nil {
			return err
		}
		body.Add("tools", list)
	}
	choice := req.Field("tool_choice")
	if !choice.Given() {
		return nil
	}
	calling, err := callingConfig(choice)
	if err != nil {
		return err
	}
	var config jsonwrite.Members
	config.Add("functionCallingConfig", calling)
	for _, name := range []string{"toolConfig", "tool_config"} {
		for m := req.Field(name).First(); m.Kind() != jsonscan.Absent; m = m.Next() {
			config.AddField(lowerCamel(string(m.Key())), m)
		}
	}
	body.Add("toolConfig", config.Object())
	return nil
}

// toolList writes the functions as one tool, and after it the tools that the
// caller wrote in the backend's own words.
func toolList(tools jsonscan.Value, schemas *schemaBudget) ([]byte, error) {
	var doc jsonscan.Document
	if err := doc.Parse(tools.Raw()); err != nil {
		return nil, err
	}
	var functions, native jsonwrite.Writer
	i := 0
	for tool := doc.Root().First(); tool.Kind() != jsonscan.Absent; tool = tool.Next() {
		place := "tools[" + strconv.Itoa(i) + "]"
		i++
		switch kind := tool.Get("type"); {
		case tool.Kind() != jsonscan.Object:
			return nil, schema.InvalidValue(place, "'"+place+"' must be an object.")
		case string(kind.Text()) == "function":
			if err := writeDeclaration(&functions, tool.Get("function"), place+".function", schemas); err != nil {
				return nil, err
			}
		case kind.Given():
			return nil, schema.InvalidValue(place+".type", "'"+place+".type' must be function for this backend.")
		default:
			native.Raw(tool.Raw())
		}
	}
	var list jsonwrite.Writer
	list.Array()
	if len(functions.Out) > 0 {
		list.Open(`{"functionDeclarations":[`)
		list.Raw(functions.Out)
		list.Close("]}")
	}
	if len(native.Out) > 0 {
		list.Raw(native.Out)
	}
	list.EndArray()
	return list.Out, nil
}

// writeDeclaration writes what the model is told of a function.
func writeDeclaration(w *jsonwrite.Writer, function jsonscan.Value, place string, schemas *schemaBudget) error {
	name := function.Get("name")
	if name.Kind() != jsonscan.String {
		return schema.MissingParameter(place + ".name")
	}
	w.Object()
	w.Member("name", name.Raw())
	if v := function.Get("description"); v.Kind() == jsonscan.String {
		w.Member("description", v.Raw())
	}
	if v := function.Get("parameters"); v.Given() {
		reduced, err := schemas.reduce(v.Raw(), place+".parameters")
		if err != nil {
			return err
		}
		// A function without parameters must have no schema of them either.
		if len(reduced.properties) > 0 {
			w.Member("parameters", reduced.object(false))
		}
	}
	w.EndObject()
	return nil
}

// callingConfig writes how the model may choose among the functions.
func callingConfig(choice jsonscan.Value) ([]byte, error) {
	wrong := schema.InvalidValue("tool_choice", "'tool_choice' must be none, auto, required, a function or allowed tools.")
	if choice.Kind() == jsonscan.String {
		switch string(choice.Text()) {
		case "auto":
			return []byte(`{"mode":"AUTO"}`), nil
		case "none":
			return []byte(`{"mode":"NONE"}`), nil
		case "required", "any":
			return []byte(`{"mode":"ANY"}`), nil
		}
		return nil, wrong
	}
	var doc jsonscan.Document
	if err := doc.Parse(choice.Raw()); err != nil {
		return nil, err
	}
	root := doc.Root()
	if string(root.Get("type").Text()) == "allowed_tools" {
		return allowedFunctions(root.Get("allowed_tools"), wrong)
	}
	name := root.Get("function").Get("name")
	if name.Kind() != jsonscan.String {
		return nil, wrong
	}
	return slices.Concat([]byte(`{"mode":"ANY","allowedFunctionNames":[`), name.Raw(), []byte("]}")), nil
}

// allowedFunctions writes a choice among some of the functions. AUTO takes no
// names; the mode that leaves the model free and takes them is VALIDATED.
func allowedFunctions(allowed jsonscan.Value, wrong error) ([]byte, error) {
	mode := "VALIDATED"
	if string(allowed.Get("mode").Text()) == "required" {
		mode = "ANY"
	}
	var doc jsonscan.Document
	if err := doc.Parse(allowed.Get("tools").Raw()); err != nil {
		return nil, wrong
	}
	var w jsonwrite.Writer
	w.Object()
	w.Name("mode")
	w.Plain(mode)
	w.Name("allowedFunctionNames")
	w.Array()
	for tool := doc.Root().First(); tool.Kind() != jsonscan.Absent; tool = tool.Next() {
		name := tool.Get("function").Get("name")
		if name.Kind() != jsonscan.String {
			return nil, wrong
		}
		w.Raw(name.Raw())
	}
	w.Close("]}")
	return w.Out, nil
}
