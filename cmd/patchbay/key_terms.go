package main

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// termFlags are the terms of a key, as flags of its creation and its edit; access.Fields declares them.
type termFlags struct{ tenant, userHeader string }

func (f *termFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.tenant, "tenant", "", "who uses it: for the quota ledger, and the limits and budgets of the "+
		"tenant")
	set.StringVar(&f.userHeader, "user-header", "", "header that is trusted to name the user of a request, such as "+
		"X-OpenWebUI-User-Email; it goes before user of the body")
	for _, field := range access.Fields() {
		usage := strings.TrimSuffix(strings.ToLower(field.Doc[:1])+field.Doc[1:], ".")
		switch kind := field.In(new(access.Terms)).Kind(); {
		case set.Lookup(field.Flag) != nil: // several fields share it
		case field.Part != "", kind == reflect.Slice:
			set.StringArray(field.Flag, nil, usage+"; may be repeated")
		case kind == reflect.Int64:
			set.Int64(field.Flag, 0, usage)
		default:
			set.String(field.Flag, "", usage)
		}
	}
}

// patch returns the given terms in the form of the management API.
func (f *termFlags) patch(cmd *cobra.Command, now time.Time) (map[string]any, error) {
	given := map[string]any{}
	set := cmd.Flags()
	if set.Changed("tenant") {
		given["tenant"] = f.tenant
	}
	if set.Changed("user-header") {
		given["userHeader"] = f.userHeader
	}
	for _, field := range access.Fields() {
		if !set.Changed(field.Flag) {
			continue
		}
		flag := set.Lookup(field.Flag).Value
		texts := []string{flag.String()}
		if list, isList := flag.(pflag.SliceValue); isList {
			texts = slices.DeleteFunc(list.GetSlice(), func(text string) bool { return text == "" }) // none
		}
		if field.Part != "" {
			var err error
			if texts, err = amountsOf(field, texts); err != nil {
				return nil, err
			} else if len(texts) == 0 {
				continue
			}
		}
		value, err := termValue(field, texts, now)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", field.Flag, err)
		}
		put(given, strings.Split(field.Path, "."), value)
	}
	return given, nil
}

// amountsOf returns the last amount for a field among the values of its flag, such as day.tokens=100.
func amountsOf(field access.Field, texts []string) (amounts []string, err error) {
	for _, text := range texts {
		part, amount, _ := strings.Cut(text, "=")
		var known []string
		for _, other := range access.Fields() {
			if other.Flag == field.Flag {
				known = append(known, other.Part)
			}
		}
		if !slices.Contains(known, part) {
			return nil, fmt.Errorf("--%s: want %s, then = and an amount, found %q", field.Flag,
				strings.Join(known, ", "), text)
		}
		if part == field.Part {
			amounts = []string{amount}
		}
	}
	return amounts, nil
}

// termValue returns the value of a field that is written as one or several texts.
func termValue(field access.Field, texts []string, now time.Time) (any, error) {
	value := reflect.New(field.In(new(access.Terms)).Type()).Elem()
	if value.Kind() != reflect.Slice {
		err := setText(value, texts[0])
		if text, isText := value.Interface().(string); isText {
			return expiry(text, now)
		}
		return value.Interface(), err
	}
	value.Set(reflect.MakeSlice(value.Type(), len(texts), len(texts)))
	for i, text := range texts {
		if err := setText(value.Index(i), text); err != nil {
			return nil, err
		}
	}
	return value.Interface(), nil
}

func setText(value reflect.Value, text string) (err error) {
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
	return err
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
