package adapter

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

const (
	// maxSchemaDepth is how deeply schemas may be nested, references followed.
	maxSchemaDepth = 32
	// maxSchemaRefs and maxSchemaBytes bound what references may blow a schema
	// up to.
	maxSchemaRefs  = 256
	maxSchemaBytes = 4 << 20
)

// geminiSchema is a JSON Schema reduced to what the backend takes: a part of
// what OpenAPI 3.0 calls a schema. Unknown members would be refused there.
type geminiSchema struct {
	kind        string // as the backend spells it, empty if it was not said
	nullable    bool
	description []byte // the content of a JSON string
	format      string
	enum        [][]byte // strings, as JSON
	others      [][]byte // values of an enum that are no strings
	limits      []geminiProperty
	properties  []geminiProperty
	named       map[string]bool // the names of the properties
	required    []string
	items       *geminiSchema
	anyOf       []*geminiSchema
}

type geminiProperty struct {
	name   string
	schema *geminiSchema // of a property
	raw    []byte        // of a limit
}

// schemaReader reads one schema with everything that it refers to.
type schemaReader struct {
	whole []byte
	place string // the request's name of the schema
	refs  int
	bytes int      // that were referred to
	open  []string // references that are being followed
}

// reduceGeminiSchema reads a schema; place is what the request calls it.
func reduceGeminiSchema(raw []byte, place string) (*geminiSchema, error) {
	r := schemaReader{whole: raw, place: place}
	return r.read(raw, 0)
}

func (r *schemaReader) read(raw []byte, depth int) (*geminiSchema, error) {
	s := new(geminiSchema)
	if err := r.into(s, raw, depth); err != nil {
		return nil, err
	}
	s.settle()
	return s, nil
}

func (r *schemaReader) fail(why string) error {
	return schema.InvalidValue(r.place, "'"+r.place+"' "+why)
}

// into adds the members of a schema to s. What s has already stands.
func (r *schemaReader) into(s *geminiSchema, raw []byte, depth int) error {
	if depth > maxSchemaDepth {
		return r.fail("is nested too deeply for this backend.")
	}
	var doc jsonscan.Document
	if err := doc.Parse(raw); err != nil {
		return r.fail("is not a JSON schema.")
	}
	root := doc.Root()
	switch root.Kind() {
	case jsonscan.Object:
	case jsonscan.True, jsonscan.False:
		return nil // allows anything or nothing; the backend knows neither
	default:
		return r.fail("must be a JSON schema.")
	}
	for m := root.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if err := r.member(s, m, depth); err != nil {
			return err
		}
	}
	// Last, so that what stands beside a reference wins over what it refers to.
	if ref := root.Get("$ref"); ref.Kind() == jsonscan.String {
		return r.follow(s, string(ref.Text()), depth)
	}
	return nil
}

func (r *schemaReader) member(s *geminiSchema, m jsonscan.Value, depth int) error {
	switch name := string(m.Key()); name {
	case "type":
		return r.kinds(s, m)
	case "description":
		if s.description == nil {
			s.description = innerText(m)
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
	case "pattern", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
		if m.Given() {
			s.limits = append(s.limits, geminiProperty{name: name, raw: m.Raw()})
		}
	case "required":
		for v := m.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
			s.required = append(s.required, string(v.Text()))
		}
	case "properties":
		return r.properties(s, m, depth)
	case "items":
		if s.items != nil || m.Kind() != jsonscan.Object {
			return nil
		}
		var err error
		s.items, err = r.read(m.Raw(), depth+1)
		return err
	case "anyOf", "oneOf":
		for v := m.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
			one, err := r.read(v.Raw(), depth+1)
			if err != nil {
				return err
			}
			s.anyOf = append(s.anyOf, one)
		}
	case "allOf":
		for v := m.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
			if err := r.into(s, v.Raw(), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// kinds reads the type: one, or several of which one may be null.
func (r *schemaReader) kinds(s *geminiSchema, m jsonscan.Value) error {
	if s.kind != "" {
		return nil
	}
	if m.Kind() == jsonscan.String {
		s.kind = strings.ToUpper(string(m.Text()))
		return r.known(s.kind)
	}
	var several []*geminiSchema
	for v := m.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		kind := strings.ToUpper(string(v.Text()))
		if err := r.known(kind); err != nil {
			return err
		}
		if kind == "NULL" {
			s.nullable = true
			continue
		}
		several = append(several, &geminiSchema{kind: kind})
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
	return r.fail("has an unknown type.")
}

func (r *schemaReader) properties(s *geminiSchema, m jsonscan.Value, depth int) error {
	for v := m.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		name := string(v.Key())
		if s.named[name] {
			continue
		}
		if s.named == nil {
			s.named = map[string]bool{}
		}
		s.named[name] = true
		one, err := r.read(v.Raw(), depth+1)
		if err != nil {
			return err
		}
		s.properties = append(s.properties, geminiProperty{name: name, schema: one})
	}
	return nil
}

// follow adds what a reference within the schema stands for. One that leads
// back to itself ends as an object of any shape.
func (r *schemaReader) follow(s *geminiSchema, ref string, depth int) error {
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
	r.refs, r.bytes = r.refs+1, r.bytes+len(target)
	if r.refs > maxSchemaRefs || r.bytes > maxSchemaBytes {
		return r.fail("has too many references for this backend.")
	}
	r.open = append(r.open, ref)
	err = r.into(s, target, depth+1)
	r.open = r.open[:len(r.open)-1]
	return err
}

// resolve finds what a JSON pointer of the form #/a/b points to.
func (r *schemaReader) resolve(ref string) ([]byte, error) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, r.fail("refers to another document.")
	}
	at := r.whole
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if step == "" {
			break
		}
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var doc jsonscan.Document
		if err := doc.Parse(at); err != nil {
			return nil, r.fail("is not a JSON schema.")
		}
		v := doc.Root().Get(step)
		if index, err := strconv.Atoi(step); err == nil && doc.Root().Kind() == jsonscan.Array {
			for v = doc.Root().First(); index > 0 && v.Kind() != jsonscan.Absent; index-- {
				v = v.Next()
			}
		}
		if v.Kind() == jsonscan.Absent {
			return nil, r.fail("refers to something that it does not hold.")
		}
		at = v.Raw()
	}
	return at, nil
}
