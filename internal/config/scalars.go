package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// decodeText reads a value of a type with a text form of its own.
func (d *decoder) decodeText(from *node, path string, to reflect.Value, target encoding.TextUnmarshaler) {
	if !d.expect(scalar, from, path) {
		return
	}
	if from.form == jsonSwitch {
		want := jsonText.said()
		if _, names := namesOf(to.Type()); names == nil && formOf(to.Kind()) == jsonNumber {
			want = say.New("form.number_or_string") // such as a duration
		}
		d.fail(from, path, wantFound(want, from.form.said()))
		return
	}
	if err := target.UnmarshalText([]byte(from.text)); err != nil {
		fault := unknownName(from.text, to.Type(), err)
		if from.form != 0 {
			fault = say.From(err) // which lists the names as the API spells them
		}
		if !strings.Contains(fault.String(), `"`+from.text+`"`) {
			fault = say.New("field.found", "fault", fault, "found", from.text)
		}
		d.fail(from, path, fault)
	}
}

// decodeSecret reads a secret: a reference where the file wrote one, else the text
// itself.
func (d *decoder) decodeSecret(from *node, path string, to reflect.Value) {
	if !d.expect(scalar, from, path) {
		return
	}
	if from.form != 0 && from.form != jsonText {
		d.fail(from, path, wantFound(jsonText.said(), from.form.said()))
		return
	}
	secret := backend.Literal(from.text)
	if from.reference != "" {
		secret = backend.Reference(from.reference)
	}
	to.Set(reflect.ValueOf(secret))
}

// decodePrefix reads an address range, or one address as the range of itself.
func (d *decoder) decodePrefix(from *node, path string, to reflect.Value) {
	if !d.expect(scalar, from, path) {
		return
	}
	prefix, err := netip.ParsePrefix(from.text)
	if err != nil {
		addr, addrErr := netip.ParseAddr(from.text)
		if addrErr != nil || addr.Zone() != "" {
			d.fail(from, path, say.New("field.address_range_found", "found", from.text))
			return
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	to.Set(reflect.ValueOf(prefix.Masked()))
}

// decodeBasic reads text, numbers and switches. The text alone decides: the quotes around
// a number say nothing about its type.
func (d *decoder) decodeBasic(from *node, path string, to reflect.Value) {
	if !d.expect(scalar, from, path) {
		return
	}
	if want := formOf(to.Kind()); from.form != 0 && from.form != want {
		d.fail(from, path, wantFound(want.said(), from.form.said()))
		return
	}
	var err error
	switch to.Kind() {
	case reflect.String:
		to.SetString(from.text)
	case reflect.Bool:
		err = setBool(from.text, to)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		err = setInt(from.text, to)
	case reflect.Float64:
		err = setFloat(from.text, to)
	default:
		err = fmt.Errorf("settings of type %s cannot be read", to.Type())
	}
	if err != nil {
		d.fail(from, path, say.From(err))
	}
}

// formOf returns how JSON writes values of a kind.
func formOf(kind reflect.Kind) form {
	switch kind {
	case reflect.String:
		return jsonText
	case reflect.Bool:
		return jsonSwitch
	}
	return jsonNumber
}

func setBool(text string, to reflect.Value) error {
	switch strings.ToLower(text) {
	case "true", "yes", "on":
		to.SetBool(true)
	case "false", "no", "off":
		to.SetBool(false)
	default:
		return say.Error("field.switch_found", "found", text)
	}
	return nil
}

func setInt(text string, to reflect.Value) error {
	number, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) || err == nil && to.OverflowInt(number) {
		return say.Error("field.large", "found", text)
	}
	if err != nil {
		return say.Error("field.whole", "found", text)
	}
	to.SetInt(number)
	return nil
}

func setFloat(text string, to reflect.Value) error {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
		return say.Error("field.number", "found", text)
	}
	to.SetFloat(number)
	return nil
}
