package config

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
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
	if s := d.scalar(typ); s != nil {
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
		bounded(s, tag)
		if values := choices[jsonName]; values != nil {
			s = d.named(jsonName, values, folded)
		}
		s = nullable(s)
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

// bounded gives the numbers among the alternatives of a setting the bounds of its tag. A
// pattern cannot compare: of numbers in quotes only the sign is bounded.
func bounded(s map[string]any, tag reflect.StructTag) {
	alternatives, _ := s["anyOf"].([]any)
	if len(alternatives) == 0 {
		return
	}
	number := alternatives[0].(map[string]any)
	if number["type"] != "integer" && number["type"] != "number" {
		return
	}
	for _, keyword := range []string{"minimum", "maximum"} {
		if bound, err := strconv.ParseFloat(tag.Get(keyword), 64); err == nil {
			number[keyword] = bound
		}
	}
	if least, has := number["minimum"].(float64); has && least >= 0 {
		text := alternatives[1].(map[string]any)
		text["pattern"] = strings.Replace(text["pattern"].(string), signs, `^\+?`, 1)
	}
}

// nullable returns a schema that allows null, which leaves a setting at its default.
func nullable(s map[string]any) map[string]any {
	null := map[string]any{"type": "null"}
	if alternatives, has := s["anyOf"].([]any); has {
		return anyOf(append(slices.Clip(alternatives), null)...)
	}
	if types, has := s["type"].([]string); has && !slices.Contains(types, "null") {
		s["type"] = append(slices.Clip(types), "null")
	}
	return s
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

// signs begins the patterns of numbers.
const signs = `^[-+]?`

// The patterns of lengths of time: with units, in ISO 8601, and as one amount.
const (
	timePattern   = "^\\+?(([0-9]+\\.?[0-9]*|\\.[0-9]+)([num\u00b5\u03bc]?s|m|h))+$"
	isoPattern    = `^[pP]([0-9]+[dD])?([tT]([0-9]+[hH])?([0-9]+[mM])?([0-9]+([.,][0-9]{1,9})?[sS])?)?$`
	periodPattern = `^0*[1-9][0-9]*([sShHdD]|[mM][oO]?)?$`
)

// scalar returns the schema of values that are written as one word, or nil. The schemas of
// numbers can be bounded: the number is the first alternative, and its text the second.
func (d schemaDeriver) scalar(typ reflect.Type) map[string]any {
	plain := map[string]any{"type": []string{"string", "number", "boolean"}} // a text may look like a number
	text := func(pattern string) map[string]any { return map[string]any{"type": "string", "pattern": pattern} }
	integer := func(least int) map[string]any { return map[string]any{"type": "integer", "minimum": least} }
	or := func(alternatives ...any) map[string]any { return anyOf(append(alternatives, refersTo("reference"))...) }
	switch typ {
	case reflect.TypeFor[backend.Secret]():
		return plain
	case reflect.TypeFor[netip.Prefix]():
		return or(text(`^([0-9]+(\.[0-9]+){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]*)(/[0-9]+)?$`))
	case reflect.TypeFor[metrics.Interval]():
		return or(text(timePattern), text(isoPattern))
	case reflect.TypeFor[schema.Duration](), reflect.TypeFor[quota.Timeout]():
		milliseconds := integer(0)
		milliseconds["maximum"] = math.MaxInt64 / int64(time.Millisecond)
		return or(milliseconds, text(`^\+?[0-9]+$|`+timePattern))
	case reflect.TypeFor[schema.Bytes]():
		return or(integer(0), text(`^ *\+?[0-9]+ *(([kKmMgG][iI]?)?[bB])? *$`))
	case reflect.TypeFor[backend.Concurrency]():
		return or(integer(-1), text(`^(auto|-1|\+?[0-9]+)$`))
	case reflect.TypeFor[prices.Amount]():
		return or(map[string]any{"type": "number", "minimum": 0, "maximum": prices.MostMoney},
			text(`^([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,2})?$`))
	case reflect.TypeFor[quota.Period]():
		days := integer(1)
		days["maximum"] = quota.MostDays
		return or(days, text(periodPattern))
	}
	if noun, names := namesOf(typ); names != nil {
		reads := func(name string) bool {
			target, ok := reflect.New(typ).Interface().(encoding.TextUnmarshaler)
			return ok && target.UnmarshalText([]byte(name)) == nil
		}
		if reads("") {
			names = append(names, "")
		}
		spell := anyCase
		switch upper := strings.ToUpper(names[0]); {
		case reads("_" + upper):
			spell = folded
		case !reads(upper):
			spell = func(name string) string { return strings.ReplaceAll(name, "-", "[-_]") }
		}
		return d.named(path.Base(typ.PkgPath())+"-"+strings.ReplaceAll(noun, " ", "-"), names, spell)
	}
	if !isScalarType(typ) {
		return nil
	}
	switch typ.Kind() {
	case reflect.Bool:
		return or(map[string]any{"type": "boolean"},
			text("^("+anyCase("true")+"|"+anyCase("false")+"|"+anyCase("yes")+"|"+anyCase("no")+"|"+
				anyCase("on")+"|"+anyCase("off")+")$"))
	case reflect.Float64, reflect.Float32:
		return or(map[string]any{"type": "number"}, text(signs+`([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`))
	case reflect.Int, reflect.Int64, reflect.Int32:
		return or(map[string]any{"type": "integer"}, text(signs+`[0-9]+$`))
	}
	return plain
}

// named returns the schema of a value with one of some names, which spell turns into patterns.
func (d schemaDeriver) named(noun string, names []string, spell func(name string) string) map[string]any {
	patterns := make([]string, len(names))
	for i, name := range names {
		patterns[i] = spell(name)
	}
	d.definitions[noun] = anyOf(map[string]any{"enum": names},
		map[string]any{"type": "string", "pattern": "^(" + strings.Join(patterns, "|") + ")$"}, refersTo("reference"))
	return anyOf(refersTo(noun))
}

// folded returns a pattern for the names that schema.Fold makes equal to a name.
func folded(name string) string {
	return anyCase(strings.Join(strings.Split(schema.Fold(name), ""), "-"))
}
