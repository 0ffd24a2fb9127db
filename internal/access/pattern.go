package access

import "strings"

// pattern is a name in which * stands for any text, also for none. It is kept as the
// texts between the stars: a name without a star is one part.
type pattern []string

func newPattern(text string) pattern { return strings.Split(text, "*") }

// matches reports whether the whole name has the form of the pattern. The time that it
// takes grows with the length of the name, whatever the pattern is.
func (p pattern) matches(name string) bool {
	if len(p) == 1 {
		return name == p[0]
	}
	first, last := p[0], p[len(p)-1]
	if len(name) < len(first)+len(last) || name[:len(first)] != first || name[len(name)-len(last):] != last {
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
