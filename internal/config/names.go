package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// field is one setting of a struct.
type field struct {
	name   string // kebab-case
	folded string
	index  []int // as reflect.Value.FieldByIndex takes it
}

// fieldsOf lists the settings of a struct type by their JSON names. The settings of an
// embedded struct are among its own, as in JSON.
func fieldsOf(structType reflect.Type) []field {
	fields := make([]field, 0, structType.NumField())
	for i := range structType.NumField() {
		member := structType.Field(i)
		tag, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		if tag == "" && member.Anonymous {
			for _, f := range fieldsOf(member.Type) {
				f.index = append([]int{i}, f.index...)
				fields = append(fields, f)
			}
			continue
		}
		if tag == "" || tag == "-" {
			continue
		}
		fields = append(fields, field{name: Kebab(tag), folded: schema.Fold(tag), index: []int{i}})
	}
	return fields
}

func findField(fields []field, key string) (field, bool) {
	folded := schema.Fold(key)
	for _, f := range fields {
		if f.folded == folded {
			return f, true
		}
	}
	return field{}, false
}

func fieldNames(fields []field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

// Kebab turns the camelCase and snake_case parts of a name or path into kebab-case, as
// configuration files have them. Text in brackets is a key that the writer chose, and
// stays unchanged.
func Kebab(name string) string {
	out := make([]byte, 0, len(name)+4)
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '[':
			end := closingBracket(name, i)
			out = append(out, name[i:end]...)
			i = end - 1
		case c == '_':
			out = append(out, '-')
		case c >= 'A' && c <= 'Z':
			if i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z' || i > 0 && name[i-1] >= '0' && name[i-1] <= '9' {
				out = append(out, '-')
			}
			out = append(out, c+('a'-'A'))
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

// closingBracket returns the index behind the bracket that closes the one at
// start, or the length of the path where there is none.
func closingBracket(path string, start int) int {
	if quoted, err := strconv.QuotedPrefix(path[start+1:]); err == nil {
		return min(start+1+len(quoted)+1, len(path))
	}
	if end := strings.IndexByte(path[start:], ']'); end >= 0 {
		return start + end + 1
	}
	return len(path)
}

func join(path, name string) string {
	if path == "" || strings.HasPrefix(name, "[") {
		return path + name
	}
	return path + "." + name
}

// joinWritten adds a key that is not a known name. A key that is not a plain word is
// quoted: a path always fits on its line.
func joinWritten(path, key string) string {
	for _, r := range key {
		isAlphanumeric := r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !isAlphanumeric && r != '-' && r != '_' {
			return keyed(path, key)
		}
	}
	return join(path, key)
}

func indexed(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func keyed(path, key string) string { return path + "[" + strconv.Quote(key) + "]" }

// parent returns the path of the mapping or list that holds a setting.
func parent(path string) string {
	if strings.HasSuffix(path, "]") {
		for i := strings.IndexByte(path, '['); i >= 0; {
			end := closingBracket(path, i)
			if end == len(path) {
				return path[:i]
			}
			next := strings.IndexByte(path[end:], '[')
			if next < 0 {
				break
			}
			i = end + next
		}
	}
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}

// suggest returns a sentence about an unknown name: the first one with the known name that
// was probably meant, else the second one with all of them.
func suggest(withNear, withAll say.Code, written string, known []string, pairs ...any) say.Sentence {
	if nearest := schema.Nearest(written, known, 1); len(nearest) > 0 {
		return say.New(withNear, append(pairs, "near", nearest[0])...)
	}
	return say.New(withAll, append(pairs, "known", strings.Join(known, ", "))...)
}

// unknownKey refuses a key with the nearest known name, or the shortest that has it as a word: url
// means base-url.
func unknownKey(written string, known []string) say.Sentence {
	if len(schema.Nearest(written, known, 1)) == 0 {
		near := ""
		for _, name := range known {
			if slices.Contains(strings.Split(name, "-"), written) && (near == "" || len(name) < len(near)) {
				near = name
			}
		}
		if near != "" {
			return say.New("field.unknown_key", "name", written, "near", near)
		}
	}
	return suggest("field.unknown_key", "field.unknown_key_known", written, known, "name", written)
}

// namesOf returns the names that a type of named values knows, in the spelling
// of configuration files, and the noun for such a value.
func namesOf(valueType reflect.Type) (noun string, names []string) {
	if valueType == reflect.TypeFor[schema.ServiceType]() {
		for _, serviceType := range schema.ServiceTypes() {
			names = append(names, Kebab(serviceType.String()))
		}
		return "service type", names
	}
	named, ok := reflect.Zero(valueType).Interface().(interface{ Names() []string })
	if !ok {
		return "", nil
	}
	names = slices.Clone(named.Names())
	for i, name := range names {
		if name != strings.ToUpper(name) {
			names[i] = Kebab(name)
		}
	}
	if choice, ok := named.(interface{ Noun() string }); ok {
		return choice.Noun(), names
	}
	return strings.ReplaceAll(Kebab(valueType.Name()), "-", " "), names
}
