package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// step leads from a mapping or list to one of its values.
type step struct {
	// key is a field's name, or the key of a mapping.
	key string
	// index is the position in a list where isIndex is set.
	index   int
	isIndex bool
	// isUserKey marks keys that users choose: only the very spelling is the same key.
	isUserKey bool
	// anyCase lets such a key match one with another spelling.
	anyCase bool
}

// place is a setting: the way to it from the document, and its type.
type place struct {
	steps []step
	typ   reflect.Type
}

func (p place) path() string {
	path := ""
	for _, s := range p.steps {
		switch {
		case s.isIndex:
			path = indexed(path, s.index)
		case s.isUserKey:
			path = keyed(path, s.key)
		default:
			path = join(path, s.key)
		}
	}
	return path
}

func (p place) then(s step, typ reflect.Type) place {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	steps := append(append([]step(nil), p.steps...), s)
	return place{steps: steps, typ: typ}
}

// findPlace follows the segments of a dotted key such as
// services.chat.instances[0].weight.
func findPlace(dotted string) (place, error) {
	segments, err := splitKey(dotted)
	if err != nil {
		return place{}, err
	}
	if len(segments) > 1 && schema.Fold(segments[0]) == "patchbay" {
		segments = segments[1:]
	}
	at := place{typ: reflect.TypeFor[Document]()}
	for _, segment := range segments {
		if at, err = at.descend(segment); err != nil {
			return place{}, err
		}
	}
	return at, nil
}

// splitKey splits at dots and brackets. Quoted text in brackets is one segment, whatever
// it contains.
func splitKey(dotted string) ([]string, error) {
	var segments []string
	rest := dotted
	for rest != "" {
		if rest[0] != '[' {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			segments = append(segments, rest[:end])
			rest = rest[end:]
		} else {
			end := closingBracket(rest, 0)
			inside, closed := strings.CutSuffix(rest[1:end], "]")
			if !closed {
				return nil, errors.New("the key has a [ without its ]")
			}
			if unquoted, err := strconv.Unquote(inside); err == nil {
				inside = unquoted
			}
			segments = append(segments, inside)
			rest = rest[end:]
		}
		if after, dot := strings.CutPrefix(rest, "."); dot {
			if rest = after; rest == "" {
				return nil, errors.New("the key ends with a dot")
			}
		}
	}
	for _, segment := range segments {
		if segment == "" {
			return nil, errors.New("the key has an empty part")
		}
	}
	if len(segments) == 0 {
		return nil, errors.New("the key is empty")
	}
	return segments, nil
}

func (p place) descend(segment string) (place, error) {
	if isScalarType(p.typ) {
		return place{}, fmt.Errorf("%s is a single value and has no %q inside", p.path(), segment)
	}
	switch p.typ.Kind() {
	case reflect.Struct:
		fields := fieldsOf(p.typ)
		found, known := findField(fields, segment)
		if !known {
			return place{}, unknownKey(segment, fieldNames(fields)).Err()
		}
		return p.then(step{key: found.name}, p.typ.FieldByIndex(found.index).Type), nil
	case reflect.Map:
		s, err := mapStep(p.typ.Key(), segment)
		if err != nil {
			return place{}, err
		}
		return p.then(s, p.typ.Elem()), nil
	}
	index, err := strconv.ParseUint(segment, 10, 16)
	if err != nil {
		return place{}, fmt.Errorf("%s is a list: want a position such as 0, found %q", p.path(), segment)
	}
	return p.then(step{index: int(index), isIndex: true}, p.typ.Elem()), nil
}

func mapStep(keyType reflect.Type, written string) (step, error) {
	key := reflect.New(keyType)
	target, isNamed := key.Interface().(encoding.TextUnmarshaler)
	if !isNamed {
		return step{key: written, isUserKey: true}, nil
	}
	if err := target.UnmarshalText([]byte(written)); err != nil {
		return step{}, unknownName(written, keyType, err).Err()
	}
	return step{key: Kebab(fmt.Sprint(key.Elem().Interface()))}, nil
}

// find returns the value at the end of the steps, or nil where nothing was written.
func (n *node) find(steps []step) *node {
	if n == nil || len(steps) == 0 {
		return n
	}
	if s := steps[0]; s.isIndex {
		if s.index < len(n.items) {
			return n.items[s.index].find(steps[1:])
		}
		return nil
	}
	for _, e := range n.entries {
		if steps[0].matches(e.key) {
			return e.value.find(steps[1:])
		}
	}
	return nil
}

// put writes a value into the tree. A tree that has something else on the way
// stays as it is: decoding will report that.
func put(root *node, steps []step, value *node) error {
	at := root
	for i, s := range steps {
		slot, err := at.slot(s, value.origin)
		if err != nil || slot == nil {
			return err
		}
		if i == len(steps)-1 {
			*slot = value
			return nil
		}
		at = *slot
	}
	return nil
}

// slot returns where the value of a step is kept, and makes room for it.
func (n *node) slot(s step, by origin) (**node, error) {
	if s.isIndex {
		return n.itemSlot(s.index, by)
	}
	if n.kind == absent {
		n.kind = mapping
	}
	if n.kind != mapping {
		return nil, nil
	}
	for _, wantMerged := range []bool{false, true} {
		for i := range n.entries {
			e := &n.entries[i]
			if e.merged == wantMerged && s.matches(e.key) {
				return &e.value, nil
			}
		}
	}
	n.entries = append(n.entries, entry{key: s.key, origin: by, value: &node{origin: by}})
	return &n.entries[len(n.entries)-1].value, nil
}

func (s step) matches(key string) bool {
	if s.isUserKey && !s.anyCase {
		return s.key == key
	}
	return schema.Fold(s.key) == schema.Fold(key)
}

func (n *node) itemSlot(index int, by origin) (**node, error) {
	if n.kind == absent {
		n.kind = list
	}
	if n.kind != list {
		return nil, nil
	}
	if index > len(n.items) {
		return nil, fmt.Errorf("the list has %d entries: position %d would leave a gap", len(n.items), index)
	}
	if index == len(n.items) {
		n.items = append(n.items, &node{origin: by})
	}
	return &n.items[index], nil
}
