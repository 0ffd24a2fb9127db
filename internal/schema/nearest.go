package schema

import (
	"cmp"
	"slices"
)

// Nearest returns those of the known names that a person who wrote something
// else may have meant, nearest first, at most n.
func Nearest(written string, known []string, n int) []string {
	const tooLong = 128 // nobody mistypes more than this
	folded := Fold(written)
	if len(folded) > tooLong {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, name := range known {
		other := Fold(name)
		if len(other) > tooLong {
			continue
		}
		if d := editDistance(folded, other); d <= maxTypos(other) {
			near = append(near, candidate{name, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	names := make([]string, 0, n)
	for _, c := range near[:min(n, len(near))] {
		names = append(names, c.name)
	}
	return names
}

// maxTypos is how many typing errors are assumed in a name: fewer in a short one,
// which would match too many names otherwise.
func maxTypos(name string) int {
	if len(name) < 5 {
		return 1
	}
	return max(2, len(name)/3)
}

// editDistance counts insertions, deletions, replacements and swaps of neighbours.
func editDistance(a, b string) int {
	before, previous := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current := make([]int, len(b)+1)
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous = previous, current
	}
	return previous[len(b)]
}
