// Package say has the sentences that the gateway says to people who look after it: each
// has a code, an English text and values in it. Programs that speak another language, such
// as the console, translate the code and fill in the values.
//
// A sentence is made with New where it is true, and travels as a value to the place where it
// is shown. Errors that are sentences are made with Error and Wrap, and From finds the
// sentence of an error again.
package say

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Code names a sentence. A code that a release had keeps its meaning.
type Code string

// Keywords describes codes in the OpenAPI document.
func (Code) Keywords() map[string]any { return map[string]any{"enum": Codes()} }

// Other is the code of words that are not the gateway's own, such as the words of a backend
// or of the operating system, and of sentences that have no code yet.
const Other Code = "other"

// Sentence is a sentence as its code and the values in it.
type Sentence struct {
	Code   Code              `json:"code" doc:"Which sentence it is; other for foreign words, in text."`
	Values map[string]string `json:"values,omitzero" doc:"What stands in the sentence, by name."`
	// Text is the English text where the sentence is one of several; a single one has the
	// member beside it.
	Text string `json:"text,omitzero" doc:"In English, where there are several sentences."`
	// Inner are the values that are sentences of their own.
	Inner map[string]Sentence `json:"inner,omitzero" doc:"Those of the values that are sentences themselves."`
	// Field is the field of a request that the sentence is about.
	Field string `json:"field,omitzero" doc:"The field of the request that it is about, where it is about one."`
}

// New returns the sentence of a code with values, which are given as pairs of a name and a
// value. A value may be a sentence itself, or an error: From then gives its sentence. A
// time.Duration was measured; one of a setting is a schema.Duration, as it is written. Values
// between double quotes are escaped as Go does.
func New(code Code, pairs ...any) Sentence {
	s := Sentence{Code: code}
	for i := 0; i+1 < len(pairs); i += 2 {
		name := pairs[i].(string)
		switch value := pairs[i+1].(type) {
		case Sentence:
			s.putInner(name, value)
		case error:
			s.putInner(name, From(value))
		case []byte:
			s.put(name, string(value))
		case time.Duration:
			s.put(name, brief(value))
		default:
			s.put(name, fmt.Sprint(value))
		}
	}
	for _, part := range templates[code] {
		if part.isQuoted {
			quoted := strconv.Quote(s.Values[part.name])
			s.put(part.name, quoted[1:len(quoted)-1])
		}
	}
	return s
}

// brief returns a length of time with three digits and its unit, such as "1.52 s".
func brief(d time.Duration) string {
	step := time.Duration(1)
	for d >= 1000*step {
		step *= 10
	}
	d = d.Round(step)
	size, unit := time.Microsecond, "µs"
	switch {
	case d >= time.Hour:
		size, unit = time.Hour, "h"
	case d >= time.Minute:
		size, unit = time.Minute, "min"
	case d >= time.Second || d <= 0:
		size, unit = time.Second, "s"
	case d >= time.Millisecond:
		size, unit = time.Millisecond, "ms"
	}
	return strconv.FormatFloat(float64(d)/float64(size), 'g', 3, 64) + " " + unit
}

// Plain returns a text without a code as a sentence. The text is not translated, and counts
// as the words of others: see Own.
func Plain(text string) Sentence {
	if text == "" {
		return Sentence{}
	}
	return New(Other, "text", text)
}

// Report takes what is wrong with the field at a path, as a Check of settings finds it.
type Report = func(path string, fault Sentence)

// Under returns a Report that puts a prefix before each path.
func Under(prefix string, report Report) Report {
	return func(path string, fault Sentence) { report(prefix+path, fault) }
}

// Text returns the English text of the sentence of a code.
func Text(code Code, pairs ...any) string { return New(code, pairs...).String() }

func (s *Sentence) put(name, value string) {
	if s.Values == nil {
		s.Values = make(map[string]string)
	}
	s.Values[name] = value
}

func (s *Sentence) putInner(name string, inner Sentence) {
	if s.Inner == nil {
		s.Inner = make(map[string]Sentence)
	}
	s.put(name, inner.String())
	s.Inner[name] = inner
}

// Is reports whether the sentence says anything. The zero value does not, and neither does a
// stored sentence with a code that only a later release has.
func (s Sentence) Is() bool { return templates[s.Code] != nil }

// About returns the sentence as one about a field of a request.
func (s Sentence) About(field string) Sentence {
	s.Field = field
	return s
}

// String returns the English text.
func (s Sentence) String() string {
	var out strings.Builder
	if s.Field != "" {
		out.WriteString(s.Field + ": ")
	}
	for _, part := range templates[s.Code] {
		out.WriteString(part.literal)
		if part.name != "" {
			out.WriteString(s.Values[part.name])
		}
	}
	return out.String()
}

// In returns the text in another language, which has templates of its own. A sentence without a
// template is told in English.
func (s Sentence) In(templateOf func(code string) string) string {
	text := templateOf(string(s.Code))
	if text == "" {
		return s.String()
	}
	var pairs []string
	for name, value := range s.Values {
		if inner, is := s.Inner[name]; is {
			value = inner.In(templateOf)
		}
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// Join returns the English text of several sentences.
func Join(sentences []Sentence) string {
	texts := make([]string, len(sentences))
	for i, s := range sentences {
		texts[i] = s.String()
	}
	return strings.Join(texts, "; ")
}

// told returns sentences with their texts, where they are several.
func told(said []Sentence) []Sentence {
	if len(said) > 1 {
		for i := range said {
			bare := said[i]
			bare.Field = ""
			said[i].Text = bare.String()
		}
	}
	return said
}

// words is the name of the value that holds a backend's own words.
const words = "words"

// Own returns the sentence without the words of backends and others. These are the value
// words, and sentences without a code. A sentence that quotes them becomes the plain one.
func (s Sentence) Own() Sentence {
	_, quotes := s.Values[words]
	if s.Code == Other || quotes {
		return s.plain()
	}
	own := s
	own.Inner = nil
	for name, inner := range s.Inner {
		if inner = inner.Own(); !inner.Is() {
			return s.plain()
		}
		if own.Inner == nil {
			own.Values = maps.Clone(s.Values)
		}
		own.putInner(name, inner)
	}
	return own
}

// plain returns the sentence that says the same without a quotation: the one whose code ends with _plain,
// or lacks the end _said or _why; the zero Sentence if there is none.
func (s Sentence) plain() Sentence {
	shorter := Sentence{Code: s.Code + "_plain", Field: s.Field}
	if templates[shorter.Code] == nil {
		shorter.Code = Code(strings.TrimSuffix(strings.TrimSuffix(string(s.Code), "_said"), "_why"))
	}
	if templates[shorter.Code] == nil || shorter.Code == s.Code {
		shorter.Code = ""
	}
	for _, part := range templates[shorter.Code] {
		if part.name != "" {
			shorter.put(part.name, s.Values[part.name])
		}
	}
	return shorter
}

// Map returns the sentence with other values: change makes each of a value as it is written,
// with the quotes around it.
func (s Sentence) Map(change func(written string) string) Sentence {
	mapped := Sentence{Code: s.Code, Field: s.Field}
	for _, part := range templates[s.Code] {
		inner, isSentence := s.Inner[part.name]
		switch {
		case part.name == "":
		case isSentence:
			mapped.putInner(part.name, inner.Map(change))
		case part.isQuoted:
			written := change(`"` + s.Values[part.name] + `"`)
			mapped.put(part.name, strings.TrimPrefix(strings.TrimSuffix(written, `"`), `"`))
		default:
			mapped.put(part.name, change(s.Values[part.name]))
		}
	}
	return mapped
}

// Cut returns the sentence with a text of at most so many bytes and the mark of a cut. It
// shortens the longest value.
func (s Sentence) Cut(longest int) Sentence {
	excess := len(s.String()) - longest
	if excess <= 0 {
		return s
	}
	name := ""
	for other, value := range s.Values {
		if _, isSentence := s.Inner[other]; !isSentence && len(value) > len(s.Values[name]) {
			name = other
		}
	}
	value := s.Values[name]
	if len(value) <= excess {
		return Plain(strings.ToValidUTF8(s.String()[:longest], "") + "…")
	}
	s.Values = maps.Clone(s.Values)
	s.Values[name] = strings.ToValidUTF8(value[:len(value)-excess], "") + "…"
	return s
}

// All returns sentences that belong together, without the empty ones.
func All(sentences ...Sentence) []Sentence {
	var said []Sentence
	for _, s := range sentences {
		if s.Is() {
			said = append(said, s)
		}
	}
	return told(said)
}

// Codes returns all codes in order.
func Codes() []Code {
	return slices.Sorted(maps.Keys(templates))
}

// Counted returns a number with a noun in its form for that number.
func Counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
