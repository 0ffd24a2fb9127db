package schema

import (
	"cmp"
	"math"
	"slices"
)

// Nearest returns up to n of the known names that are similar enough to the written one for a
// typing error, the nearest first.
func Nearest(written string, known []string, n int) []string {
	near := slices.DeleteFunc(byDistance(written, known),
		func(c candidate) bool { return c.distance > maxTypos(Fold(c.name)) })
	return namesOf(near, n)
}

// Closest returns up to n of the known names, the ones most similar to the written name
// first.
func Closest(written string, known []string, n int) []string {
	return namesOf(byDistance(written, known), n)
}

type candidate struct {
	name     string
	distance int
}

// tooLong is the length beyond which names are not compared: nobody mistypes more than this.
const tooLong = 128

// byDistance returns names by how much they differ from the written one, names that are not
// compared last.
func byDistance(written string, known []string) []candidate {
	folded := Fold(written)
	all := make([]candidate, len(known))
	for i, name := range known {
		all[i] = candidate{name, math.MaxInt}
		if other := Fold(name); max(len(folded), len(other)) <= tooLong {
			all[i].distance = editDistance(folded, other)
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	return all
}

func namesOf(all []candidate, n int) []string {
	names := make([]string, 0, n)
	for _, c := range all[:min(n, len(all))] {
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
