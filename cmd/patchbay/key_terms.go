package main

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// keyTerms are the terms of a key, as flags of its creation and its edit; access.Fields declares them.
func keyTerms() []flag {
	all := []flag{
		{"tenant", "tenant", "", "who uses it: for the quota ledger, and the limits and budgets of the tenant", nil},
		{"user-header", "userHeader", "", "header that is trusted to name the user of a request, such as " +
			"X-OpenWebUI-User-Email; it goes before user of the body", nil},
	}
	for _, field := range access.Fields() {
		usage := strings.TrimSuffix(strings.ToLower(field.Doc[:1])+field.Doc[1:], ".")
		f := flag{field.Flag, field.Path, "", usage, nil}
		switch kind := field.In(new(access.Terms)).Kind(); {
		case field.Part != "":
			f.member, _, _ = strings.Cut(field.Path, ".")
			f.byDefault, f.read = []string(nil), partsOf(field.Flag)
		case kind == reflect.Slice:
			f.byDefault, f.read = []string(nil), func(texts []string) (any, error) { return termValue(field, texts) }
		case kind == reflect.Int64:
			f.byDefault = int64(0)
		case kind == reflect.String:
			f = expiry()
		default:
			f.read = func(texts []string) (any, error) { return termValue(field, texts) }
		}
		if _, isList := f.byDefault.([]string); isList {
			f.usage += "; may be repeated"
		}
		if !slices.ContainsFunc(all, func(other flag) bool { return other.name == f.name }) {
			all = append(all, f)
		}
	}
	return all
}

// partsOf reads the values of a flag for several fields, such as day.tokens=100.
func partsOf(name string) func(texts []string) (any, error) {
	return func(texts []string) (any, error) {
		all := map[string]any{}
		for _, text := range texts {
			part, amount, _ := strings.Cut(text, "=")
			var known []string
			var value any
			var err error
			for _, field := range access.Fields() {
				if field.Flag != name {
					continue
				}
				if known = append(known, field.Part); field.Part == part {
					value, err = termValue(field, []string{amount})
				}
			}
			if err != nil {
				return nil, err
			}
			if value == nil {
				return nil, fmt.Errorf("--%s: want %s, then = and an amount, found %q", name,
					strings.Join(known, ", "), text)
			}
			put(all, strings.Split(part, "."), value)
		}
		return all, nil
	}
}

// put sets a member of a tree.
func put(tree map[string]any, path []string, value any) {
	for ; len(path) > 1; path = path[1:] {
		inner, _ := tree[path[0]].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
			tree[path[0]] = inner
		}
		tree = inner
	}
	tree[path[0]] = value
}

// termValue returns the value of a field that is written as one text, or as those of a list.
func termValue(field access.Field, texts []string) (any, error) {
	value := field.In(new(access.Terms))
	if value.Kind() != reflect.Slice {
		return value.Addr().Interface(), setText(field.Flag, value, texts[0])
	}
	value.Set(reflect.MakeSlice(value.Type(), len(texts), len(texts)))
	for i, text := range texts {
		if err := setText(field.Flag, value.Index(i), text); err != nil {
			return nil, err
		}
	}
	return value.Interface(), nil
}

func setText(flag string, value reflect.Value, text string) (err error) {
	switch to := value.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		err = to.UnmarshalText([]byte(text))
	case *int64:
		if *to, err = strconv.ParseInt(text, 10, 64); err != nil {
			err = fmt.Errorf("%q is not a number", text)
		}
	case *string:
		*to = text
	}
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

// keyLine is one key in a list.
type keyLine struct {
	ID         string `json:"id"`
	Tenant     string `json:"tenant"`
	UserHeader string `json:"userHeader,omitzero"`
	access.Terms
	Status string `json:"status"`
	Source string `json:"source"`
}

// terms prints the models and amounts that the key may use, in the words of the flags.
func (l *keyLine) terms() string {
	var parts []string
	if l.UserHeader != "" {
		parts = append(parts, "user-header="+l.UserHeader)
	}
	for _, field := range access.Fields() {
		value := field.In(&l.Terms)
		switch {
		case value.IsZero(), value.Kind() == reflect.String: // the expiry has a column
		case value.Kind() == reflect.Slice:
			for _, entry := range value.Seq2() {
				parts = append(parts, fmt.Sprint(field.Flag, "=", entry))
			}
		case field.Part != "":
			parts = append(parts, fmt.Sprint(strings.TrimPrefix(field.Path, "budgets."), "=", value))
		default:
			parts = append(parts, fmt.Sprint(field.Flag, "=", value))
		}
	}
	return cmp.Or(strings.Join(parts, " "), "-")
}
