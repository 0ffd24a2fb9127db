package calls

import (
	"cmp"
	"slices"
)

// maxTally is how many different names a tally counts: callers choose some of them.
const maxTally = 2000

// Tally counts names. Of too many different ones it counts the first.
type Tally map[string]int

// Named is a name, and how often it was counted.
type Named struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Add counts a name; an empty one is none.
func (t Tally) Add(name string) {
	if _, isThere := t[name]; name != "" && (isThere || len(t) < maxTally) {
		t[name]++
	}
}

// Most returns the most frequent names in their order, at most so many.
func (t Tally) Most(most int) []Named {
	list := make([]Named, 0, len(t))
	for name, count := range t {
		list = append(list, Named{name, count})
	}
	slices.SortFunc(list, func(a, b Named) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), most)]
}
