package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const environmentPrefix = "PATCHBAY_"

// isOfProgram reports whether a variable is read by the verbs of the program and is no setting:
// the configuration file, and the gateway that a verb asks with its credentials.
func isOfProgram(variable string) bool {
	return slices.Contains([]string{"PATCHBAY_CONFIG", "PATCHBAY_URL", "PATCHBAY_TOKEN", "PATCHBAY_KEY"}, variable)
}

// onlyInFile is why a setting cannot come from elsewhere.
const onlyInFile = "is read from the configuration file only"

// onlyInFile reports whether the setting is, or belongs to, one that only the file may have.
func (p place) onlyInFile() bool { return p.fileOnlyPart() != "" }

// fileOnlyPart returns the path of the setting that only the file may have, up to the place;
// empty where there is none.
func (p place) fileOnlyPart() string {
	typ := reflect.TypeFor[Document]()
	for i := 0; i < len(p.steps) && typ.Kind() == reflect.Struct; i++ {
		found, known := findField(fieldsOf(typ), p.steps[i].key)
		if !known {
			return ""
		}
		field := typ.FieldByIndex(found.index)
		if field.Tag.Get("from") == "file" {
			return place{steps: p.steps[:i+1]}.path()
		}
		typ = field.Type
	}
	return ""
}

// parseEnviron makes a mapping of NAME=value lines; the last line of a name wins.
func parseEnviron(environ []string) map[string]string {
	variables := make(map[string]string, len(environ))
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok {
			variables[name] = value
		}
	}
	return variables
}

// overrides puts the environment and the command line into the tree of the file.
type overrides struct {
	root     *node
	problems *Problems
	warnings []string
}

// fromEnvironment applies the variables that name a setting. The others may have another
// purpose (Kubernetes writes PATCHBAY_SERVICE_HOST for a service called patchbay), so
// they are only worth a warning.
func (o *overrides) fromEnvironment(variables map[string]string) {
	type assignment struct {
		name string
		to   place
	}
	var assignments []assignment
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		rest, ours := strings.CutPrefix(name, environmentPrefix)
		// An empty variable is how scripts and compose files leave one out.
		if !ours || isOfProgram(name) || variables[name] == "" {
			continue
		}
		to, found := findByVariable(place{typ: reflect.TypeFor[Document]()}, strings.Split(rest, "_"))
		if !found || len(to.steps) == 0 {
			o.warnings = append(o.warnings, foreignVariable(name))
			continue
		}
		if to.onlyInFile() {
			o.problems.add(origin{file: "environment " + name}, to.fileOnlyPart(), onlyInFile)
			continue
		}
		assignments = append(assignments, assignment{name, to})
	}
	// A whole section comes before its parts, and lists grow from the front.
	slices.SortStableFunc(assignments, func(a, b assignment) int {
		return slices.CompareFunc(a.to.steps, b.to.steps, func(x, y step) int {
			return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.index, y.index))
		})
	})
	first := make(map[string]string)
	for _, a := range assignments {
		at, path := origin{file: "environment " + a.name}, a.to.path()
		if other, twice := first[path]; twice {
			o.problems.add(at, path, "is also set by "+other)
			continue
		}
		first[path] = a.name
		if a.to.typ == reflect.TypeFor[backend.Secret]() {
			o.assignSecret(a.to, a.name, variables[a.name], at)
			continue
		}
		o.assign(a.to, variables[a.name], at)
	}
}

func foreignVariable(name string) string {
	warning := "environment variable " + name + " names no setting"
	if nearest := schema.Nearest(name, knownVariables(), 1); len(nearest) > 0 {
		warning += " (nearest: " + nearest[0] + ")"
	}
	return warning
}

// fromCommandLine applies key=value arguments in their order.
func (o *overrides) fromCommandLine(arguments []string) {
	for i, argument := range arguments {
		key, value, ok := strings.Cut(argument, "=")
		if !ok {
			// The argument is not repeated: a slip may have left a secret in it.
			o.problems.add(origin{file: "--set"}, "", fmt.Sprintf("argument %d: want key=value", i+1))
			continue
		}
		key = strings.TrimSpace(key)
		at := origin{file: "--set " + printable(key)}
		to, err := findPlace(key)
		if err != nil {
			o.problems.add(at, "", err.Error())
			continue
		}
		if to.onlyInFile() {
			o.problems.add(at, to.fileOnlyPart(), onlyInFile)
			continue
		}
		_, single := reflect.Zero(to.typ).Interface().(oneOrMore)
		if (single || isScalarType(to.typ)) && (strings.HasPrefix(value, `"`) || strings.HasPrefix(value, `'`)) {
			if quoted := o.readFlow(value, at); quoted != nil && quoted.kind == scalar {
				value = quoted.text
			}
		} else if value == "null" || value == "~" {
			_ = put(o.root, to.steps, &node{origin: at}) // resets to the default
			continue
		}
		o.assign(to, value, at)
	}
}

// printable keeps a key on its line in messages.
func printable(key string) string {
	if strings.ContainsFunc(key, unicode.IsControl) {
		return strconv.Quote(key)
	}
	return key
}

// assign writes text into the tree: verbatim for single values, as YAML for lists and
// mappings.
func (o *overrides) assign(to place, text string, at origin) {
	if !utf8.ValidString(text) {
		o.problems.add(at, to.path(), "is not UTF-8 text")
		return
	}
	value := &node{kind: scalar, text: text, isLine: true, origin: at}
	if !isScalarType(to.typ) && (strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{")) {
		_, single := reflect.Zero(to.typ).Interface().(oneOrMore)
		if flow := o.readFlow(text, at); flow != nil && (!single || flow.kind == list) {
			value = flow
		} else if !single { // else it is an address such as [::1]:80
			o.problems.add(at, to.path(), "is not valid YAML")
			return
		}
	}
	if err := put(o.root, to.steps, value); err != nil {
		o.problems.add(at, to.path(), err.Error())
	}
}

// assignSecret writes a reference to an environment variable into the tree, like one in
// the file: the secret itself is not stored.
func (o *overrides) assignSecret(to place, name, text string, at origin) {
	if !utf8.ValidString(text) {
		o.problems.add(at, to.path(), "is not UTF-8 text")
		return
	}
	value := &node{kind: scalar, text: text, origin: at, reference: "${" + name + "}", fromOutside: true}
	if err := put(o.root, to.steps, value); err != nil {
		o.problems.add(at, to.path(), err.Error())
	}
}

// readFlow reads YAML on one line. It returns nil for other text.
func (o *overrides) readFlow(text string, at origin) *node {
	var problems Problems
	flow := reader{problems: &problems}
	read := flow.readYAML([]byte(text))
	if read == nil || len(problems) > 0 {
		return nil
	}
	read.setOrigin(at)
	return read
}

func (n *node) setOrigin(at origin) {
	n.origin = at
	for i := range n.entries {
		n.entries[i].origin = at
		n.entries[i].value.setOrigin(at)
	}
	for _, item := range n.items {
		item.setOrigin(at)
	}
}

// findByVariable finds the setting that a variable's words name. Names of
// settings have several words themselves, so the longest match is tried first
// and given up where the rest leads nowhere.
func findByVariable(from place, words []string) (place, bool) {
	if len(words) == 0 {
		return from, true
	}
	if isScalarType(from.typ) {
		return place{}, false
	}
	if isTextMap(from.typ) {
		// Variables are written in capitals, the keys they name are not.
		key := strings.ToLower(strings.Join(words, "_"))
		return from.then(step{key: key, isUserKey: true, anyCase: true}, from.typ.Elem()), key != ""
	}
	for n := len(words); n > 0; n-- {
		next, err := from.descend(strings.Join(words[:n], "_"))
		if err != nil {
			continue
		}
		if found, ok := findByVariable(next, words[n:]); ok {
			return found, true
		}
	}
	return place{}, false
}

func isTextMap(typ reflect.Type) bool {
	return typ.Kind() == reflect.Map && typ.Key().Kind() == reflect.String
}

// knownVariables lists a variable for every single setting.
func knownVariables() []string {
	var names []string
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		switch {
		case isScalarType(typ) || isTextMap(typ):
			names = append(names, prefix)
		case typ.Kind() == reflect.Struct:
			for _, f := range fieldsOf(typ) {
				if typ.FieldByIndex(f.index).Tag.Get("from") == "file" {
					continue
				}
				walk(prefix+"_"+variableName(f.name), typ.FieldByIndex(f.index).Type)
			}
		case typ.Kind() == reflect.Map:
			_, keys := namesOf(typ.Key())
			for _, key := range keys {
				walk(prefix+"_"+variableName(key), typ.Elem())
			}
		case isScalarType(typ.Elem()):
			names = append(names, prefix)
		default:
			walk(prefix+"_0", typ.Elem())
		}
	}
	walk(strings.TrimSuffix(environmentPrefix, "_"), reflect.TypeFor[Document]())
	return names
}

func variableName(kebabName string) string {
	return strings.ToUpper(strings.ReplaceAll(kebabName, "-", "_"))
}
