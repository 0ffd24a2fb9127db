package main

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// A verb asks an operation that the gateway has, and its flags give members of the operation's input.
func TestVerbsAskOperations(t *testing.T) {
	t.Parallel()
	routes := map[string]web.Route{}
	for _, route := range gatewaytest.Start(t, "").Routes {
		routes[route.Pattern] = route
	}
	declared := 0
	for _, cmd := range verbsBelow(newRoot(nil, io.Discard, io.Discard)) {
		operation, _, _ := strings.Cut(cmd.Annotations["operation"], "?")
		if operation == "" {
			continue
		}
		declared++
		route, known := routes[operation]
		if !known {
			t.Errorf("%s asks %q, which the gateway does not have", cmd.CommandPath(), operation)
			continue
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			for _, member := range f.Annotations["member"] {
				input := route.Body
				if strings.HasPrefix(member, "?") {
					input = route.Query
				}
				if !hasMember(reflect.TypeOf(input), strings.TrimPrefix(member, "?")) && member != "?dryRun" {
					t.Errorf("%s --%s gives %q, which is no member of the input of %s", cmd.CommandPath(), f.Name, member, operation)
				}
			}
		})
	}
	if declared < 15 {
		t.Errorf("got %d verbs with an operation, want at least those of keys and tokens", declared)
	}
}

// hasMember reports whether JSON of a type has a member, also one of a member.
func hasMember(t reflect.Type, path string) bool {
	member, inner, _ := strings.Cut(path, ".")
	if t == nil || t.Kind() != reflect.Struct {
		return false
	}
	return slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return name == member && (inner == "" || hasMember(f.Type, inner))
	})
}
