package web

import (
	"cmp"
	"encoding"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// ReadQuery fills the fields of a struct with the parameters of a query, by the names in
// their json tags. A field without a parameter, or with an empty one, stays as it is.
// ReadQuery obeys the tags that the OpenAPI document shows: required, and minimum and
// maximum of whole numbers. The tag want is the code of the sentence about a value that
// cannot be read.
func ReadQuery(r *http.Request, to any) error {
	// Query leaves out what it cannot read, and the reply would be about something else.
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &RequestError{Status: http.StatusBadRequest, Why: say.New("manage.query")}
	}
	return readFields(r, query, reflect.ValueOf(to).Elem())
}

func readFields(r *http.Request, query url.Values, to reflect.Value) error {
	for i := range to.NumField() {
		field, target := to.Type().Field(i), to.Field(i)
		if field.Anonymous {
			if err := readFields(r, query, target); err != nil {
				return err
			}
			continue
		}
		name := field.Tag.Get("json")
		text := query.Get(name)
		// An empty text is a value for a text only, unless the document says otherwise.
		isGiven := text != "" || query.Has(name) && target.Kind() != reflect.String && field.Tag.Get("empty") != "true"
		switch {
		case target.Kind() == reflect.Bool:
			on, err := Flag(r, name)
			if err != nil {
				return Invalid(name, say.From(err))
			}
			target.SetBool(on)
		case text == "" && field.Tag.Get("required") == "true":
			return BadInput(name, "field.required")
		case isGiven:
			if err := readParameter(text, field.Tag, target); err != nil {
				return Invalid(name, wanted(field.Tag, err))
			}
		}
	}
	return nil
}

// wanted describes the fault of a parameter.
func wanted(tag reflect.StructTag, err error) say.Sentence {
	if code := tag.Get("want"); code != "" {
		return say.New(say.Code(code))
	}
	return say.From(err)
}

func readParameter(text string, tag reflect.StructTag, to reflect.Value) (err error) {
	switch target := to.Addr().Interface().(type) {
	case *int:
		return readNumber(text, tag, target)
	case *uint64:
		*target, err = strconv.ParseUint(text, 10, 64)
	case *float64:
		*target, err = strconv.ParseFloat(text, 64)
	case *time.Time:
		if *target, err = time.Parse(time.RFC3339, text); err != nil {
			return say.Error("field.time_such", "example", "2026-01-31T00:00:00Z")
		}
	case encoding.TextUnmarshaler:
		return target.UnmarshalText([]byte(Shorten(text)))
	default:
		to.SetString(text)
	}
	return err
}

// readNumber reads a whole number within the bounds of its tags.
func readNumber(text string, tag reflect.StructTag, to *int) error {
	least, _ := strconv.Atoi(cmp.Or(tag.Get("minimum"), strconv.Itoa(math.MinInt)))
	most, _ := strconv.Atoi(cmp.Or(tag.Get("maximum"), strconv.Itoa(math.MaxInt)))
	number, err := strconv.Atoi(text)
	switch {
	case err == nil && number >= least && number <= most:
		*to = number
		return nil
	case most < math.MaxInt:
		return say.Error("field.from_one", "least", least, "most", most)
	case least > math.MinInt:
		return say.Error("field.number_from", "least", least)
	}
	return say.Error("field.number_plain")
}

// Has reports whether the query gives a value for a parameter.
func (c *Call) Has(name string) bool { return c.URL.Query().Get(name) != "" }

// lacks returns an error if the body lacks a member that its tags require: the member is
// not given, or is empty. The tag want is the code of the sentence that says so.
func (c *Call) lacks(body any) error {
	value := reflect.ValueOf(body).Elem()
	for i := range value.NumField() {
		field := value.Type().Field(i)
		name := field.Tag.Get("json")
		if field.Tag.Get("required") == "true" && (c.Given != nil && !c.Given.Has(name) || isEmpty(value.Field(i))) {
			return c.surface.Missing(name, say.Code(cmp.Or(field.Tag.Get("want"), "field.required")))
		}
	}
	return nil
}

func isEmpty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.String, reflect.Slice:
		return value.Len() == 0
	case reflect.Pointer, reflect.Map:
		return value.IsNil()
	}
	return false
}
