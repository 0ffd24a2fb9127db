package gemini

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	// maxSchemaDepth is how deeply schemas may be nested, references followed.
	maxSchemaDepth = 32
	// maxSchemaRefs is how many references of one schema are followed, and
	// maxRequestRefs of all schemas of a request. maxSchemaBytes bounds their additions
	// to all of them, and maxSchemaSteps the length of the way to the target of one.
	maxSchemaRefs  = 256
	maxRequestRefs = 16 << 10
	maxSchemaBytes = 4 << 20
	maxSchemaSteps = maxSchemaDepth
)

// reducedSchema is a JSON Schema reduced to the part that the backend takes: a part of
// a schema of OpenAPI 3.0. Unknown members would be refused there.
type reducedSchema struct {
	kind        string // as the backend spells it, empty if it was not said
	nullable    bool
	description []byte // the content of a JSON string
	format      string
	enum        [][]byte // strings, as JSON
	others      [][]byte // values of an enum that are no strings
	limits      []property
	properties  []property
	named       map[string]bool // the names of the properties
	required    []string
	items       *reducedSchema
	anyOf       []*reducedSchema
}

type property struct {
	name   string
	schema *reducedSchema // of a property
	raw    []byte         // of a limit
}

// schemaBudget reads the schemas of one request. It bounds the additions of references
// to all of them together: a request must not cost much more than its size.
type schemaBudget struct {
	refs int // that were followed
	work int // bytes that they stood for, and elements that were counted to find them
}

// schemaReader reads one schema with everything that it refers to. The schema is
// scanned once, and everything that is referred to is looked up once.
type schemaReader struct {
	all   *schemaBudget
	whole jsonscan.Document
	place string                      // the request's name of the schema
	refs  int                         // that were followed
	open  []string                    // references that are being followed
	found map[string]jsonscan.Value   // the targets of references and of their beginnings
	inner map[string]jsonscan.Members // and their members
}

// reduce reads a schema; place is its name in the request.
func (all *schemaBudget) reduce(raw []byte, place string) (*reducedSchema, error) {
	r := schemaReader{all: all, place: place}
	r.whole.Deep = true
	if err := r.whole.Parse(raw); err != nil {
		return nil, r.fail(say.New("value.not_schema"))
	}
	return r.read(r.whole.Root(), 0)
}

func (r *schemaReader) read(v jsonscan.Value, depth int) (*reducedSchema, error) {
	s := new(reducedSchema)
	if err := r.into(s, v, depth); err != nil {
		return nil, err
	}
	s.settle()
	return s, nil
}

func (r *schemaReader) fail(why say.Sentence) error { return schema.Invalid(r.place, why) }

// into adds the members of a schema to s. Members that s has already stay.
func (r *schemaReader) into(s *reducedSchema, v jsonscan.Value, depth int) error {
	if depth > maxSchemaDepth {
		return r.fail(say.New("value.deep_schema"))
	}
	switch v.Kind() {
	case jsonscan.Object:
	case jsonscan.True, jsonscan.False:
		return nil // allows anything or nothing; the backend knows neither
	default:
		return r.fail(say.New("value.json_schema"))
	}
	var ref jsonscan.Value
	for m := range v.All() {
		if err := r.member(s, m, depth); err != nil {
			return err
		}
		if string(m.Key()) == "$ref" {
			ref = m
		}
	}
	// Last: members beside a reference win over members of its target.
	if ref.Kind() == jsonscan.String {
		return r.follow(s, string(ref.Text()), depth)
	}
	return nil
}

func (r *schemaReader) member(s *reducedSchema, m jsonscan.Value, depth int) error {
	switch name := string(m.Key()); name {
	case "type":
		return r.kinds(s, m)
	case "description":
		if s.description == nil {
			s.description = chat.TextOf(m)
		}
	case "format":
		if s.format == "" {
			s.format = string(m.Text())
		}
	case "nullable":
		s.nullable = s.nullable || m.Kind() == jsonscan.True
	case "enum":
		s.addValues(m)
	case "const":
		s.addValue(m)
	case "pattern", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "minProperties",
		"maxProperties":
		if m.Given() && !slices.ContainsFunc(s.limits, func(limit property) bool { return limit.name == name }) {
			s.limits = append(s.limits, property{name: name, raw: m.Raw()})
		}
	case "required":
		for v := range m.All() {
			s.required = append(s.required, string(v.Text()))
		}
	case "properties":
		return r.properties(s, m, depth)
	case "items":
		if s.items != nil || m.Kind() != jsonscan.Object {
			return nil
		}
		var err error
		s.items, err = r.read(m, depth+1)
		return err
	case "anyOf", "oneOf":
		for v := range m.All() {
			one, err := r.read(v, depth+1)
			if err != nil {
				return err
			}
			s.anyOf = append(s.anyOf, one)
		}
	case "allOf":
		for v := range m.All() {
			if err := r.into(s, v, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// kinds reads the type: one, or several with null among them.
func (r *schemaReader) kinds(s *reducedSchema, m jsonscan.Value) error {
	if s.kind != "" {
		return nil
	}
	if m.Kind() == jsonscan.String {
		s.kind = strings.ToUpper(string(m.Text()))
		return r.known(s.kind)
	}
	var several []*reducedSchema
	for v := range m.All() {
		kind := strings.ToUpper(string(v.Text()))
		if err := r.known(kind); err != nil {
			return err
		}
		if kind == "NULL" {
			s.nullable = true
			continue
		}
		several = append(several, &reducedSchema{kind: kind})
	}
	if len(several) == 1 {
		s.kind = several[0].kind
		return nil
	}
	s.anyOf = append(s.anyOf, several...)
	return nil
}

func (r *schemaReader) known(kind string) error {
	switch kind {
	case "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL":
		return nil
	}
	return r.fail(say.New("value.schema_type"))
}

func (r *schemaReader) properties(s *reducedSchema, m jsonscan.Value, depth int) error {
	for v := range m.All() {
		name := string(v.Key())
		if s.named[name] {
			continue
		}
		if s.named == nil {
			s.named = map[string]bool{}
		}
		s.named[name] = true
		one, err := r.read(v, depth+1)
		if err != nil {
			return err
		}
		s.properties = append(s.properties, property{name: name, schema: one})
	}
	return nil
}

// follow adds the target of a reference within the schema. One that leads back to
// itself ends as an object of any shape.
func (r *schemaReader) follow(s *reducedSchema, ref string, depth int) error {
	if slices.Contains(r.open, ref) {
		if s.kind == "" {
			s.kind = "OBJECT"
		}
		return nil
	}
	target, err := r.resolve(ref)
	if err != nil {
		return err
	}
	r.refs++
	r.all.refs++
	r.all.work += len(target.Raw())
	if r.refs > maxSchemaRefs || r.all.refs > maxRequestRefs || r.all.work > maxSchemaBytes {
		return r.fail(say.New("value.schema_references"))
	}
	r.open = append(r.open, ref)
	err = r.into(s, target, depth+1)
	r.open = r.open[:len(r.open)-1]
	return err
}

// resolve finds the target of a JSON pointer of the form #/a/b.
func (r *schemaReader) resolve(ref string) (jsonscan.Value, error) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return jsonscan.Value{}, r.fail(say.New("value.schema_elsewhere"))
	}
	if pointer != "" && pointer[0] != '/' {
		pointer = "/" + pointer
	}
	if v, known := r.found[pointer]; known {
		return v, nil
	}
	if strings.Count(pointer, "/") > maxSchemaSteps {
		return jsonscan.Value{}, r.fail(say.New("value.schema_steps"))
	}
	at, end := r.whole.Root(), 0
	for end < len(pointer) {
		parent := pointer[:end]
		next := strings.IndexByte(pointer[end+1:], '/')
		step := pointer[end+1:]
		if next >= 0 {
			step = step[:next]
		}
		if end += 1 + len(step); step == "" {
			break
		}
		at = r.step(parent, at, step)
		if at.Kind() == jsonscan.Absent {
			return at, r.fail(say.New("value.schema_nothing"))
		}
	}
	if r.found == nil {
		r.found = map[string]jsonscan.Value{}
	}
	r.found[pointer] = at
	return at, nil
}

// step takes one step of a pointer: to a member of an object or to an element of
// an array, which the parent points to.
func (r *schemaReader) step(parent string, at jsonscan.Value, step string) jsonscan.Value {
	if plain, err := url.PathUnescape(step); err == nil {
		step = plain
	}
	step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	if at.Kind() == jsonscan.Array {
		index, err := strconv.Atoi(step)
		if err != nil || index < 0 {
			return jsonscan.Value{}
		}
		v := at.First()
		for ; index > 0 && v.Kind() != jsonscan.Absent; index-- {
			v = v.Next()
			r.all.work++
		}
		return v
	}
	members, known := r.inner[parent]
	if !known {
		if r.inner == nil {
			r.inner = map[string]jsonscan.Members{}
		}
		members = at.Members()
		r.inner[parent] = members
	}
	return members.Get([]byte(step))
}
