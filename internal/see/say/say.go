// Package say has the sentences that the gateway says to people who look after it: each
// has a code, an English text and values in it. Programs that speak another language, such
// as the console, translate the code and fill in the values.
//
// Most sentences are made in the place where they are true and travel as texts, because
// logs, errors and terminals want texts. Of finds the code of a text again, and its
// sentences say exactly the same as the text: a text outside the catalogue gets the code
// Other.
package say

import (
	"fmt"
	"slices"
	"strings"
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
// value. A value may be a sentence itself.
func New(code Code, pairs ...any) Sentence {
	s := Sentence{Code: code}
	for i := 0; i+1 < len(pairs); i += 2 {
		name := pairs[i].(string)
		s.put(name, fmt.Sprint(pairs[i+1]))
		if inner, isSentence := pairs[i+1].(Sentence); isSentence {
			s.putInner(name, inner)
		}
	}
	return s
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
	s.Inner[name] = inner
}

// Is reports whether the sentence says anything. The zero value does not.
func (s Sentence) Is() bool { return s.Code != "" }

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
	for _, part := range templates()[s.Code] {
		out.WriteString(part.literal)
		if part.name != "" {
			out.WriteString(s.Values[part.name])
		}
	}
	return out.String()
}

// Join returns the English text of several sentences.
func Join(sentences []Sentence) string {
	texts := make([]string, len(sentences))
	for i, s := range sentences {
		texts[i] = s.String()
	}
	return strings.Join(texts, "; ")
}

// Of returns the sentences of a text, nil for an empty one.
func Of(text string) []Sentence {
	if text == "" {
		return nil
	}
	// A sentence may have semicolons of its own: look for the longest one first.
	parts := strings.Split(text, "; ")
	var said []Sentence
	for len(parts) > 0 {
		n := min(len(parts), maxParts)
		for ; n > 0; n-- {
			if s, known := findAbout(strings.Join(parts[:n], "; ")); known {
				said = append(said, s)
				break
			}
		}
		if n == 0 {
			n = 1
			said = append(said, New(Other, "text", parts[0]))
		}
		parts = parts[n:]
	}
	return told(said)
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

// WithoutWords returns a text without the words of backends and others: a sentence that
// quotes them is cut before the quotation, and all that follows is dropped.
func WithoutWords(text string) string {
	var all []string
	for _, s := range Of(text) {
		own, isWhole := s.own()
		if own != "" {
			all = append(all, own)
		}
		if !isWhole {
			break
		}
	}
	return strings.Join(all, "; ")
}

// own returns the beginning of a sentence up to the first words in it that are not the
// gateway's own, and whether there are none.
func (s Sentence) own() (text string, isWhole bool) {
	if s.Code == Other {
		return "", false
	}
	var out strings.Builder
	if s.Field != "" {
		out.WriteString(s.Field + ": ")
	}
	for _, p := range templates()[s.Code] {
		out.WriteString(p.literal)
		inner, isSentence := s.Inner[p.name]
		switch {
		case p.name == words:
			return ended(out.String()), false
		case !isSentence:
			out.WriteString(s.Values[p.name])
		default:
			own, isWhole := inner.own()
			if out.WriteString(own); !isWhole {
				return ended(out.String()), false
			}
		}
	}
	return out.String(), true
}

// ended returns the beginning of a sentence as a sentence.
func ended(beginning string) string {
	if text := strings.TrimRight(beginning, ` :.,("`); text != "" {
		return text + "."
	}
	return ""
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

// maxParts bounds how many semicolons the looked-for sentence has, as texts of backends may
// have any number of them.
const maxParts = 8

// findAbout finds a sentence of the catalogue that may follow the name of a field.
func findAbout(text string) (Sentence, bool) {
	if s, known := find(text); known {
		return s, true
	}
	field, rest, ok := strings.Cut(text, ": ")
	if !ok || !isField(field) {
		return Sentence{}, false
	}
	s, known := find(rest)
	return s.About(field), known
}

// isField reports whether a text may be the name of a field, or several with commas between
// them.
func isField(text string) bool {
	inQuotes := false
	for _, name := range strings.Split(text, ", ") {
		for _, r := range name {
			switch {
			case r == '"':
				inQuotes = !inQuotes
			case !inQuotes && (r <= ' ' || r > '~'):
				return false
			}
		}
	}
	return text != ""
}

// Field returns the sentence that a text makes about a field of a request.
func Field(field, text string) Sentence {
	if s, known := find(text); known {
		return s.About(field)
	}
	return New(Other, "text", text).About(field)
}

// Codes returns all codes in order.
func Codes() []Code {
	codes := make([]Code, 0, len(catalogue())+1)
	for _, entry := range catalogue() {
		codes = append(codes, entry.code)
	}
	codes = append(codes, Other)
	slices.Sort(codes)
	return codes
}
