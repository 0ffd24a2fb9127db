package settings_test

import (
	"net/netip"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

type inner struct {
	Names []string
	On    *bool
}

type sample struct {
	Name   string
	Ranges []netip.Prefix
	Parts  []inner
	ByName map[string]inner
	hidden string
}

func filled() sample {
	on := true
	return sample{
		Name: "a", Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, hidden: "h",
		Parts:  []inner{{Names: []string{"x"}, On: &on}},
		ByName: map[string]inner{"k": {Names: []string{"y"}}},
	}
}

func TestACloneIsTheSameAndSharesNothing(t *testing.T) {
	for name, change := range map[string]func(*sample){
		"a text":             func(s *sample) { s.Name = "b" },
		"an element":         func(s *sample) { s.Ranges[0] = netip.MustParsePrefix("10.0.0.0/9") },
		"a list in a list":   func(s *sample) { s.Parts[0].Names[0] = "z" },
		"behind a pointer":   func(s *sample) { *s.Parts[0].On = false },
		"no pointer":         func(s *sample) { s.Parts[0].On = nil },
		"a list in a map":    func(s *sample) { s.ByName["k"].Names[0] = "z" },
		"another key":        func(s *sample) { s.ByName["l"] = s.ByName["k"]; delete(s.ByName, "k") },
		"an element more":    func(s *sample) { s.Parts = append(s.Parts, inner{}) },
		"an entry less":      func(s *sample) { delete(s.ByName, "k") },
		"an unexported text": func(s *sample) { s.hidden = "" },
	} {
		original := filled()
		copied := settings.Clone(original)
		if !settings.Equal(copied, original) {
			t.Errorf("%s: a clone differs", name)
		}
		change(&copied)
		if settings.Equal(copied, original) || settings.Equal(original, copied) {
			t.Errorf("%s: a change is no difference", name)
		}
		if !settings.Equal(original, filled()) {
			t.Errorf("%s: the clone shares it with the original", name)
		}
	}
}

func TestNothingIsTheSameAsEmpty(t *testing.T) {
	if !settings.Equal(sample{}, sample{Ranges: []netip.Prefix{}, ByName: map[string]inner{}}) {
		t.Error("an empty list differs from none")
	}
	if copied := settings.Clone(sample{}); copied.Ranges != nil || copied.ByName != nil {
		t.Error("a clone has lists that the original does not have")
	}
}
