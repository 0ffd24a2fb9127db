package say

import (
	"slices"
	"strings"
)

// Entry is a sentence of the catalogue: its code, and its text with the names of values in
// braces. A value with a star before its name is a sentence itself.
type Entry [2]string

// part is a piece of a text: fixed words, and the value behind them where it has a name.
type part struct {
	literal, name string
	// isQuoted says that the value is between double quotes, and escaped as Go does.
	isQuoted bool
}

// templates are the texts of all codes in parts.
var templates = map[Code][]part{Other: {{name: "text"}}}

func init() { Declare(facts, refusals, faults, invalid, values, tokens) }

// Declare adds sentences to the catalogue. A package calls it while it is initialized, for the sentences
// that only it makes; a wing has them in Chinese in its file sentences.zh.ts.
func Declare(lists ...[]Entry) {
	for _, e := range slices.Concat(lists...) {
		code := Code(e[0])
		if templates[code] != nil {
			panic("two sentences have the code " + e[0])
		}
		templates[code] = split(e[1])
	}
}

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
