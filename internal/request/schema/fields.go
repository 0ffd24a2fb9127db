package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/shape"
)

// Fields are the fields that the gateway reads of the requests of a door. A door declares them
// once, as a struct with tags, of which the OpenAPI document is made as well.
type Fields struct {
	// Request is the declaration.
	Request any
	// names has the fields in the order of their declaration, and rules the rule of each.
	names *jsonscan.Names
	rules []rule
}

// FieldsOf reads a declaration. Beside the tags that describe a field in the OpenAPI document
// it knows
//   - alias: another name of the field,
//   - check: "kind" refuses values of another type than the field's, "bounds" also numbers
//     below minimum or above maximum, "positive" whole numbers below 1, "filled" a request without
//     the field or with an empty text, and "single" a form that has the field twice.
//
// A field of an embedded struct may be declared again: its place stays, and the later tags
// count.
func FieldsOf(request any) *Fields {
	f := &Fields{Request: request}
	var names []string
	f.read(reflect.TypeOf(request), &names)
	f.names = jsonscan.NewNames(names...)
	return f
}

func (f *Fields) read(declared reflect.Type, names *[]string) {
	for i := range declared.NumField() {
		field := declared.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			f.read(field.Type, names)
			continue
		}
		for _, name := range [...]string{name, field.Tag.Get("alias")} {
			if name == "" {
				continue
			}
			at := slices.Index(*names, name)
			if at < 0 {
				at = len(*names)
				*names, f.rules = append(*names, name), append(f.rules, rule{})
			}
			f.rules[at] = ruleOf(name, field)
		}
	}
}

// Check checks the fields of a request, given the root of its body, by their rules.
func (f *Fields) Check(root jsonscan.Value) error {
	for i := range f.rules {
		if r := &f.rules[i]; r.want != anything {
			if err := r.check(root.Get(r.name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRules checks the fields of a request by some rules.
func (r *Request) checkRules(rules []rule) error {
	for i := range rules {
		if rules[i].want != anything {
			if err := rules[i].check(r.Field(rules[i].name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// rule is the rule for the values of a field.
type rule struct {
	name        string
	want        want
	isBounded   bool
	isSingle    bool // in a form
	least, most float64
}

// want is the kind of value that a rule wants.
type want uint8

const (
	anything want = iota
	wantInteger
	wantNumber
	wantString
	wantArray
	wantObject
	wantTexts
	wantSwitch
	wantPositive
	wantFilled
)

// wants has the sentences about values of another kind, and the kind of JSON where that is
// all.
var wants = [...]struct {
	fault say.Code
	kind  jsonscan.Kind
}{
	wantString: {"value.string", jsonscan.String}, wantArray: {"value.array", jsonscan.Array},
	wantObject: {"value.object", jsonscan.Object},
}

func ruleOf(name string, field reflect.StructField) rule {
	r := rule{name: name}
	switch check := field.Tag.Get("check"); check {
	case "":
		return r
	case "single":
		r.isSingle = true
		return r
	case "positive":
		r.want = wantPositive
		return r
	case "filled":
		r.want = wantFilled
		return r
	case "kind", "bounds":
		r.isBounded = check == "bounds"
	default:
		panic(fmt.Sprintf("the field %s has the unknown check %q", name, check)) // a test reads every declaration
	}
	r.want = wantOf(field.Type)
	r.least, _ = strconv.ParseFloat(field.Tag.Get("minimum"), 64)
	r.most, _ = strconv.ParseFloat(field.Tag.Get("maximum"), 64)
	return r
}

func wantOf(declared reflect.Type) want {
	if declared == reflect.TypeFor[shape.Texts]() {
		return wantTexts
	}
	switch declared.Kind() {
	case reflect.Int64:
		return wantInteger
	case reflect.Float64:
		return wantNumber
	case reflect.Bool:
		return wantSwitch
	case reflect.String:
		return wantString
	case reflect.Slice:
		return wantArray
	}
	return wantObject
}

func (r *rule) check(v jsonscan.Value) error {
	if !v.Given() {
		if r.want == wantFilled {
			return MissingParameter(r.name)
		}
		return nil
	}
	switch r.want {
	case anything:
		return nil
	case wantSwitch:
		_, err := CheckBoolean(r.name, v)
		return err
	case wantPositive:
		if n, ok := v.Int(); !ok || n < 1 {
			return BadField(r.name, "value.positive")
		}
		return nil
	case wantFilled:
		if v.Kind() == jsonscan.String && len(v.Text()) == 0 {
			return BadField(r.name, "field.empty")
		}
		return CheckText(r.name, v)
	case wantInteger:
		return r.checkInteger(v)
	case wantNumber:
		return CheckNumber(r.name, v, r.least, r.most)
	case wantTexts:
		return checkTexts(r.name, v)
	}
	if wanted := wants[r.want]; v.Kind() != wanted.kind {
		return BadField(r.name, wanted.fault)
	}
	return nil
}

func (r *rule) checkInteger(v jsonscan.Value) error {
	if !r.isBounded {
		return checkInteger(r.name, v)
	}
	if err := CheckInteger(r.name, v, int64(r.least)); err != nil || r.most == 0 {
		return err
	}
	return CheckNumber(r.name, v, r.least, r.most)
}

// checkTexts accepts a text, or a list of texts.
func checkTexts(name string, v jsonscan.Value) error {
	isTexts := v.Kind() == jsonscan.String || v.Kind() == jsonscan.Array
	for element := range v.All() {
		isTexts = isTexts && element.Kind() == jsonscan.String
	}
	if !isTexts {
		return BadField(name, "value.string_or_strings")
	}
	return nil
}
