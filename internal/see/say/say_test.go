package say

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCodesAndTextsAreUnique(t *testing.T) {
	codes, texts := map[Code]bool{}, map[string]Code{}
	for _, e := range catalogue() {
		text := english(e.code)
		if codes[e.code] || e.code == Other {
			t.Errorf("%s is there twice", e.code)
		}
		if other, twice := texts[text]; twice {
			t.Errorf("%s and %s say the same", e.code, other)
		}
		codes[e.code], texts[text] = true, e.code
		if strings.Contains(e.text, "}{") {
			t.Errorf("%s: nothing tells where the first of its values ends", e.code)
		}
	}
}

// What Of finds says the same as the text, whatever the values are.
func TestEveryTextLeadsToItsCode(t *testing.T) {
	for _, e := range catalogue() {
		s := Sentence{Code: e.code}
		for _, p := range templates()[e.code] {
			switch {
			case p.isKnown:
				s.put(p.name, "is required")
			case p.name != "":
				s.put(p.name, "7")
			}
		}
		text := s.String()
		found := Of(text)
		if len(found) != 1 || found[0].Code != e.code || Join(found) != text {
			t.Errorf("%s: %q is taken for %+v", e.code, text, found)
		}
	}
}

func TestSentencesAreFoundInTexts(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Sentence
	}{
		{"", nil},
		{"all 4 slots taken", []Sentence{New("instance.no_slot", "slots", 4)}},
		{
			"unhealthy: connection refused",
			[]Sentence{{Code: "instance.unhealthy", Values: map[string]string{"cause": "connection refused"}, Inner: map[string]Sentence{"cause": {Code: "cause.connection_refused"}}}},
		},
		{
			"The backend answered with status 503: model is loading; wait",
			[]Sentence{New("call.status_said", "status", 503, "words", "model is loading; wait")},
		},
		{
			"The budget of the tenant acme, 0.50 USD this month, is used up, or what is left of it is less than this request may take; 0.49 USD are used.",
			[]Sentence{{
				Code: "call.budget_out_tenant", Values: map[string]string{"tenant": "acme", "limit": "0.50", "unit": "USD", "window": "this month", "used": "0.49", "usedUnit": "USD"},
				Inner: map[string]Sentence{"unit": New(Other, "text", "USD"), "window": {Code: "budget.month"}, "usedUnit": New(Other, "text", "USD")},
			}},
		},
		{
			"'messages[0].role' must be one of system, user.",
			[]Sentence{{
				Code: "call.field", Values: map[string]string{"field": "messages[0].role", "why": "must be one of system, user"},
				Inner: map[string]Sentence{"why": New("field.one_of", "known", "system, user")},
			}},
		},
		{
			"Missing required parameter: 'prompt'. The body has 'messages'; send those to /v1/chat/completions.",
			[]Sentence{{
				Code: "call.missing_hint", Values: map[string]string{"field": "prompt", "hint": "The body has 'messages'; send those to /v1/chat/completions."},
				Inner: map[string]Sentence{"hint": New("hint.to_chat")},
			}},
		},
		{"'NoneType' object has no attribute 'shape'.", []Sentence{New(Other, "text", "'NoneType' object has no attribute 'shape'.")}},
		{"quota-journal-unavailable: no space left; disabled", []Sentence{New("quota.journal", "why", "no space left; disabled")}},
		{"warming up; what nobody knows; weight 0", []Sentence{New("instance.warming"), New(Other, "text", "what nobody knows"), New("instance.no_weight")}},
		{`aliases["a b"]: leads back to itself; weight: is required`, []Sentence{New("field.alias_loop").About(`aliases["a b"]`), New("field.required").About("weight")}},
		{"a backend says: is required", []Sentence{New(Other, "text", "a backend says: is required")}},
		{"model is loading", []Sentence{New(Other, "text", "model is loading")}},
	} {
		if diff := cmp.Diff(All(c.want...), Of(c.text)); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
		if got := Join(Of(c.text)); got != c.text {
			t.Errorf("%q became %q", c.text, got)
		}
	}
	if got := Field("weight", "is required"); got.Code != "field.required" || got.String() != "weight: is required" {
		t.Errorf("%+v", got)
	}
}

// The console translates every sentence, with values that the sentence has.
func TestTheConsoleTranslatesEverySentence(t *testing.T) {
	source, err := os.ReadFile("../../../console/src/i18n/said.zh.ts")
	if err != nil {
		t.Fatal(err)
	}
	translated := map[Code]string{}
	for _, line := range regexp.MustCompile(`(?m)^  '?([a-z0-9_.]+)'?: '(.*)',$`).FindAllStringSubmatch(string(source), -1) {
		translated[Code(line[1])] = line[2]
	}
	value := regexp.MustCompile(`\{(\w+)\}`)
	for _, code := range Codes() {
		text, has := translated[code]
		if !has {
			t.Errorf("console/src/i18n/said.zh.ts does not translate %s: %s", code, english(code))
		}
		for _, name := range value.FindAllStringSubmatch(text, -1) {
			if !slices.ContainsFunc(templates()[code], func(p part) bool { return p.name == name[1] }) {
				t.Errorf("the translation of %s has a value %s, and the sentence has none", code, name[1])
			}
		}
		delete(translated, code)
	}
	for code := range translated {
		t.Errorf("console/src/i18n/said.zh.ts translates %s, which nobody says", code)
	}
}

// english returns the text of a code with the names of its values in braces.
func english(code Code) string {
	var out strings.Builder
	for _, part := range templates()[code] {
		out.WriteString(part.literal)
		if part.name != "" {
			out.WriteString("{" + part.name + "}")
		}
	}
	return out.String()
}

// What a backend said is in no text without words, wherever it stands, and the gateway's own
// sentences stay as they are.
func TestTextsWithoutWords(t *testing.T) {
	const secret = "my secret prompt"
	for _, e := range catalogue() {
		s, quotes := Sentence{Code: e.code}, false
		for _, p := range templates()[e.code] {
			switch {
			case p.isKnown:
				s.put(p.name, "is required")
			case p.name == words:
				s.put(p.name, secret+"; a: b: "+secret)
				quotes = true
			case p.name != "":
				s.put(p.name, "7")
			}
		}
		got := WithoutWords(s.String())
		isWhole := got == s.String()
		if strings.Contains(got, secret) || quotes && (isWhole || got == "") || !quotes && !isWhole && Of(s.String())[0].Inner == nil {
			t.Errorf("%s: %q", e.code, got)
		}
	}
	for text, want := range map[string]string{
		"": "", secret: "",
		"The backend answered with status 500: " + secret:                                                                      "The backend answered with status 500.",
		"The backend answered with status 500: a; b; c; d; e; f; g; h; i; " + secret:                                           "The backend answered with status 500.",
		"The backend's own rate limit was reached: all 4 slots taken; " + secret:                                               "The backend's own rate limit was reached.",
		"weight 0; " + secret + "; weight 0":                                                                                   "weight 0",
		"The backend could not be reached: connection refused.":                                                                "The backend could not be reached: connection refused.",
		"The backend could not be reached: " + secret + ".":                                                                    "The backend could not be reached.",
		"the engine could not wake up: the engine answered with status 500: " + secret:                                         "the engine could not wake up: the engine answered with status 500.",
		"the engine could not wake up: it says that it still sleeps":                                                           "the engine could not wake up: it says that it still sleeps",
		"it could not be put to sleep: " + secret:                                                                              "it could not be put to sleep.",
		"a model that has to leave could not be put to sleep: m at http://h:1: the engine answered with status 500: " + secret: "a model that has to leave could not be put to sleep: m at http://h:1: the engine answered with status 500.",
		`The circuit breakers of the model "m" are open after repeated failures of its backends.`:                              `The circuit breakers of the model "m" are open after repeated failures of its backends.`,
	} {
		if got := WithoutWords(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// A sentence with a sentence in it is the same, whether it is made of codes or found in a text.
func TestSentencesOfSentences(t *testing.T) {
	made := All(New("instance.unhealthy", "cause", New("cause.status", "status", 502)), Sentence{})
	if diff := cmp.Diff(Of("unhealthy: status 502"), made); diff != "" {
		t.Error(diff)
	}
	if nothing := (Sentence{}); nothing.String() != "" || All(nothing) != nil {
		t.Errorf("%q, %v", nothing, All(nothing))
	}
}
