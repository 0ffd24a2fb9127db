package config

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// Meaning returns the documentation of a setting, by the heading of its table and its
// name there, such as "## server" and "server.tls.key".
type Meaning func(heading, key string) string

// JSONSchema returns the JSON Schema of a configuration file, for editors. It is
// derived from the types of the settings, and knows their shapes, spellings and names;
// the rules that compare values are left to Load.
func JSONSchema(meaning Meaning) map[string]any {
	d := schemaDeriver{meaning: meaning, definitions: map[string]any{
		"reference": map[string]any{"type": "string", "pattern": `\$\{`},
	}}
	root := d.object(reflect.TypeFor[Document](), schemaPlace{})
	// All settings may be below one leading name, and a key may be the full name of a
	// setting.
	root["properties"].(map[string]any)["patchbay"] = map[string]any{"$ref": "#"}
	root["patternProperties"].(map[string]any)[`^[A-Za-z_-]+\.`] = map[string]any{}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Configuration of Patchbay"
	root["$defs"] = d.definitions
	return root
}

type schemaDeriver struct {
	meaning     Meaning
	definitions map[string]any
}

// schemaPlace is where the documentation has a setting.
type schemaPlace struct{ heading, key, name string }

func (p schemaPlace) member(name string) schemaPlace {
	if p.heading == "" {
		return schemaPlace{heading: "## " + name, key: name, name: name}
	}
	return schemaPlace{p.heading, join(p.key, name), name}
}

// item is the place of the members of a list, which have a table of their own.
func (p schemaPlace) item() schemaPlace { return schemaPlace{heading: "### " + p.name, name: p.name} }

// of returns the schema of the values of a type.
func (d schemaDeriver) of(typ reflect.Type, at schemaPlace) map[string]any {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if s := scalarSchema(typ); s != nil {
		return s
	}
	switch typ.Kind() {
	case reflect.Slice:
		list := map[string]any{"type": "array", "items": d.of(typ.Elem(), at.item())}
		if _, single := reflect.Zero(typ).Interface().(oneOrMore); single {
			return anyOf(list["items"], list)
		}
		return anyOf(list, refersTo("reference"))
	case reflect.Map:
		_, names := namesOf(typ.Key())
		if names == nil {
			if !isScalarType(typ.Elem()) {
				at.key = join(at.key, "NAME") // as the documentation calls each
			}
			return map[string]any{"type": []string{"object", "null"}, "additionalProperties": d.of(typ.Elem(), at)}
		}
		properties, spellings := map[string]any{}, map[string]any{}
		at.key = "" // they share one table
		for _, name := range names {
			properties[name] = d.of(typ.Elem(), at)
			maps.Copy(spellings, spelled(name, properties[name]))
		}
		return map[string]any{"type": []string{"object", "null"}, "properties": properties,
			"patternProperties": spellings, "additionalProperties": false}
	}
	// A type may be documented in several places, such as timeouts.
	name := strings.Trim(strings.ToLower(path.Base(typ.PkgPath()))+"-"+
		strings.ReplaceAll(strings.TrimLeft(at.heading, "# ")+"-"+at.key, ".", "-"), "-")
	if _, done := d.definitions[name]; !done {
		d.definitions[name] = nil // types do not contain themselves
		d.definitions[name] = d.object(typ, at)
	}
	return refersTo(name)
}

func (d schemaDeriver) object(typ reflect.Type, at schemaPlace) map[string]any {
	choices := map[string][]string{}
	if value, has := reflect.Zero(typ).Interface().(interface{ Choices() map[string][]string }); has {
		choices = value.Choices()
	}
	properties, spellings := map[string]any{}, map[string]any{}
	for _, f := range fieldsOf(typ) {
		member, tag := at.member(f.name), typ.FieldByIndex(f.index).Tag
		s := d.of(typ.FieldByIndex(f.index).Type, member)
		jsonName, _, _ := strings.Cut(tag.Get("json"), ",")
		if kind := typ.FieldByIndex(f.index).Type.Kind(); kind == reflect.Int || kind == reflect.Float64 {
			bounded(s, tag)
		}
		if values := choices[jsonName]; values != nil {
			s = anyOf(map[string]any{"enum": values}, map[string]any{"type": "string"}) // aliases are read too
		}
		if text := d.meaning(member.heading, member.key); text != "" {
			s["description"] = text
		} else if text := tag.Get("doc"); text != "" {
			s["description"] = text
		}
		properties[f.name] = s
		maps.Copy(spellings, spelled(f.name, s))
	}
	return map[string]any{"type": []string{"object", "null"}, "properties": properties, "patternProperties": spellings,
		"additionalProperties": false}
}

// bounded gives the numbers among the alternatives of a setting the bounds of its tag.
func bounded(s map[string]any, tag reflect.StructTag) {
	alternatives, _ := s["anyOf"].([]any)
	for _, keyword := range []string{"minimum", "maximum"} {
		bound, err := strconv.ParseFloat(tag.Get(keyword), 64)
		if number, isNumber := first(alternatives)["type"]; err == nil && isNumber && number != "boolean" {
			first(alternatives)[keyword] = bound
		}
	}
}

func first(alternatives []any) map[string]any {
	if len(alternatives) == 0 {
		return nil
	}
	one, _ := alternatives[0].(map[string]any)
	return one
}

func refersTo(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

func anyOf(alternatives ...any) map[string]any { return map[string]any{"anyOf": alternatives} }

// spelled returns the other spellings of a name of several words: camelCase and
// snake_case.
func spelled(name string, s any) map[string]any {
	words := strings.Split(name, "-")
	if len(words) == 1 {
		return nil
	}
	var pattern strings.Builder
	for i, word := range words {
		if i == 0 {
			pattern.WriteString("^" + word)
			continue
		}
		fmt.Fprintf(&pattern, "[-_]?%s%s", anyCase(word[:1]), word[1:])
	}
	return map[string]any{pattern.String() + "$": s}
}

// anyCase returns a pattern for a text in any case, with - or _.
func anyCase(text string) string {
	var pattern strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsLetter(r):
			fmt.Fprintf(&pattern, "[%c%c]", unicode.ToLower(r), unicode.ToUpper(r))
		case r == '-' || r == '_':
			pattern.WriteString("[-_]?")
		default:
			pattern.WriteRune(r)
		}
	}
	return pattern.String()
}

// scalarSchema returns the schema of values that are written as one word, or nil.
func scalarSchema(typ reflect.Type) map[string]any {
	text := map[string]any{"type": "string"}
	withUnit := func(pattern string) map[string]any {
		return anyOf(map[string]any{"type": "integer", "minimum": 0},
			map[string]any{"type": "string", "pattern": pattern}, refersTo("reference"))
	}
	switch typ {
	case reflect.TypeFor[backend.Secret](), reflect.TypeFor[netip.Prefix](), reflect.TypeFor[metrics.Interval]():
		return text
	case reflect.TypeFor[schema.Duration](), reflect.TypeFor[quota.Timeout]():
		return withUnit(`^([0-9.]+(ms|s|m|h))+$|^[0-9]+$`)
	case reflect.TypeFor[schema.Bytes]():
		return withUnit(`^[0-9]+ *([kKmMgG]?[iI]?[bB])?$`)
	case reflect.TypeFor[backend.Concurrency]():
		return anyOf(map[string]any{"type": "integer", "minimum": -1},
			map[string]any{"type": "string", "pattern": `^(auto|-1|[0-9]+)$`}, refersTo("reference"))
	case reflect.TypeFor[prices.Amount]():
		return anyOf(map[string]any{"type": "number", "minimum": 0},
			map[string]any{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?$`}, refersTo("reference"))
	case reflect.TypeFor[quota.Period]():
		return withUnit(`^[0-9]+ *[a-z]*$`)
	}
	if _, names := namesOf(typ); names != nil {
		var patterns []string
		for _, name := range names {
			patterns = append(patterns, anyCase(name))
		}
		return anyOf(map[string]any{"enum": names},
			map[string]any{"type": "string", "pattern": "^(" + strings.Join(patterns, "|") + ")$"},
			refersTo("reference"))
	}
	if !isScalarType(typ) {
		return nil
	}
	switch typ.Kind() {
	case reflect.Bool:
		return anyOf(map[string]any{"type": "boolean"}, refersTo("reference"))
	case reflect.Float64, reflect.Float32:
		return anyOf(map[string]any{"type": "number"}, refersTo("reference"))
	case reflect.Int, reflect.Int64, reflect.Int32:
		return anyOf(map[string]any{"type": "integer"}, refersTo("reference"))
	}
	// A text may look like a number or a switch.
	return map[string]any{"type": []string{"string", "number", "boolean"}}
}
