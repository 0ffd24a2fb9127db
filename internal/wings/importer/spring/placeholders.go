package spring

import (
	"regexp"
	"strings"
)

// Placeholder is a ${name:default} of Spring in a text.
type Placeholder struct {
	Start, End     int // of the whole of it
	Name, Fallback string
	HasFallback    bool
}

// Placeholders returns the placeholders of a text that are not inside another one.
func Placeholders(text string) []Placeholder {
	var found []Placeholder
	for from := 0; ; {
		at := strings.Index(text[from:], "${")
		if at < 0 {
			return found
		}
		start := from + at
		end := closingBrace(text, start)
		if end < 0 {
			return found
		}
		p := Placeholder{Start: start, End: end}
		p.Name, p.Fallback, p.HasFallback = strings.Cut(text[start+2:end-1], ":")
		found = append(found, p)
		from = end
	}
}

// closingBrace returns the index behind the brace that closes the placeholder at start,
// or -1.
func closingBrace(text string, start int) int {
	depth := 0
	for i := start; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "${"):
			depth++
			i++
		case text[i] == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// EnvironmentName returns the variable that Spring looks for if a setting is not in a file:
// jairouter.api-token is JAIROUTER_APITOKEN. A name with another meaning in our references
// is in capitals, too.
func EnvironmentName(name string) string {
	if variableName.MatchString(name) && name != "file" && name != "sha256" {
		return name
	}
	return strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(name, "-", ""), ".", "_"))
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
