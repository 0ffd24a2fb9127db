package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Given is the set of settings that a JSON text gave.
type Given map[string]bool

// Has reports whether the text gave a setting, by its path in camelCase. A null gives
// nothing.
func (g Given) Has(path string) bool { return g[path] }

// Overlay copies the settings that the text gave from the decoded value to another one of
// the same type. Other settings stay there.
func (g Given) Overlay(from, onto any) {
	g.overlay("", reflect.ValueOf(from).Elem(), reflect.ValueOf(onto).Elem())
}

func (g Given) overlay(path string, from, onto reflect.Value) {
	for _, f := range inCamelCase(fieldsOf(from.Type())) {
		at, value, target := join(path, f.name), from.FieldByIndex(f.index), onto.FieldByIndex(f.index)
		switch {
		case !g[at]:
		case value.Kind() != reflect.Struct || isScalarType(value.Type()):
			target.Set(value)
		default:
			if hook, ok := target.Addr().Interface().(givenHook); ok {
				hook.Given()
			}
			g.overlay(at, value, target)
		}
	}
}

// DecodeJSON puts the settings of a JSON object where target points, over the values
// there: a setting that the text does not give stays. Keys are read in every spelling. An
// unknown key, a key that comes twice and a value of another type are mistakes. The
// readOnly keys are allowed and ignored. The error is of type Problems, with paths in
// camelCase.
func DecodeJSON(data []byte, target any, readOnly ...string) (Given, error) {
	root, err := readJSON(data)
	if err != nil {
		return nil, Problems{{Said: say.From(err)}}
	}
	if root.kind != mapping {
		return nil, Problems{{Said: say.New("field.json_object")}}
	}
	var problems Problems
	d := newDecoder(&problems)
	d.inJSON, d.readOnly = true, readOnly
	d.decode(root, "", reflect.ValueOf(target).Elem())
	if len(problems) > 0 {
		return nil, problems
	}
	given := make(Given, len(d.written))
	for path := range d.written {
		given[path] = true
	}
	return given, nil
}

// inCamelCase names fields as JSON does.
func inCamelCase(fields []field) []field {
	named := make([]field, len(fields))
	for i, f := range fields {
		f.name = camel(f.name)
		named[i] = f
	}
	return named
}

// camel turns the kebab-case parts of a name or path into camelCase. Keys in
// brackets stay as they are.
func camel(kebab string) string {
	out := make([]byte, 0, len(kebab))
	for i := 0; i < len(kebab); i++ {
		switch c := kebab[i]; {
		case c == '[':
			end := closingBracket(kebab, i)
			out = append(out, kebab[i:end]...)
			i = end - 1
		case c == '-' && i+1 < len(kebab) && kebab[i+1] >= 'a' && kebab[i+1] <= 'z':
			i++
			out = append(out, kebab[i]-('a'-'A'))
		case c != '-':
			out = append(out, c)
		}
	}
	return string(out)
}

// readJSON turns a JSON text into nodes. Keys that come twice are left to the
// decoder, which knows all spellings.
func readJSON(data []byte) (*node, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	root, err := readValue(decoder, 0)
	if err == nil {
		_, err = decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return root, nil
		}
		if err == nil {
			err = errors.New("something follows the object")
		}
	}
	if errors.Is(err, io.EOF) {
		return nil, say.Error("field.json_empty")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, say.Error("field.json_early")
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return nil, say.Error("field.json_invalid", "why", fmt.Sprintf("%v at byte %d", syntax.Err, syntax.ByteOffset))
	}
	return nil, say.Error("field.json_invalid", "why", err.Error())
}

func readValue(from *jsontext.Decoder, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}
	token, err := from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case jsontext.KindNull:
		return new(node), nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return &node{kind: scalar, form: jsonSwitch, text: token.String()}, nil
	case jsontext.KindString:
		return &node{kind: scalar, form: jsonText, text: token.String()}, nil
	case jsontext.KindNumber:
		return &node{kind: scalar, form: jsonNumber, text: wholeNumber(token.String())}, nil
	case jsontext.KindBeginArray:
		to := &node{kind: list}
		for from.PeekKind() != jsontext.KindEndArray {
			item, err := readValue(from, depth+1)
			if err != nil {
				return nil, err
			}
			to.items = append(to.items, item)
		}
		_, err := from.ReadToken()
		return to, err
	}
	return readObject(from, depth)
}

// wholeNumber writes a whole number without the point and exponent that JSON allows, and
// returns any other number unchanged.
func wholeNumber(text string) string {
	const exact = 1 << 53 // above it not every whole number is a float
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || number != math.Trunc(number) || math.Abs(number) > exact || !strings.ContainsAny(text, ".eE") {
		return text
	}
	return strconv.FormatInt(int64(number), 10)
}

func readObject(from *jsontext.Decoder, depth int) (*node, error) {
	to := &node{kind: mapping}
	for from.PeekKind() != jsontext.KindEndObject {
		name, err := from.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String() // the token is only good until the next one
		value, err := readValue(from, depth+1)
		if err != nil {
			return nil, err
		}
		to.entries = append(to.entries, entry{key: key, value: value})
	}
	_, err := from.ReadToken()
	return to, err
}
