package config

import (
	"encoding"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
)

// wordSetting is a setting of one word, with the text of a file around its value.
type wordSetting struct {
	path, before, after string
	typ                 reflect.Type
}

// wordSettings appends the settings of one word below a type, each field of a struct once.
func wordSettings(all []wordSetting, typ reflect.Type, at wordSetting, seen map[string]bool) []wordSetting {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if isScalarType(typ) {
		at.typ = typ
		return append(all, at)
	}
	below := func(path, name string, elem reflect.Type) {
		inner := wordSetting{path: path, before: at.before + "{" + name + ": ", after: "}" + at.after}
		all = wordSettings(all, elem, inner, seen)
	}
	switch typ.Kind() {
	case reflect.Slice:
		inner := wordSetting{path: indexed(at.path, 0), before: at.before + "[", after: "]" + at.after}
		return wordSettings(all, typ.Elem(), inner, seen)
	case reflect.Map:
		if _, names := namesOf(typ.Key()); names != nil {
			below(join(at.path, names[0]), names[0], typ.Elem())
		} else {
			below(keyed(at.path, "x"), "x", typ.Elem())
		}
		return all
	}
	for _, f := range fieldsOf(typ) {
		if key := typ.String() + "." + f.name; !seen[key] {
			seen[key] = true
			below(join(at.path, f.name), f.name, typ.FieldByIndex(f.index).Type)
		}
	}
	return all
}

// isRefused reports whether Load refuses the value of a setting.
func isRefused(content, path string) bool {
	_, err := Load(Source{File: "x.yaml", Content: []byte(content), KnownAdapter: kinds.Check, Env: []string{"PB=5"}})
	var problems Problems
	errors.As(err, &problems)
	for _, problem := range problems {
		if problem.Path == path || problem.Path == strings.TrimSuffix(path, "[0]") {
			return true
		}
	}
	return false
}

// couldBeTaken reports whether a value that Load refuses has the shape of its setting, so that
// a schema cannot refuse it: a length or size out of range, a number in quotes out of range, or
// a name that the setting alone does not take.
func couldBeTaken(typ reflect.Type, value string) bool {
	text := strings.Trim(value, `"`)
	if target, reads := reflect.New(typ).Interface().(encoding.TextUnmarshaler); reads {
		return target.UnmarshalText([]byte(text)) == nil
	}
	return text != value && text == "5"
}

// The schema refuses no value of a setting that Load takes, and takes none that is wrong
// whatever the other settings are.
func TestSchemaAndLoadAgreeOnValues(t *testing.T) {
	t.Parallel()
	root := plainSchema(t)
	settings := wordSettings(nil, reflect.TypeFor[Document](), wordSetting{}, map[string]bool{})
	kindsOf := map[reflect.Type]int{}
	for _, setting := range settings {
		if setting.typ.Kind() == reflect.String && setting.typ.PkgPath() == "" ||
			setting.typ == reflect.TypeFor[backend.Secret]() {
			continue // a text has rules of its own
		}
		kindsOf[setting.typ]++
		values := []string{
			"abc", "true", "yes", "OFF", "-1", "0", "5", "101", "1000000000000", "0.5", `"5"`, `"-1"`, `""`, "5s", "1m30s", ".5h",
			"1000us", "-5s", "100d", "10MiB", "10 iB", "PT1M0.5S", "auto", "10.0.0.0/8", "1e2x",
		}
		if _, names := namesOf(setting.typ); names != nil {
			last := names[len(names)-1]
			values = append(values, last, strings.ToUpper(last), strings.ReplaceAll(last, "-", "_"), last+"x")
		}
		for _, value := range values {
			content := setting.before + value + setting.after
			faults := yamlFaults(t, root, content)
			switch refused := isRefused(content, setting.path); {
			case !refused && len(faults) > 0:
				t.Errorf("Load takes %s, which the schema refuses: %v", content, faults)
			case refused && len(faults) == 0 && !couldBeTaken(setting.typ, value):
				t.Errorf("the schema takes %s, which Load refuses", content)
			}
		}
		for _, value := range []string{`"${PB}"`, `"${PB:-5}"`} {
			if faults := yamlFaults(t, root, setting.before+value+setting.after); len(faults) > 0 {
				t.Errorf("%s: the schema refuses %s: %v", setting.path, value, faults)
			}
		}
	}
	if len(kindsOf) < 25 {
		t.Errorf("got settings of %d types, want at least 25", len(kindsOf))
	}
}
