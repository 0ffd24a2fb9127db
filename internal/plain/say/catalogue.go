package say

import (
	"slices"
	"strings"
	"sync"
)

// entry is a sentence of the catalogue: its code, and its text with the names of values in
// braces. A value with a star before its name is a sentence itself.
type entry struct {
	code Code
	text string
}

// part is a piece of a text: fixed words, and the value behind them where it has a name.
type part struct {
	literal, name string
	// isQuoted says that the value is between double quotes, and escaped as Go does.
	isQuoted bool
}

// catalogue returns all sentences that have a code.
var catalogue = sync.OnceValue(func() []entry {
	return slices.Concat(facts, refusals, faults, invalid, values, tokens)
})

// templates returns the texts of all codes in parts.
var templates = sync.OnceValue(func() map[Code][]part {
	all := map[Code][]part{Other: {{name: "text"}}}
	for _, e := range catalogue() {
		all[e.code] = split(e.text)
	}
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
		isQuoted := strings.HasSuffix(literal, `"`) && strings.HasPrefix(behind, `"`)
		parts = append(parts, part{literal, strings.TrimPrefix(name, "*"), isQuoted})
		text = behind
	}
}
