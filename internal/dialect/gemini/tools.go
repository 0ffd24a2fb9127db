package gemini

import (
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// addTools adds the tools and the choice among them.
func addTools(body *object, req *schema.Request, schemas *schemaBudget) error {
	if tools := req.Field("tools"); tools.Kind() == jsonscan.Array && !tools.Empty() {
		list, err := toolList(tools, schemas)
		if err != nil {
			return err
		}
		body.add("tools", list)
	}
	choice := req.Field("tool_choice")
	if !choice.Given() {
		return nil
	}
	calling, err := callingConfig(choice)
	if err != nil {
		return err
	}
	var config object
	config.add("functionCallingConfig", calling)
	for _, name := range []string{"toolConfig", "tool_config"} {
		for m := req.Field(name).First(); m.Kind() != jsonscan.Absent; m = m.Next() {
			config.addField(lowerCamel(string(m.Key())), m)
		}
	}
	body.add("toolConfig", config.bytes())
	return nil
}

// toolList writes the functions as one tool, and after it the tools that the
// caller wrote in the backend's own words.
func toolList(tools jsonscan.Value, schemas *schemaBudget) ([]byte, error) {
	var doc jsonscan.Document
	if err := doc.Parse(tools.Raw()); err != nil {
		return nil, err
	}
	var functions, native []byte
	i := 0
	for tool := doc.Root().First(); tool.Kind() != jsonscan.Absent; tool = tool.Next() {
		place := "tools[" + strconv.Itoa(i) + "]"
		i++
		switch kind := tool.Get("type"); {
		case tool.Kind() != jsonscan.Object:
			return nil, schema.InvalidValue(place, "'"+place+"' must be an object.")
		case string(kind.Text()) == "function":
			if functions != nil {
				functions = append(functions, ',')
			}
			var err error
			if functions, err = appendDeclaration(functions, tool.Get("function"), place+".function", schemas); err != nil {
				return nil, err
			}
		case kind.Given():
			return nil, schema.InvalidValue(place+".type", "'"+place+".type' must be function for this backend.")
		default:
			native = append(append(native, ','), tool.Raw()...)
		}
	}
	if functions == nil {
		return append(append([]byte{'['}, native[1:]...), ']'), nil
	}
	list := append(append([]byte(`[{"functionDeclarations":[`), functions...), "]}"...)
	return append(append(list, native...), ']'), nil
}

func appendDeclaration(dst []byte, function jsonscan.Value, place string, schemas *schemaBudget) ([]byte, error) {
	name := function.Get("name")
	if name.Kind() != jsonscan.String {
		return nil, schema.MissingParameter(place + ".name")
	}
	dst = append(append(dst, `{"name":`...), name.Raw()...)
	if v := function.Get("description"); v.Kind() == jsonscan.String {
		dst = append(append(dst, `,"description":`...), v.Raw()...)
	}
	if v := function.Get("parameters"); v.Given() {
		reduced, err := schemas.reduce(v.Raw(), place+".parameters")
		if err != nil {
			return nil, err
		}
		// A function without parameters must have no schema of them either.
		if len(reduced.properties) > 0 {
			dst = reduced.append(append(dst, `,"parameters":`...), false)
		}
	}
	return append(dst, '}'), nil
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
	out := append([]byte(`{"mode":"ANY","allowedFunctionNames":[`), name.Raw()...)
	return append(out, "]}"...), nil
}

// allowedFunctions writes a choice among some of the functions. AUTO takes no
// names; the mode that leaves the model free and takes them is VALIDATED.
func allowedFunctions(allowed jsonscan.Value, wrong error) ([]byte, error) {
	out := []byte(`{"mode":"VALIDATED","allowedFunctionNames":[`)
	if string(allowed.Get("mode").Text()) == "required" {
		out = []byte(`{"mode":"ANY","allowedFunctionNames":[`)
	}
	var doc jsonscan.Document
	if err := doc.Parse(allowed.Get("tools").Raw()); err != nil {
		return nil, wrong
	}
	comma := false
	for tool := doc.Root().First(); tool.Kind() != jsonscan.Absent; tool = tool.Next() {
		name := tool.Get("function").Get("name")
		if name.Kind() != jsonscan.String {
			return nil, wrong
		}
		if comma {
			out = append(out, ',')
		}
		out, comma = append(out, name.Raw()...), true
	}
	return append(out, "]}"...), nil
}
