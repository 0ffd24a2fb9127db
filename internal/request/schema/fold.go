package schema

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// Keys that differ only in case are one key to many backends and two to this
// gateway: "Model" beside "model" would be a way to use a model that was not
// permitted, and "STREAM" one to get an answer that nobody expects. A key that
// some backend would take for a field which is read here is therefore refused like
// a duplicate.

// longestField is longer than any field that is read.
const longestField = 32

// foldedField returns the field that a key differs from only in case, empty where
// there is none, and the member for operators of engines that the key is in any case. Keys in lower
// case, which nearly all are, cost one look.
func (f *Fields) foldedField(key []byte) (field string, member Members) {
	if isLowerASCII(key) {
		return "", operatedMember(key)
	}
	var space [longestField]byte
	folded := space[:0]
	for i := 0; i < len(key); {
		char, size := utf8.DecodeRune(key[i:])
		i += size
		switch {
		case 'A' <= char && char <= 'Z':
			char += 'a' - 'A'
		case char == '\u017f': // the long s
			char = 's'
		case char == '\u212a': // the sign for kelvin
			char = 'k'
		case char >= utf8.RuneSelf: // no other folds to a character in names of fields
			return "", 0
		}
		if len(folded) == longestField {
			return "", 0
		}
		folded = append(folded, byte(char))
	}
	if f.names.Has(folded) && !bytes.Equal(folded, key) {
		return string(folded), 0
	}
	return "", operatedMember(folded)
}

func isLowerASCII(key []byte) bool {
	for _, c := range key {
		if 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// checkCase refuses an object that has a key which differs from a field only in
// case.
func (f *Fields) checkCase(object jsonscan.Value) *Error { return f.checkKeys(object, new(Members)) }

// checkKeys is checkCase for an object whose members for operators of engines are noted.
func (f *Fields) checkKeys(object jsonscan.Value, members *Members) *Error {
	for m := range object.All() {
		key := m.Key()
		field, member := f.foldedField(key)
		if field != "" {
			return CodedError(CodeInvalidJSON, "call.key_case", "key", key, "field", field, "same", field)
		}
		if m.Given() {
			*members |= member
		}
	}
	return nil
}

// noFields are the fields of objects of which no field is read.
var noFields = FieldsOf(struct{}{})

// MembersIn returns the members for operators of engines that some objects have.
func MembersIn(objects ...jsonscan.Value) (set Members) {
	for _, object := range objects {
		_ = noFields.checkKeys(object, &set) // no key differs only in case from no field
	}
	return set
}

// checkFormCase refuses a form with a name that differs from a field only in case, and notes the
// members for operators of engines.
func (f *Fields) checkFormCase(form *Form, members *Members) error {
	for i := range form.Parts {
		name, _, _ := strings.Cut(form.Parts[i].Name, "[")
		field, member := f.foldedField([]byte(name))
		if field != "" {
			return InvalidValue(field, say.New("call.form_case", "name", name, "field", field, "same", field))
		}
		*members |= member
	}
	return nil
}
