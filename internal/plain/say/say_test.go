package say

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTextsAreUnique(t *testing.T) {
	texts := map[string]Code{}
	for _, code := range Codes() {
		text := english(code)
		if other, twice := texts[text]; twice {
			t.Errorf("%s and %s say the same", code, other)
		}
		texts[text] = code
		if strings.Contains(text, "}{") {
			t.Errorf("%s: nothing tells where the first of its values ends", code)
		}
	}
}

// The console translates every sentence, with values that the sentence has.
func TestTheConsoleTranslatesEverySentence(t *testing.T) {
	source, err := os.ReadFile("../../../console/src/i18n/said.zh.ts")
	if err != nil {
		t.Fatal(err)
	}
	all := string(source)
	for _, content := range wingFiles("sentences.zh.ts") {
		all += content
	}
	translated := map[Code]string{}
	for _, line := range regexp.MustCompile(`(?m)^  '?([a-z0-9_.]+)'?: '(.*)',$`).FindAllStringSubmatch(all, -1) {
		translated[Code(line[1])] = line[2]
	}
	value := regexp.MustCompile(`\{(\w+)\}`)
	for _, code := range Codes() {
		text, has := translated[code]
		if !has {
			t.Errorf("no list in Chinese has %s: %s", code, english(code))
		}
		for _, name := range value.FindAllStringSubmatch(text, -1) {
			if !slices.ContainsFunc(templates[code], func(p part) bool { return p.name == name[1] }) {
				t.Errorf("the translation of %s has a value %s, and the sentence has none", code, name[1])
			}
		}
		delete(translated, code)
	}
	for code := range translated {
		t.Errorf("a list in Chinese has %s, and no sentence has this code", code)
	}
}

// english returns the text of a code with the names of its values in braces.
func english(code Code) string {
	var out strings.Builder
	for _, part := range templates[code] {
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
	for _, code := range Codes() {
		if code == Other {
			continue
		}
		s, quotes := Sentence{Code: code}, false
		for _, p := range templates[code] {
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
			t.Errorf("%s: %q becomes %q", code, s, own)
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
		{New("call.budget_out_key", "limit", "0.50", "unit", "USD", "window", New("budget.month"), "used", "0.49", "usedUnit", "USD", "wanted", "0.02", "wantedUnit", "USD"), "The budget of this API key, 0.50 USD this month, is used up, or what is left of it is less than this request may take: 0.49 USD are used, and it would reserve 0.02 USD. A lower max_tokens reserves less."},
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

// A sentence reads as one, whatever is in it.
func TestSentencesOfSentences(t *testing.T) {
	at := New("json.at", "fault", New("json.colon"), "offset", 7)
	noMethod := []any{"method", "GET", "path", "/v1/x", "allowed", "POST"}
	for _, c := range []struct {
		said Sentence
		want string
	}{
		{Sentence{}, ""},
		{New("instance.unhealthy", "cause", New("cause.status", "status", 502)), "unhealthy: status 502"},
		{New("call.field", "field", "model", "why", New("field.required")), "'model' is required."},
		{New("call.not_json", "why", at), "The request body is not valid JSON: expected ':' after a key at byte 7."},
		{New("json.ended", "fault", at), "unexpected end of the text: expected ':' after a key at byte 7"},
		{New("call.no_method", noMethod...), "The method GET is not allowed for /v1/x; allowed are POST."},
		{New("call.no_method_hint", append(noMethod, "hint", Plain("Look."))...), "The method GET is not allowed for /v1/x; allowed are POST. Look."},
		{New("field.alias_loop").About(`aliases["a b"]`), `aliases["a b"]: leads back to itself`},
		{New("field.found", "fault", New("field.size"), "found", `a"b`), `want a size such as "32MiB", "64KiB" or "1048576", found "a\"b"`},
	} {
		if got := c.said.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if nothing := (Sentence{}); All(nothing) != nil || nothing.Err() != nil {
		t.Errorf("%v, %v", All(nothing), nothing.Err())
	}
	said := All(New("field.required").About("a"), Sentence{}, New("field.empty").About("b"))
	if len(said) != 2 || said[1].Text != "must not be empty" || Join(said) != "a: is required; b: must not be empty" {
		t.Errorf("%+v", said)
	}
}

// Map changes the values alone, with their quotes, and those of the sentences within.
func TestValuesAreMapped(t *testing.T) {
	var seen []string
	upper := func(written string) string {
		seen = append(seen, written)
		return strings.ToUpper(written)
	}
	said := New("field.found", "fault", New("field.entries", "most", "ten"), "found", `a"`).About("path")
	if got, want := said.Map(upper).String(), `path: must not have more than TEN entries, found "A\""`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if want := []string{"ten", `"a\""`}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}

// TestMeasuredTimesHaveThreeDigitsAndAUnit writes lengths of time as people read them.
func TestMeasuredTimesHaveThreeDigitsAndAUnit(t *testing.T) {
	for value, want := range map[any]string{
		7443 * time.Millisecond: "7.44 s", 300 * time.Millisecond: "300 ms", 90 * time.Second: "1.5 min", time.Hour: "1 h",
		59*time.Second + 999*time.Millisecond: "1 min", 999_999 * time.Nanosecond: "1 ms", 41 * time.Microsecond: "41 µs", time.Duration(0): "0 s",
		-time.Second: "-1 s", 1234567 * time.Microsecond: "1.23 s", 744 * time.Hour: "744 h",
	} {
		if got := New("instance.breaker", "wait", value).Values["wait"]; got != want {
			t.Errorf("%v: got %q, want %q", value, got, want)
		}
	}
}
