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
)

// decodeText reads a value of a type with a text form of its own.
func (d *decoder) decodeText(from *node, path string, to reflect.Value, target encoding.TextUnmarshaler) {
	if !d.expect(scalar, from, path) {
		return
	}
	if from.form == jsonSwitch {
		want := jsonText.String()
		if _, names := namesOf(to.Type()); names == nil && formOf(to.Kind()) == jsonNumber {
			want = jsonNumber.String() + " or " + want // such as a duration
		}
		d.fail(from, path, fmt.Sprintf("want %s, found %s", want, from.form))
		return
	}
	if err := target.UnmarshalText([]byte(from.text)); err != nil {
		message := unknownName(from.text, to.Type(), err)
		if from.form != 0 {
			message = err.Error() // which lists the names as the API spells them
		}
		if !strings.Contains(message, `"`+from.text+`"`) {
			message += fmt.Sprintf(", found %q", from.text)
		}
		d.fail(from, path, message)
	}
}

// decodeSecret reads a secret: a reference where the file wrote one, else the text
// itself.
func (d *decoder) decodeSecret(from *node, path string, to reflect.Value) {
	if !d.expect(scalar, from, path) {
		return
	}
	if from.form != 0 && from.form != jsonText {
		d.fail(from, path, fmt.Sprintf("want %s, found %s", jsonText, from.form))
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
			d.fail(from, path, fmt.Sprintf("want an address range such as 10.0.0.0/8, found %q", from.text))
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
		d.fail(from, path, fmt.Sprintf("want %s, found %s", want, from.form))
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
		d.fail(from, path, err.Error())
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
		return fmt.Errorf("want true or false, found %q", text)
	}
	return nil
}

func setInt(text string, to reflect.Value) error {
	number, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) || err == nil && to.OverflowInt(number) {
		return fmt.Errorf("%q is too large", text)
	}
	if err != nil {
		return fmt.Errorf("want a whole number, found %q", text)
	}
	to.SetInt(number)
	return nil
}

func setFloat(text string, to reflect.Value) error {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
		return fmt.Errorf("want a number, found %q", text)
	}
	to.SetFloat(number)
	return nil
}
