package gemini

import (
	"bytes"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

func (s *reducedSchema) addValues(list jsonscan.Value) {
	for v := range list.All() {
		s.addValue(v)
	}
}

func (s *reducedSchema) addValue(v jsonscan.Value) {
	switch v.Kind() {
	case jsonscan.Null:
		s.nullable = true
	case jsonscan.String:
		if len(chat.TextOf(v)) > 0 { // the backend refuses an empty choice
			s.enum = append(s.enum, v.Raw())
		}
	default:
		s.others = append(s.others, v.Raw())
	}
}

// settle brings a schema into the backend's shape, after all its members were read.
func (s *reducedSchema) settle() {
	s.settleChoices()
	if s.kind == "" && len(s.anyOf) == 0 {
		s.kind = s.guess()
	}
	if s.kind != "STRING" {
		// Choices are for strings; other values can only be told in words.
		s.others, s.enum = append(s.others, s.enum...), nil
	}
	if s.kind == "ARRAY" && s.items == nil {
		s.items = &reducedSchema{kind: "STRING"}
	}
	if !knownFormat(s.kind, s.format) {
		s.format = ""
	}
	if len(s.others) > 0 {
		hint := append([]byte("One of: "), bytes.Join(s.others, []byte(", "))...)
		if len(s.description) > 0 {
			s.description = append(slices.Clone(s.description), ' ')
		}
		s.description = append(s.description, chat.Escape(hint)...)
	}
	s.required = slices.DeleteFunc(s.required, func(name string) bool { return !s.named[name] })
}

// settleChoices takes null out of alternatives, and dissolves a single one.
// Alternatives beside a shape of its own only narrow it, which is left out.
func (s *reducedSchema) settleChoices() {
	s.anyOf = slices.DeleteFunc(s.anyOf, func(one *reducedSchema) bool {
		isNull := one.kind == "NULL"
		s.nullable = s.nullable || isNull
		return isNull
	})
	if len(s.properties) > 0 || s.items != nil || len(s.enum) > 0 {
		s.anyOf = nil
	}
	switch len(s.anyOf) {
	case 0:
	case 1:
		only := *s.anyOf[0]
		if s.description != nil {
			only.description = s.description
		}
		only.nullable = only.nullable || s.nullable
		*s = only
	default:
		s.kind = ""
	}
}

func (s *reducedSchema) guess() string {
	switch {
	case len(s.properties) > 0:
		return "OBJECT"
	case s.items != nil:
		return "ARRAY"
	}
	return "STRING"
}

func knownFormat(kind, format string) bool {
	switch kind {
	case "STRING":
		return format == "date-time" || format == "enum"
	case "NUMBER":
		return format == "float" || format == "double"
	case "INTEGER":
		return format == "int32" || format == "int64"
	}
	return false
}

// write writes the schema. The backend keeps objects in no order of their own,
// so where the answer's order matters it is written out.
func (s *reducedSchema) write(w *jsonwrite.Writer, ordered bool) {
	w.Object()
	if s.kind != "" {
		w.Name("type").Plain(s.kind)
	}
	if s.format != "" {
		w.Name("format").Plain(s.format)
	}
	if len(s.description) > 0 {
		w.Name("description").Escaped(s.description)
	}
	if s.nullable {
		w.Literal(`"nullable":true`)
	}
	if len(s.enum) > 0 {
		w.Name("enum").Array()
		w.Raw(bytes.Join(s.enum, []byte{','}))
		w.EndArray()
	}
	for _, limit := range s.limits {
		w.Member(limit.name, limit.raw)
	}
	if len(s.properties) > 0 {
		names := make([]string, 0, len(s.properties))
		w.Name("properties").Object()
		for _, p := range s.properties {
			w.TextName(p.name)
			p.schema.write(w, ordered)
			names = append(names, p.name)
		}
		w.EndObject()
		if ordered && len(s.properties) > 1 {
			writeTexts(w, "propertyOrdering", names)
		}
	}
	writeTexts(w, "required", s.required)
	if s.items != nil {
		w.Name("items")
		s.items.write(w, ordered)
	}
	if len(s.anyOf) > 0 {
		w.Name("anyOf").Array()
		for _, one := range s.anyOf {
			one.write(w, ordered)
		}
		w.EndArray()
	}
	w.EndObject()
}

// writeTexts writes a member that is a list of texts, if there are any.
func writeTexts(w *jsonwrite.Writer, name string, texts []string) {
	if len(texts) == 0 {
		return
	}
	w.Name(name).Array()
	for _, text := range texts {
		w.Text([]byte(text))
	}
	w.EndArray()
}
