package naming_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
)

func TestFallbacksThatCannotWorkAreRefused(t *testing.T) {
	var many []string
	known := models{"big", "small"}
	for n := range 11 {
		many = append(many, fmt.Sprint("m", n))
		known = append(known, many[n])
	}
	aliases := naming.Aliases{"fast": "small", "quick": "fast"}
	for _, row := range []struct {
		fallbacks naming.Fallbacks
		want      string // empty: nothing is wrong
	}{
		{naming.Fallbacks{"big": {"small", "m1"}, "small": {"big"}}, ""},
		{naming.Fallbacks{"fast": {"big"}}, ""},
		{naming.Fallbacks{"bog": {"small"}}, `["bog"] no instance has the name "bog" (did you mean "big"?)`},
		{naming.Fallbacks{"big": {"none"}}, `["big"][0] no instance has the name "none"`},
		{naming.Fallbacks{"big": {"small", "big"}}, `["big"][1] is the model itself`},
		{naming.Fallbacks{"quick": {"small"}}, `["quick"][0] is the model itself`},
		{naming.Fallbacks{"big": {"small", "fast"}}, `["big"][1] is in the list already`},
		{naming.Fallbacks{"fast": {"big"}, "small": {"big"}}, `["small"] is the same model as "fast"`},
		{naming.Fallbacks{"big": {}}, `["big"] must not be empty`},
		{naming.Fallbacks{"big": many}, `["big"] must not have more than 10 models`},
		{naming.Fallbacks{"": {"big"}}, `the model must not be empty`},
		{naming.Fallbacks{"big": {""}}, `["big"][0] the model must not be empty`},
	} {
		var found problems
		row.fallbacks.Check(aliases, known, found.report)
		got := strings.Join(found, "\n")
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%v: %s, want %s", row.fallbacks, got, row.want)
		}
	}
}

func TestReasonsAreReadByName(t *testing.T) {
	for _, reason := range naming.Reasons() {
		text, _ := reason.MarshalText()
		var read naming.Reason
		if err := read.UnmarshalText(text); err != nil || read != reason {
			t.Errorf("%s is read as %v, %v", text, read, err)
		}
	}
	var r naming.Reason
	if err := r.UnmarshalText([]byte("always")); err == nil {
		t.Error("any word is a reason")
	}
}

func TestCopiesOfFallbacksShareNothing(t *testing.T) {
	f := naming.Fallbacks{"a": {"b", "c"}}
	copied := settings.Clone(f)
	if !settings.Equal(copied, f) || !settings.Equal(naming.Fallbacks(nil), naming.Fallbacks{}) {
		t.Error("a copy differs")
	}
	copied["a"][0] = "x"
	if f["a"][0] != "b" || settings.Equal(copied, f) {
		t.Error("a copy shares its lists")
	}
}
