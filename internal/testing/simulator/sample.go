package simulator

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	deepestSample = 8
	longestSample = 16 << 10
)

// jsonSchema is the part of JSON schema that samples follow.
type jsonSchema struct {
	Ref          string           `json:"$ref"`
	Type         jsontext.Value   `json:"type"`
	Const        jsontext.Value   `json:"const"`
	Enum         []jsontext.Value `json:"enum"`
	Default      jsontext.Value   `json:"default"`
	AnyOf        []jsontext.Value `json:"anyOf"`
	OneOf        []jsontext.Value `json:"oneOf"`
	AllOf        []jsontext.Value `json:"allOf"`
	Properties   jsontext.Value   `json:"properties"`
	Items        jsontext.Value   `json:"items"`
	MinItems     int              `json:"minItems"`
	Format       string           `json:"format"`
	MinLength    int              `json:"minLength"`
	MaxLength    *int             `json:"maxLength"`
	Minimum      *float64         `json:"minimum"`
	Maximum      *float64         `json:"maximum"`
	ExclusiveMin *float64         `json:"exclusiveMinimum"`
	ExclusiveMax *float64         `json:"exclusiveMaximum"`
}

// sampleOf returns a JSON value that fits a schema, the same one each time.
func sampleOf(root jsontext.Value) []byte {
	s := sampler{root: root}
	s.value(root, "", 0)
	return s.out
}

type sampler struct {
	root jsontext.Value
	out  []byte
}

// value adds a sample; name is the property it is for.
func (s *sampler) value(raw jsontext.Value, name string, depth int) {
	var want jsonSchema
	// References may go round in circles, so both depth and length end.
	if depth > deepestSample || len(s.out) > longestSample || json.Unmarshal(raw, &want, lenient()) != nil {
		s.out = append(s.out, "null"...)
		return
	}
	switch {
	case want.Ref != "":
		s.value(s.resolve(want.Ref), name, depth+1)
	case want.Const != nil:
		s.out = append(s.out, want.Const...)
	case len(want.Enum) > 0:
		s.out = append(s.out, want.Enum[0]...)
	case want.Default != nil:
		s.out = append(s.out, want.Default...)
	case len(want.AllOf) > 0:
		s.value(want.AllOf[0], name, depth+1)
	case len(want.AnyOf) > 0:
		s.value(want.AnyOf[0], name, depth+1)
	case len(want.OneOf) > 0:
		s.value(want.OneOf[0], name, depth+1)
	default:
		s.typed(&want, name, depth)
	}
}

func (s *sampler) typed(want *jsonSchema, name string, depth int) {
	switch want.typeName() {
	case "object":
		s.object(want, depth)
	case "array":
		s.array(want, name, depth)
	case "integer":
		s.out = strconv.AppendInt(s.out, int64(math.Ceil(want.number(1))), 10)
	case "number":
		s.out = strconv.AppendFloat(s.out, want.number(1.5), 'g', -1, 64)
	case "boolean":
		s.out = append(s.out, "true"...)
	case "null":
		s.out = append(s.out, "null"...)
	default:
		s.out = appendString(s.out, want.text(name))
	}
}

func (s *sampler) object(want *jsonSchema, depth int) {
	s.out = append(s.out, '{')
	for i, property := range members(want.Properties) {
		if i > 0 {
			s.out = append(s.out, ',')
		}
		s.out = append(appendString(s.out, property.name), ':')
		s.value(property.value, property.name, depth+1)
	}
	s.out = append(s.out, '}')
}

func (s *sampler) array(want *jsonSchema, name string, depth int) {
	s.out = append(s.out, '[')
	for i := range min(max(want.MinItems, 1), 100) {
		if i > 0 {
			s.out = append(s.out, ',')
		}
		if want.Items == nil {
			s.out = append(s.out, '1')
			continue
		}
		s.value(want.Items, name, depth+1)
	}
	s.out = append(s.out, ']')
}

// resolve follows a reference inside the schema, such as "#/$defs/point".
func (s *sampler) resolve(ref string) jsontext.Value {
	at := s.root
	for _, step := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
		var next jsontext.Value
		for _, member := range members(at) {
			if member.name == step {
				next = member.value
			}
		}
		at = next
	}
	return at
}

// typeName returns the type that a schema asks for, the first one of several.
func (w *jsonSchema) typeName() string {
	var one string
	if json.Unmarshal(w.Type, &one) == nil {
		return strings.ToLower(one) // Gemini writes STRING
	}
	var several []string
	if json.Unmarshal(w.Type, &several) == nil && len(several) > 0 {
		return strings.ToLower(several[0])
	}
	switch {
	case w.Properties != nil:
		return "object"
	case w.Items != nil:
		return "array"
	}
	return "string"
}

func (w *jsonSchema) number(value float64) float64 {
	if w.Minimum != nil {
		value = max(value, *w.Minimum)
	}
	if w.ExclusiveMin != nil && value <= *w.ExclusiveMin {
		value = *w.ExclusiveMin + 1
	}
	if w.Maximum != nil {
		value = min(value, *w.Maximum)
	}
	if w.ExclusiveMax != nil && value >= *w.ExclusiveMax {
		value = *w.ExclusiveMax - 1
	}
	return value
}

func (w *jsonSchema) text(name string) string {
	switch w.Format {
	case "date-time":
		return "2026-01-31T12:00:00Z"
	case "date":
		return "2026-01-31"
	case "time":
		return "12:00:00Z"
	case "email":
		return "someone@example.com"
	case "uri", "url":
		return "https://example.com/"
	case "uuid":
		return "00000000-0000-4000-8000-000000000000"
	}
	text := strings.TrimSpace("sample " + name + " ✓")
	if missing := min(w.MinLength, longestSample) - utf8.RuneCountInString(text); missing > 0 {
		text += strings.Repeat("x", missing)
	}
	if w.MaxLength != nil && utf8.RuneCountInString(text) > *w.MaxLength {
		text = string([]rune(text)[:max(*w.MaxLength, 0)])
	}
	return text
}

type member struct {
	name  string
	value jsontext.Value
}

// members returns the members of an object in their order, which a map would lose.
func members(object jsontext.Value) []member {
	decoder := jsontext.NewDecoder(bytes.NewReader(object), lenient())
	if start, err := decoder.ReadToken(); err != nil || start.Kind() != '{' {
		return nil
	}
	var list []member
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return list
		}
		text := name.String() // the token is valid only until the next read
		value, err := decoder.ReadValue()
		if err != nil {
			return list
		}
		list = append(list, member{text, value.Clone()})
	}
	return list
}
