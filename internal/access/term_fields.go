package access

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Field is a single value of terms: a list, a text, or a number of the limits or budgets.
type Field struct {
	// Path is its place in JSON, such as budgets.day.tokens.
	Path string
	// Flag is the flag of the program's verbs that sets it, empty if there is none. Of a flag for several
	// values, Part is the name of this one in its text, such as day.tokens.
	Flag, Part string
	// Doc describes the value, or the values of its flag.
	Doc string
	// AreRanges reports whether the entries of the list are ranges of addresses, not patterns.
	AreRanges bool
	// IsAsked reports whether people ask for it when they make keys for themselves or their team.
	IsAsked bool

	index []int
}

// In returns the value of the field in terms, which may be changed.
func (f *Field) In(t *Terms) reflect.Value { return reflect.ValueOf(t).Elem().FieldByIndex(f.index) }

// isNone reports whether a value leaves the decision to wider settings.
func isNone(v reflect.Value) bool { return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 }

// Fields returns all fields of terms in their order.
var Fields = sync.OnceValue(func() []Field {
	return fieldsOf(reflect.TypeFor[Terms](), Field{})
})

func fieldsOf(of reflect.Type, group Field) (all []Field) {
	docs := map[string]string{}
	if has, ok := reflect.Zero(of).Interface().(interface{ Docs() map[string]string }); ok {
		docs = has.Docs()
	}
	for i := range of.NumField() {
		member := of.Field(i)
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		f := group
		f.index = append(slices.Clone(group.index), i)
		f.AreRanges = member.Tag.Get("entries") == "ranges"
		f.IsAsked = f.IsAsked || member.Tag.Get("asked") == "true"
		if f.Path += name; f.Flag == "" {
			f.Flag, f.Doc = member.Tag.Get("flag"), docs[name]
		} else {
			f.Part += name
		}
		if member.Type.Kind() != reflect.Struct {
			all = append(all, f)
			continue
		}
		if f.Path += "."; f.Part != "" {
			f.Part += "."
		}
		all = append(all, fieldsOf(member.Type, f)...)
	}
	return all
}
