package openapi

import (
	"encoding"
	"fmt"
	"go/token"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Schema is a JSON schema.
type Schema map[string]any

func ref(name string) Schema { return Schema{"$ref": "#/components/schemas/" + name} }

// deriver makes schemas of Go types. Every struct and every set of names
// becomes a component, which others refer to.
type deriver struct {
	components map[string]Schema
	owners     map[string]reflect.Type
	err        error // two types that would have the same name
}

func newDeriver() *deriver {
	return &deriver{components: make(map[string]Schema), owners: make(map[string]reflect.Type)}
}

// direction is the use of a schema. Requests may leave members out or null and may not have
// unknown members; forms have no null; replies have every member that is not tagged
// omitzero.
type direction uint8

const (
	inReply direction = iota
	inRequest
	inForm
)

// alternatives is a type that is documented as a choice of several others.
type alternatives interface{ Alternatives() []any }

// partial is a type that is documented as another one with every member optional.
type partial interface{ Whole() any }

// restricted is a type with rules of its own, as keywords of JSON schema.
type restricted interface{ Keywords() map[string]any }

// patterned is a struct that gives the patterns of its texts.
type patterned interface{ Patterns() map[string]string }

// documented is a struct that says more about its members than their tags have room for.
type documented interface{ Docs() map[string]string }

// limited is a struct that names the values that its texts may have.
type limited interface{ Choices() map[string][]string }

// named is a type with a name for each value.
type named interface{ Names() []string }

// of returns the schema of the JSON of a type.
func (d *deriver) of(t reflect.Type, way direction) Schema {
	switch t {
	case reflect.TypeFor[schema.Duration]():
		return duration(way)
	case reflect.TypeFor[backend.Concurrency]():
		return concurrency(way)
	case reflect.TypeFor[jsontext.Value]():
		return Schema{}
	case reflect.TypeFor[time.Time]():
		return Schema{"type": "string", "format": "date-time"}
	case reflect.TypeFor[schema.ServiceType]():
		return d.enumeration("ServiceType", serviceTypes())
	case reflect.TypeFor[web.Switch]():
		return Schema{"anyOf": []Schema{{"type": "boolean"},
			{"type": "string", "enum": []string{"", "0", "1", "t", "T", "TRUE", "True", "f", "F", "FALSE", "False"}}}}
	case reflect.TypeFor[backend.Secret]():
		return Schema{"type": "string", "pattern": `^[^\u0000-\u0008\u000a-\u001f\u007f-\u009f]*$`}
	}
	if t.Kind() == reflect.Pointer {
		if way == inReply {
			return nullable(d.of(t.Elem(), way))
		}
		return d.of(t.Elem(), way)
	}
	switch value := reflect.Zero(t).Interface().(type) {
	case alternatives:
		var list []Schema
		for _, alternative := range value.Alternatives() {
			list = append(list, d.of(reflect.TypeOf(alternative), way))
		}
		if way == inReply {
			return Schema{"anyOf": list} // an empty list may be one of several
		}
		return Schema{"oneOf": list}
	case partial:
		return d.component(reflect.TypeOf(value.Whole()), way, true)
	case named:
		return d.enumeration(typeName(t), value.Names())
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return Schema{"type": "string"}
	}
	s := d.plain(t, way)
	if value, has := reflect.Zero(t).Interface().(restricted); has && t.Kind() != reflect.Struct {
		maps.Copy(s, value.Keywords())
	}
	return s
}

// plain returns the schema of a type by its kind alone.
func (d *deriver) plain(t reflect.Type, way direction) Schema {
	switch t.Kind() {
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return Schema{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return Schema{"type": "number"}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Slice:
		return Schema{"type": "array", "items": d.of(t.Elem(), way)}
	case reflect.Map:
		return d.mapping(t, way)
	case reflect.Struct:
		return d.component(t, way, false)
	}
	return Schema{}
}

// concurrency describes how many requests an instance gets at a time, which is read as a
// word, too.
func concurrency(way direction) Schema {
	number := Schema{"type": "integer", "minimum": -1}
	if way == inReply {
		return number
	}
	return Schema{"oneOf": []Schema{number, {"type": "string", "enum": []string{"auto"}}}}
}

// duration describes a length of time, which is written as milliseconds and
// read with a unit, too.
func duration(way direction) Schema {
	milliseconds := Schema{"type": "integer", "format": "int64", "minimum": 0, "maximum": 9223372036854,
		"description": "Milliseconds."}
	if way == inReply {
		return milliseconds
	}
	return Schema{"oneOf": []Schema{milliseconds, {
		"type": "string", "pattern": `^` + durationText + `$|^0$`,
		"description": "Milliseconds, or a length of time with units, such as 1m30s.",
	}}}
}

// durationText matches lengths of time above 0.
const durationText = `([1-9][0-9]{0,8}|([1-9][0-9]{0,4}h)?([1-9][0-9]{0,5}m)?[1-9][0-9]{0,7}(s|ms)|[1-9][0-9]{0,4}[hm])`

func serviceTypes() []string {
	var names []string
	for _, serviceType := range schema.ServiceTypes() {
		names = append(names, serviceType.String())
	}
	return names
}

// enumeration makes the component of a set of names.
func (d *deriver) enumeration(name string, values []string) Schema {
	d.components[name] = Schema{"type": "string", "enum": values}
	return ref(name)
}

// mapping describes a map. A null in a request means no member.
func (d *deriver) mapping(t reflect.Type, way direction) Schema {
	values := d.of(t.Elem(), way)
	if way == inRequest && t.Elem().Kind() != reflect.Pointer {
		values = nullable(values)
	}
	s := Schema{"type": "object", "additionalProperties": values}
	if key := t.Key(); key.Kind() != reflect.String {
		s["propertyNames"] = d.of(key, way)
	}
	return s
}

// component makes the component of a struct; without a name it is described in
// place.
func (d *deriver) component(t reflect.Type, way direction, isPartial bool) Schema {
	name := typeName(t)
	if name == "" {
		return d.object(t, way, isPartial)
	}
	switch {
	case isPartial:
		name += "Changes"
	case way != inReply && !strings.HasSuffix(name, "Request"):
		name += "Input"
	}
	if owner, known := d.owners[name]; known {
		if owner != t {
			d.err = fmt.Errorf("%s and %s would both be the component %s of the OpenAPI document; rename one", owner, t,
				name)
		}
		return ref(name)
	}
	d.owners[name] = t // before its members, which may refer to it
	d.components[name] = d.object(t, way, isPartial)
	return ref(name)
}

// typeName makes the name of a component: callView of a surface is Call, also where a wing
// brings it (packages called managed...), the requests that a dialect declares have their own
// names, breaker.Settings is BreakerSettings, page[T] is TPage. A type that is made
// within a function has a name as well.
func typeName(t reflect.Type) string {
	owner := path.Base(t.PkgPath())
	name, argument, isGeneric := strings.Cut(t.Name(), "[")
	if name == "Choice" { // it has the name of what lists its values
		owner, name, _ = strings.Cut(strings.TrimSuffix(path.Base(argument), "]"), ".")
		isGeneric = false
	}
	name = strings.TrimSuffix(upperFirst(name), "View")
	if isGeneric {
		argument = strings.TrimSuffix(argument, "]")
		argument = strings.TrimSuffix(argument[strings.LastIndexAny(argument, "./")+1:], "View")
		return upperFirst(argument) + name
	}
	isShared := owner == "schema" || owner == "shape" || owner == "config" || owner == "control" ||
		owner == "differences" || strings.Contains(t.PkgPath(), "/web") || strings.HasPrefix(owner, "managed") ||
		strings.Contains(t.PkgPath(), "/dialect/") && !token.IsExported(t.Name())
	if name == "" || isShared || strings.HasPrefix(strings.ToLower(name), owner) {
		return name
	}
	return upperFirst(owner) + name
}

func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// eitherMember describes a member that a request must have unless it has another one;
// nil if there is none. It is a condition, which validators check and which leaves the
// types alone that generators of clients make.
func eitherMember(fields map[string]reflect.StructField) Schema {
	for name, field := range fields {
		other := field.Tag.Get("requiredWithout")
		if other == "" {
			continue
		}
		other, isNonEmpty := strings.CutSuffix(other, " nonempty")
		given := Schema{"not": Schema{"type": "null"}}
		unless := maps.Clone(given)
		if isNonEmpty {
			unless["minItems"] = 1
		}
		needs := func(member string, rule Schema) Schema {
			return Schema{"required": []string{member}, "properties": map[string]Schema{member: rule}}
		}
		return Schema{"if": needs(other, unless), "else": needs(name, given)}
	}
	return nil
}

// object describes the members of a struct.
func (d *deriver) object(t reflect.Type, way direction, isPartial bool) Schema {
	properties, required := make(map[string]Schema), []string{}
	patterns, choices := map[string]string{}, map[string][]string{}
	if value, has := reflect.Zero(t).Interface().(patterned); has {
		patterns = value.Patterns()
	}
	if value, has := reflect.Zero(t).Interface().(limited); has {
		choices = value.Choices()
	}
	fields, isOpen := membersOf(t)
	for name, field := range fields {
		_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if way == inReply && strings.Contains(options, "omitzero") {
			field.Tag = `empty:"" ` + field.Tag // an empty one is left out
		}
		s := described(d.of(field.Type, way), field.Tag)
		if pattern := patterns[name]; pattern != "" && way != inReply {
			textsOf(s)["pattern"] = pattern
		}
		if values := choices[name]; values != nil && way != inReply { // a stored value may be from another release
			s["enum"] = values
		}
		isRequired := field.Tag.Get("required") == "true" && !isPartial
		if way == inReply {
			isRequired = !strings.Contains(options, "omitzero")
			delete(s, "pattern") // it is a rule for requests
		} else if !isRequired && way == inRequest {
			s = nullable(s)
		}
		properties[name] = s
		if isRequired {
			required = append(required, name)
		}
	}
	s := Schema{"type": "object", "properties": properties}
	if way == inRequest && !isPartial {
		maps.Copy(s, eitherMember(fields))
	}
	if len(required) > 0 {
		slices.Sort(required)
		s["required"] = required
	}
	if value, has := reflect.Zero(t).Interface().(restricted); has {
		maps.Copy(s, value.Keywords())
	}
	if isOpen || way != inReply {
		s["additionalProperties"] = isOpen
	}
	if isOpen && way == inForm { // the headers of parts carry the names
		s["propertyNames"] = Schema{"pattern": `^[^\x00-\x1f\x7f]*$`}
	}
	return s
}

// textsOf returns the schema of the elements of a list, or else the schema of the value.
func textsOf(s Schema) Schema {
	if elements, isList := s["items"].(Schema); isList {
		return elements
	}
	return s
}

// membersOf returns the fields of a struct that JSON has, by their names; the struct's own
// fields replace the fields of embedded structs. isOpen reports whether the struct keeps
// unknown members.
func membersOf(t reflect.Type) (fields map[string]reflect.StructField, isOpen bool) {
	fields = make(map[string]reflect.StructField)
	own := make(map[string]reflect.StructField)
	docs := map[string]string{}
	if value, has := reflect.Zero(t).Interface().(documented); has {
		docs = value.Docs()
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case options == "unknown":
			isOpen = true
		case field.Anonymous && name == "":
			embedded, opens := membersOf(field.Type)
			maps.Copy(fields, embedded)
			isOpen = isOpen || opens
		case name != "" && name != "-":
			if text := docs[name]; text != "" {
				field.Tag += reflect.StructTag(" doc:" + strconv.Quote(text))
			}
			own[name] = field
		}
	}
	maps.Copy(fields, own)
	return fields, isOpen
}

// described adds the tags of a field to a schema: doc is its description, enum the values
// that it may have, example a value to try, and the others are keywords of JSON schema.
func described(s Schema, tag reflect.StructTag) Schema {
	s = maps.Clone(s)
	for _, inner := range []string{"items", "additionalProperties"} {
		if elements, has := s[inner].(Schema); has {
			s[inner] = withText(elements, tag)
		}
	}
	if s["items"] == nil && s["additionalProperties"] == nil {
		s = withText(s, tag)
	}
	if tag.Get("empty") == "true" {
		s = Schema{"anyOf": []Schema{s, {"const": ""}}}
	}
	if text := tag.Get("doc"); text != "" {
		s["description"] = text
	}
	if text := tag.Get("example"); text != "" {
		s["examples"] = []any{exampleOf(s, text)}
	}
	if text := tag.Get("keys"); text != "" {
		s["propertyNames"] = Schema{"pattern": text}
	}
	for _, keyword := range []string{"minimum", "maximum", "minItems", "maxProperties"} {
		if number, err := strconv.ParseFloat(tag.Get(keyword), 64); err == nil {
			withBound(s, keyword, number)
		}
	}
	for _, keyword := range []string{"readOnly", "uniqueItems"} {
		if tag.Get(keyword) == "true" {
			s[keyword] = true
		}
	}
	return s
}

// withText adds the rules for a text, which hold for the elements of lists and
// maps.
func withText(s Schema, tag reflect.StructTag) Schema {
	s = maps.Clone(s)
	if text := tag.Get("enum"); text != "" {
		s["enum"] = strings.Split(text, ",")
	}
	for _, keyword := range []string{"pattern", "format", "const"} {
		if text := tag.Get(keyword); text != "" {
			s[keyword] = text
		}
	}
	if first, second, several := strings.Cut(tag.Get("format"), ","); several {
		delete(s, "format")
		s["anyOf"] = []Schema{{"format": first}, {"format": second}}
	}
	for _, keyword := range []string{"minLength", "maxLength"} {
		if number, err := strconv.Atoi(tag.Get(keyword)); err == nil {
			s[keyword] = number
		}
	}
	return s
}

// withBound adds a bound. For a length of time it bounds the form in milliseconds; the form
// as a text must then not be 0.
func withBound(s Schema, keyword string, bound float64) {
	list, isChoice := s["oneOf"].([]Schema)
	if !isChoice {
		s[keyword] = bound
		return
	}
	list = slices.Clone(list)
	list[0] = maps.Clone(list[0])
	list[0][keyword] = bound
	list[1] = maps.Clone(list[1])
	list[1]["pattern"] = `^` + durationText + `$`
	s["oneOf"] = list
}

func exampleOf(s Schema, text string) any {
	if number, err := strconv.ParseFloat(text, 64); err == nil && s["type"] != "string" {
		return number
	}
	return text
}

// nullable returns a schema that allows null as well.
func nullable(s Schema) Schema {
	kind, isPlain := s["type"].(string)
	if !isPlain {
		if len(s) == 0 {
			return s
		}
		return Schema{"anyOf": []Schema{s, {"type": "null"}}}
	}
	s = maps.Clone(s)
	s["type"] = []string{kind, "null"}
	if values, has := s["enum"].([]string); has {
		withNull := []any{nil}
		for _, value := range values {
			withNull = append(withNull, value)
		}
		s["enum"] = append(withNull[1:], nil)
	}
	return s
}
