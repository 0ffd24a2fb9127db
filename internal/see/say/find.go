package say

import (
	"slices"
	"strings"
	"sync"
)

// entry is a sentence of the catalogue: its code, and its text with the names of values in
// braces. A value with a star before its name is a sentence itself; one with an exclamation
// mark must be a sentence of the catalogue for the text to be this sentence.
type entry struct {
	code Code
	text string
}

// part is a piece of a text: fixed words, and the value behind them where it has a name.
type part struct {
	literal, name string
	// isSentence says that the value is a sentence itself, isKnown that it is one of the
	// catalogue, and isQuoted that it is quoted as Go does.
	isSentence, isKnown, isQuoted bool
}

// catalogue returns all sentences that have a code.
var catalogue = sync.OnceValue(func() []entry { return slices.Concat(facts, refusals, faults, invalid, values) })

// templates returns the texts of all codes in parts.
var templates = sync.OnceValue(func() map[Code][]part {
	all := map[Code][]part{Other: {{name: "text"}}}
	for _, e := range catalogue() {
		all[e.code] = split(e.text)
	}
	return all
})

// candidate is a sentence that a text may be.
type candidate struct {
	code  Code
	parts []part
	fixed int // how many bytes of it are fixed words
}

// byLength returns all sentences, the ones with the most fixed words first.
var byLength = sync.OnceValue(func() []candidate {
	all := make([]candidate, 0, len(catalogue()))
	for _, e := range catalogue() {
		c := candidate{code: e.code, parts: templates()[e.code]}
		for _, p := range c.parts {
			c.fixed += len(p.literal)
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return b.fixed - a.fixed })
	return all
})

func split(text string) []part {
	var parts []part
	for {
		literal, rest, more := strings.Cut(text, "{")
		if !more {
			if literal != "" {
				parts = append(parts, part{literal: literal})
			}
			return parts
		}
		name, behind, _ := strings.Cut(rest, "}")
		bare := strings.TrimLeft(name, "*!")
		isQuoted := strings.HasSuffix(literal, `"`) && strings.HasPrefix(behind, `"`)
		parts = append(parts, part{literal, bare, bare != name, name[0] == '!', isQuoted})
		text = behind
	}
}

// find returns the sentence of the catalogue that a text is. Where several are, it is the
// one with the most fixed words.
func find(text string) (Sentence, bool) {
	for _, c := range byLength() {
		if !strings.HasPrefix(text, c.parts[0].literal) {
			continue
		}
		if s, ok := match(c.code, c.parts, text); ok {
			return s, true
		}
	}
	return Sentence{}, false
}

// match reads the values out of a text.
func match(code Code, parts []part, text string) (Sentence, bool) {
	s := Sentence{Code: code}
	for i, p := range parts {
		rest, ok := strings.CutPrefix(text, p.literal)
		if !ok {
			return s, false
		}
		text = rest
		if p.name == "" {
			continue
		}
		value := text
		if i+1 < len(parts) {
			next := parts[i+1]
			at := strings.Index(text, next.literal)
			if next.name == "" { // the last words of the text
				at = len(text) - len(next.literal)
			}
			if at < 0 || !strings.HasPrefix(text[at:], next.literal) {
				return s, false
			}
			value = text[:at]
		}
		if value == "" {
			return s, false
		}
		s.put(p.name, value)
		if p.isSentence {
			inner, known := find(value)
			if !known && p.isKnown {
				return s, false
			}
			if !known {
				inner = New(Other, "text", value)
			}
			s.putInner(p.name, inner)
		}
		text = text[len(value):]
	}
	return s, text == ""
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
