package config

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// defaulter is a list element or mapping value that has defaults of its own.
type defaulter interface{ SetDefaults() }

// givenHook is a group of settings with a method that is called if the file has the
// group, before its fields are read.
type givenHook interface{ Given() }

// oneOrMore is a list that may be written as a single value.
type oneOrMore interface{ OneOrMore() }

// decoder fills values from the tree and leaves the rest as it is, so the values must
// hold their defaults.
type decoder struct {
	problems *Problems
	// written holds the node of every setting that was given, by its path.
	written map[string]*node
	// values holds the decoded values.
	values map[string]reflect.Value
	// failed holds the paths with a value that could not be used.
	failed map[string]bool
	fields map[reflect.Type][]field
	// inJSON spells settings as JSON does. readOnly names members that are not settings
	// and are ignored: replies have them, and clients send them back.
	inJSON   bool
	readOnly []string
}

func newDecoder(problems *Problems) *decoder {
	return &decoder{
		problems: problems,
		written:  make(map[string]*node),
		values:   make(map[string]reflect.Value),
		failed:   make(map[string]bool),
		fields:   make(map[reflect.Type][]field),
	}
}

func (d *decoder) decode(from *node, path string, to reflect.Value) {
	if from.fault.Is() {
		d.fail(from, path, from.fault)
		return
	}
	if from.kind == absent && from.reference != "" && to.Type() == reflect.TypeFor[backend.Secret]() {
		from = &node{kind: scalar, origin: from.origin, reference: from.reference} // it is empty today
	}
	if from.kind == absent {
		return
	}
	d.written[path] = from
	if to.Kind() == reflect.Pointer {
		if to.IsNil() {
			to.Set(freshValue(to.Type().Elem()).Addr())
		}
		to = to.Elem()
	}
	d.values[path] = to
	if to.Type() == reflect.TypeFor[netip.Prefix]() {
		d.decodePrefix(from, path, to)
		return
	}
	if to.Type() == reflect.TypeFor[backend.Secret]() {
		d.decodeSecret(from, path, to)
		return
	}
	if target, ok := to.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.decodeText(from, path, to, target)
		return
	}
	switch to.Kind() {
	case reflect.Struct:
		d.decodeStruct(from, path, to)
	case reflect.Map:
		d.decodeMap(from, path, to)
	case reflect.Slice:
		d.decodeSlice(from, path, to)
	default:
		d.decodeBasic(from, path, to)
	}
}

// fail reports that the value at path cannot be used.
func (d *decoder) fail(from *node, path string, fault say.Sentence) {
	d.failed[path] = true
	if from.fromOutside || isSecretName(path) {
		fault = mask(fault, from.text)
	}
	d.problems.say(from.origin, path, fault)
}

// expect reports a value of the wrong kind.
func (d *decoder) expect(want kind, from *node, path string) bool {
	if from.kind == want {
		return true
	}
	d.fail(from, path, wantFound(want.said(), from.kind.said()))
	d.reportFaults(from, path)
	return false
}

// reportFaults reports the faults inside a value that is not decoded.
func (d *decoder) reportFaults(from *node, path string) {
	if from.fault.Is() {
		d.fail(from, path, from.fault)
	}
	for _, entry := range from.entries {
		d.reportFaults(entry.value, joinWritten(path, entry.key))
	}
	for i, item := range from.items {
		d.reportFaults(item, indexed(path, i))
	}
}

func (d *decoder) decodeStruct(from *node, path string, to reflect.Value) {
	if !d.expect(mapping, from, path) {
		return
	}
	if hook, ok := to.Addr().Interface().(givenHook); ok {
		hook.Given()
	}
	fields, cached := d.fields[to.Type()]
	if !cached {
		fields = fieldsOf(to.Type())
		if d.inJSON {
			fields = inCamelCase(fields)
		}
		d.fields[to.Type()] = fields
	}
	seen := make(map[string]entry)
	for _, entry := range explicitFirst(from.entries) {
		found, known := findField(fields, entry.key)
		if !known && slices.Contains(d.readOnly, entry.key) {
			continue
		}
		if !known {
			unknown := joinWritten(path, entry.key)
			d.problems.say(entry.origin, unknown, unknownKey(entry.key, fieldNames(fields)))
			d.reportFaults(entry.value, unknown)
			continue
		}
		if d.repeats(seen, found.name, entry, join(path, found.name)) {
			continue
		}
		d.decode(entry.value, join(path, found.name), to.FieldByIndex(found.index))
	}
}

// explicitFirst puts the entries that a merge key brought in behind the others.
func explicitFirst(entries []entry) []entry {
	if !slices.ContainsFunc(entries, func(e entry) bool { return e.merged }) {
		return entries
	}
	ordered := make([]entry, 0, len(entries))
	for _, wantMerged := range []bool{false, true} {
		for _, entry := range entries {
			if entry.merged == wantMerged {
				ordered = append(ordered, entry)
			}
		}
	}
	return ordered
}

// repeats reports whether a key was there before, and reports it unless it came from a
// merge.
func (d *decoder) repeats(seen map[string]entry, name string, again entry, path string) bool {
	first, twice := seen[name]
	if !twice {
		seen[name] = again
		return false
	}
	if again.merged {
		return true
	}
	d.problems.say(again.origin, path, duplicateKey(again, first))
	d.reportFaults(again.value, path)
	return true
}

func duplicateKey(again, first entry) say.Sentence {
	place := first.origin.String()
	if place == "" && first.key == again.key {
		return say.New("json.duplicate", "key", again.key)
	}
	if first.origin.line > 0 {
		place = fmt.Sprintf("line %d", first.origin.line)
	}
	message := fmt.Sprintf("duplicate key %q", again.key)
	if place != "" {
		message += ", first given at " + place
	}
	if first.key != again.key {
		message += fmt.Sprintf(" as %q", first.key)
	}
	return say.Plain(message)
}

func (d *decoder) decodeMap(from *node, path string, to reflect.Value) {
	if !d.expect(mapping, from, path) {
		return
	}
	if to.IsNil() {
		to.Set(reflect.MakeMap(to.Type()))
	}
	seen := make(map[string]entry)
	for _, entry := range explicitFirst(from.entries) {
		key, name, ok := d.mapKey(entry, path, to.Type(), from.entries)
		if !ok || d.repeats(seen, name, entry, name) || entry.value.kind == absent {
			continue
		}
		value := freshValue(to.Type().Elem())
		if present := to.MapIndex(key); present.IsValid() {
			value.Set(present)
		}
		d.decode(entry.value, name, value)
		to.SetMapIndex(key, value)
	}
}

// mapKey reads a key and returns it with the path of its value. Plain text keys
// belong to the user and are kept as written. The value of an unknown name is read as that of the
// likeliest one that is not given, so that all its mistakes are reported.
func (d *decoder) mapKey(at entry, path string, mapType reflect.Type, all []entry) (
	key reflect.Value, name string, ok bool) {
	keyType := mapType.Key()
	key = reflect.New(keyType).Elem()
	target, isNamed := key.Addr().Interface().(encoding.TextUnmarshaler)
	if !isNamed {
		key.SetString(at.key)
		return key, keyed(path, at.key), true
	}
	if err := target.UnmarshalText([]byte(at.key)); err != nil {
		unknown := joinWritten(path, at.key)
		d.problems.say(at.origin, unknown, unknownName(at.key, keyType, err))
		_, names := namesOf(keyType)
		near := schema.Nearest(at.key, names, 1)
		if len(near) == 0 || target.UnmarshalText([]byte(near[0])) != nil ||
			slices.ContainsFunc(all, func(other entry) bool { return schema.Fold(other.key) == schema.Fold(near[0]) }) {
			d.decode(at.value, unknown, freshValue(mapType.Elem()))
			return key, "", false
		}
	}
	return key, join(path, Kebab(fmt.Sprint(key.Interface()))), true
}

// unknownName words the refusal of a name, with a suggestion where the type lists its
// names.
func unknownName(written string, valueType reflect.Type, err error) say.Sentence {
	noun, names := namesOf(valueType)
	if names == nil {
		return say.From(err)
	}
	return suggest("field.unknown_near", "field.unknown_name", written, names, "noun", noun, "name", written)
}

func (d *decoder) decodeSlice(from *node, path string, to reflect.Value) {
	elem := to.Type().Elem()
	if from.kind == scalar && from.isLine && isScalarType(elem) {
		from = splitLine(from)
	} else if _, single := to.Interface().(oneOrMore); single && from.kind == scalar {
		item := *from
		from = &node{kind: list, origin: from.origin, items: []*node{&item}}
	}
	if !d.expect(list, from, path) {
		return
	}
	// The given list replaces the default one.
	decoded := reflect.MakeSlice(to.Type(), len(from.items), len(from.items))
	to.Set(decoded)
	for i, item := range from.items {
		at := indexed(path, i)
		if item.kind == absent {
			d.fail(item, at, say.New("field.item_empty"))
			continue
		}
		decoded.Index(i).Set(freshValue(elem))
		d.decode(item, at, decoded.Index(i))
		// Rules that compare the elements of a list would judge a default in place of the
		// written value, so the whole list is exempt from them.
		if d.failed[at] && isScalarType(elem) {
			d.failed[path] = true
		}
	}
}

// splitLine makes a list of a text with commas.
func splitLine(line *node) *node {
	split := *line
	split.kind = list
	if line.text == "" {
		return &split
	}
	for part := range strings.SplitSeq(line.text, ",") {
		item := *line
		item.text = strings.TrimSpace(part)
		split.items = append(split.items, &item)
	}
	return &split
}

// freshValue returns a settable value of the type that holds its defaults.
func freshValue(valueType reflect.Type) reflect.Value {
	fresh := reflect.New(valueType)
	if target, ok := fresh.Interface().(defaulter); ok {
		target.SetDefaults()
	}
	return fresh.Elem()
}

// isScalarType reports whether values of the type are written as one word.
func isScalarType(valueType reflect.Type) bool {
	if valueType == reflect.TypeFor[backend.Secret]() {
		return true
	}
	if reflect.PointerTo(valueType).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	}
	switch valueType.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Pointer:
		return false
	}
	return true
}
