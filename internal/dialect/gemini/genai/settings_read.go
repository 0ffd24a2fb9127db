package genai

import (
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// readTools reads the functions that the model may call. Tools that the provider runs
// cannot be replaced.
func (r *reader) readTools() *schema.Error {
	tools := r.root.Get("tools")
	if !tools.Given() {
		return nil
	}
	if tools.Kind() != jsonscan.Array {
		return schema.BadField("tools", "value.array")
	}
	for i, tool := range r.room.All(r.deep.Rescan(tools)) {
		place := schema.Element("tools", i)
		for m := range tool.All() {
			switch name := string(m.Key()); name {
			case "functionDeclarations", "function_declarations":
				r.Tools = chat.Grow(&r.room, r.Tools, m)
				for _, f := range r.room.All(m) {
					if err := r.readFunction(f); err != nil {
						return err.Within(place)
					}
				}
			default:
				if m.Given() {
					return schema.BadField(place, "value.tool_field", "tool", name)
				}
			}
		}
	}
	return nil
}

func (r *reader) readFunction(f jsonscan.Value) *schema.Error {
	tool := chat.Tool{Type: chat.FunctionTool, IsFunction: true, Name: chat.TextIn(f, "name"),
		Description: chat.Given(f.Get("description"))}
	if len(tool.Name) == 0 {
		return schema.BadField("functionDeclarations", "value.has_name")
	}
	if own := member(f, "parametersJsonSchema", "parameters_json_schema"); own.Given() {
		tool.Schema = own.Raw()
	} else if parameters := f.Get("parameters"); parameters.Given() {
		tool.Schema = jsonSchema(parameters)
	}
	r.Tools = append(r.Tools, tool)
	return nil
}

// readToolConfig reads which functions the model is to call. Functions that it may not
// call are left out.
func (r *reader) readToolConfig() *schema.Error {
	config := member(r.root, "toolConfig", "tool_config")
	if !config.Given() {
		return nil
	}
	calling := member(r.parts.Rescan(config), "functionCallingConfig", "function_calling_config")
	allowed := map[string]bool{}
	for v := range member(calling, "allowedFunctionNames", "allowed_function_names").All() {
		allowed[string(v.Text())] = true
	}
	if len(allowed) > 0 {
		r.Tools = slices.DeleteFunc(r.Tools, func(tool chat.Tool) bool { return !allowed[tool.Name.String()] })
	}
	if len(r.Tools) == 0 {
		return nil
	}
	switch mode := strings.ToUpper(string(calling.TextOf("mode"))); mode {
	case "", "MODE_UNSPECIFIED":
	case "AUTO", "VALIDATED":
		r.ToolChoice.Mode = "auto"
	case "ANY":
		r.ToolChoice.Mode = "required"
	case "NONE":
		r.ToolChoice.Mode = "none"
	default:
		return schema.BadField("toolConfig.functionCallingConfig.mode",
			"value.or", "known", "AUTO, ANY, NONE", "last", "VALIDATED")
	}
	return nil
}

// readConfig reads how the answer is to be made.
func (r *reader) readConfig() *schema.Error {
	config := member(r.root, "generationConfig", "generation_config")
	if !config.Given() {
		return nil
	}
	if config.Kind() != jsonscan.Object {
		return schema.BadField("generationConfig", "value.object")
	}
	for _, f := range []struct {
		name, other string
		to          *jsonscan.Value
	}{
		{"maxOutputTokens", "max_output_tokens", &r.MaxTokens}, {"temperature", "temperature", &r.Temperature},
		{"topP", "top_p", &r.TopP},
		{"topK", "top_k", &r.TopK}, {"seed", "seed", &r.Seed}, {"candidateCount", "candidate_count", &r.N},
		{"presencePenalty", "presence_penalty", &r.PresencePenalty},
		{"frequencyPenalty", "frequency_penalty", &r.FrequencyPenalty},
	} {
		v := member(config, f.name, f.other)
		if v.Given() && v.Kind() != jsonscan.Number {
			return schema.BadField("generationConfig."+f.name, "value.number")
		}
		*f.to = v
	}
	if n, ok := r.N.Int(); ok && n == 1 {
		r.N = jsonscan.Value{} // which not every backend takes
	}
	if stop := member(config, "stopSequences", "stop_sequences"); stop.Kind() == jsonscan.Array && !stop.Empty() {
		r.Stop = stop
	}
	if logprobs := member(config, "responseLogprobs", "response_logprobs"); logprobs.Kind() == jsonscan.True {
		r.Logprobs, r.TopLogprobs = logprobs.Raw(), config.Get("logprobs")
	}
	if err := refuseModalities(member(config, "responseModalities", "response_modalities")); err != nil {
		return err
	}
	r.readThinking(member(config, "thinkingConfig", "thinking_config"))
	return r.readFormat(config)
}

// refuseModalities returns an error for answers that are no text.
func refuseModalities(list jsonscan.Value) *schema.Error {
	for v := range list.All() {
		if !strings.EqualFold(string(v.Text()), "TEXT") {
			return schema.BadField("generationConfig.responseModalities", "value.only", "known", "TEXT")
		}
	}
	return nil
}

// readThinking reads how hard the model is to think, as a hint: many models refuse to be
// told an effort.
func (r *reader) readThinking(thinking jsonscan.Value) {
	if level := strings.ToLower(string(member(thinking, "thinkingLevel", "thinking_level").Text())); level != "" {
		switch level {
		case "minimal", "low", "medium", "high":
			r.EffortHint = level
		}
		return
	}
	switch budget, ok := member(thinking, "thinkingBudget", "thinking_budget").Int(); {
	case !ok, budget < 0:
	case budget == 0:
		r.EffortHint = "none"
	default:
		r.EffortHint = chat.EffortOf(budget)
	}
}

// readFormat reads the form that the answer is to have.
func (r *reader) readFormat(config jsonscan.Value) *schema.Error {
	kind := string(member(config, "responseMimeType", "response_mime_type").Text())
	shape := member(config, "responseJsonSchema", "response_json_schema")
	var form []byte
	if shape.Given() {
		form = shape.Raw()
	} else if shape = member(config, "responseSchema", "response_schema"); shape.Given() {
		form = jsonSchema(r.deep.Rescan(shape))
	}
	switch kind {
	case "", "text/plain":
		return nil
	case "application/json":
	default:
		return schema.BadField("generationConfig.responseMimeType",
			"value.or_model", "known", "text/plain", "last", "application/json")
	}
	r.Format = chat.Format{Given: true, Type: "json_object"}
	if form != nil {
		r.Format = chat.SchemaFormat(form)
	}
	return nil
}

// jsonSchema writes a schema of the API as a JSON Schema: the API has the names of types in
// capitals, nullable in place of a type, and numbers as texts.
func jsonSchema(v jsonscan.Value) []byte {
	var w jsonwrite.Writer
	writeSchema(&w, v, 0)
	return w.Out
}

// deepestSchema bounds how deep a schema is.
const deepestSchema = 64

func writeSchema(w *jsonwrite.Writer, v jsonscan.Value, depth int) {
	if v.Kind() != jsonscan.Object || depth > deepestSchema {
		w.Raw(v.Raw())
		return
	}
	isNullable := v.IsTrue("nullable")
	w.Object()
	for m := range v.All() {
		switch name := string(m.Key()); name {
		case "type":
			w.Name("type")
			writeType(w, m, isNullable)
		case "nullable", "propertyOrdering", "property_ordering", "example":
		case "properties", "$defs", "defs":
			w.TextName(name).Object()
			for p := range m.All() {
				w.TextName(string(p.Key()))
				writeSchema(w, p, depth+1)
			}
			w.EndObject()
		case "items", "additionalProperties":
			w.Name(name)
			writeSchema(w, m, depth+1)
		case "anyOf", "any_of":
			w.Name("anyOf").Array()
			for s := range m.All() {
				writeSchema(w, s, depth+1)
			}
			w.EndArray()
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
			w.Name(name)
			if n, err := strconv.ParseInt(string(m.Text()), 10, 64); err == nil {
				w.Int(n)
			} else {
				w.Raw(m.Raw())
			}
		case "format":
			if format := string(m.Text()); format != "enum" {
				w.Copy(m)
			}
		default:
			w.Copy(m)
		}
	}
	w.EndObject()
}

// writeType writes the name of a type.
func writeType(w *jsonwrite.Writer, v jsonscan.Value, isNullable bool) {
	if v.Kind() != jsonscan.String {
		w.Raw(v.Raw())
		return
	}
	name := jsonwrite.AppendText(nil, strings.ToLower(string(v.Text())))
	if !isNullable {
		w.Raw(name)
		return
	}
	w.Array()
	w.Raw(name)
	w.Literal(`"null"`)
	w.EndArray()
}
