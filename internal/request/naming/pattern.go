package naming

import "strings"

// Pattern is a name; * in it matches any text, also none. It is kept as the texts
// between the stars: a name without a star is one part.
type Pattern []string

// NewPattern returns the pattern that a text writes.
func NewPattern(text string) Pattern { return strings.Split(text, "*") }

// Matches reports whether the whole name has the form of the pattern. The time that it
// takes grows with the length of the name, whatever the pattern is.
func (p Pattern) Matches(name string) bool {
	if len(p) == 1 {
		return name == p[0]
	}
	first, last := p[0], p[len(p)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range p[1 : len(p)-1] {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return true
}
