package say

import (
	"errors"
	"fmt"
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

// Nothing that a backend said is in a sentence without words, wherever it was, and the
// gateway's own sentences stay as they are.
func TestSentencesWithoutWords(t *testing.T) {
	const secret = "my secret prompt"
	for _, e := range catalogue() {
		s, quotes := Sentence{Code: e.code}, false
		for _, p := range templates()[e.code] {
			switch {
			case p.name == words:
				s.put(p.name, secret)
				quotes = true
			case p.name != "":
				s.put(p.name, "7")
			}
		}
		own := s.Own()
		if strings.Contains(own.String(), secret) || quotes != (own.Code != s.Code) || own.String() == "" {
			t.Errorf("%s: %q becomes %q", e.code, s, own)
		}
	}
	status := New("model.engine_status", "status", 500, "words", secret)
	for _, c := range []struct {
		said Sentence
		want string
	}{
		{Sentence{}, ""},
		{Plain(secret), ""},
		{New("call.status_said", "status", 500, "words", secret), "The backend answered with status 500."},
		{New("call.their_limit_said", "words", secret).About("a"), "a: The backend's own rate limit was reached."},
		{New("call.unreached", "cause", New("cause.connection_refused")), "The backend could not be reached: connection refused."},
		{New("call.unreached", "cause", errors.New(secret)), "The backend could not be reached."},
		{New("model.stuck", "why", status), "the engine could not wake up: the engine answered with status 500"},
		{New("model.stuck", "why", New("model.still_asleep")), "the engine could not wake up: it says that it still sleeps"},
		{New("model.stays", "why", errors.New(secret)), "it could not be put to sleep"},
		{New("model.held", "model", "m", "host", "http://h:1", "why", Error("model.engine_status", "status", 500, "words", secret)), "a model that has to leave could not be put to sleep: m at http://h:1: the engine answered with status 500"},
		{New("batch.line", "line", 3, "fault", Plain(secret)), ""},
		{New("call.budget_out_key", "limit", "0.50", "unit", "USD", "window", New("budget.month"), "used", "0.49", "usedUnit", "USD"), "The budget of this API key, 0.50 USD this month, is used up, or what is left of it is less than this request may take; 0.49 USD are used."},
	} {
		if got := c.said.Own().String(); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.said, got, c.want)
		}
	}
}

// A long sentence is cut within its longest value and stays a sentence.
func TestSentencesAreCut(t *testing.T) {
	for _, c := range []struct {
		said Sentence
		most int
		want string
		code Code
	}{
		{New("call.status_said", "status", 500, "words", "1234567890"), 48, "The backend answered with status 500: 1234567890", "call.status_said"},
		{New("call.status_said", "status", 500, "words", "1234567890"), 41, "The backend answered with status 500: 123…", "call.status_said"},
		{New("call.status_said", "status", 500, "words", "123\u00e9"), 42, "The backend answered with status 500: 123…", "call.status_said"},
		{New("call.status", "status", 500), 10, "The backen…", Other},
	} {
		if got := c.said.Cut(c.most); got.String() != c.want || got.Code != c.code {
			t.Errorf("%q becomes %+v", c.said, got)
		}
	}
}

// An error says its sentence, also where another one around it adds nothing.
func TestErrorsAreSentences(t *testing.T) {
	refused := Error("cause.connection_refused")
	for _, c := range []struct {
		err  error
		want Code
	}{
		{refused, "cause.connection_refused"},
		{struct{ error }{refused}, Other}, // which hides what it holds
		{errors.Join(refused), "cause.connection_refused"},
		{fmt.Errorf("in vain: %w", refused), Other},
		{Wrap(refused, "call.unreached", "cause", refused), "call.unreached"},
		{About("base-url", Error("field.url")), "field.url"},
	} {
		if got := From(c.err); got.Code != c.want || got.String() != c.err.Error() {
			t.Errorf("%q is %+v", c.err, got)
		}
	}
	if !errors.Is(Wrap(refused, "call.unreached", "cause", refused), refused) || From(nil).Is() {
		t.Error("the cause is lost, or there is one of nothing")
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
