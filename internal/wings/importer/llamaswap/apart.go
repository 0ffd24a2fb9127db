package llamaswap

import (
	"cmp"
	"math/bits"
	"slices"
)

// Group is a group of models.
type Group struct {
	// Swap means that one member runs at a time. Exclusive means that a member has all models of
	// other groups leave but those that are Persistent.
	Swap, Exclusive, Persistent bool
	Members                     []string
}

// Apart are models of which some may not run together.
type Apart struct {
	models  []string
	isApart func(a, b int) bool // by their places in the list
}

// ByGroups returns which of the models may not run together by groups. Models of no group are
// in an exclusive one that swaps. Two models may run together if one of them may be loaded while
// the other runs.
func ByGroups(models []string, groups []Group) Apart {
	groupOf := map[string]int{}
	groups = append([]Group{{Swap: true, Exclusive: true}}, groups...)
	for n, group := range groups {
		for _, member := range group.Members {
			groupOf[member] = n
		}
	}
	return Apart{models, func(a, b int) bool {
		of, other := groups[groupOf[models[a]]], groups[groupOf[models[b]]]
		if groupOf[models[a]] == groupOf[models[b]] {
			return of.Swap
		}
		return of.Exclusive && !other.Persistent && other.Exclusive && !of.Persistent
	}}
}

// MaxModels is how many models can be told apart, and maxLargest how many combinations that are
// no part of others.
const (
	MaxModels  = 256
	maxLargest = 256
)

// set is a set of models by their places in the list.
type set [MaxModels / 64]uint64

func (s set) with(n int) set {
	s[n/64] |= 1 << (n % 64)
	return s
}

func (s set) has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

func (s set) size() (count int) {
	for _, word := range s {
		count += bits.OnesCount64(word)
	}
	return count
}

// isWithin reports whether the set is a part of one of the others.
func (s set) isWithin(all []set) bool {
	return slices.ContainsFunc(all, func(other set) bool {
		for n := range s {
			if s[n]&^other[n] != 0 {
				return false
			}
		}
		return true
	})
}

// ByCombinations returns which of the models, at most MaxModels, may not run together where those
// may that are in one combination. Some combinations cannot be told by pairs of models alone: they
// are returned, and not all of their models may run together.
func ByCombinations(models []string, combinations [][]string) (all Apart, refused [][]string) {
	var sets, largest, taken []set
	for _, combination := range combinations {
		var s set
		for _, model := range combination {
			s = s.with(slices.Index(models, model))
		}
		sets = append(sets, s)
	}
	slices.SortStableFunc(sets, func(a, b set) int { return cmp.Compare(b.size(), a.size()) })
	for _, s := range sets {
		if !s.isWithin(largest) { // otherwise it says nothing more
			largest = append(largest, s)
		}
	}
	for n, s := range largest {
		if more := append(slices.Clip(taken), s); n < maxLargest && s.isToldByPairs(more) {
			taken = more
			continue
		}
		var names []string
		for n, model := range models {
			if s.has(n) {
				names = append(names, model)
			}
		}
		refused = append(refused, names)
	}
	return Apart{models, func(a, b int) bool { return !set{}.with(a).with(b).isWithin(taken) }}, refused
}

// isToldByPairs reports whether models that may run together in pairs may do so all together,
// if that holds without the set. It is enough to look at three sets at a time (a theorem of
// Gilmore).
func (s set) isToldByPairs(all []set) bool {
	for n, a := range all {
		for _, b := range all[n+1:] {
			var common set
			for i := range common {
				common[i] = a[i]&b[i] | a[i]&s[i] | b[i]&s[i]
			}
			if !common.isWithin(all) {
				return false
			}
		}
	}
	return true
}

// Groups returns groups of models of which one may run at a time, and the groups of each model
// by their numbers: two models are in a common group exactly if they may not run together.
func (all Apart) Groups() (count int, of map[string][]int) {
	of = map[string][]int{}
	covered := map[[2]int]bool{}
	for a := range all.models {
		for b := a + 1; b < len(all.models); b++ {
			if !all.isApart(a, b) || covered[[2]int{a, b}] {
				continue
			}
			group := []int{a, b}
			for c := range all.models {
				if !slices.ContainsFunc(group, func(m int) bool { return m == c || !all.isApart(c, m) }) {
					group = append(group, c)
				}
			}
			slices.Sort(group)
			for n, member := range group {
				of[all.models[member]] = append(of[all.models[member]], count)
				for _, other := range group[n+1:] {
					covered[[2]int{member, other}] = true
				}
			}
			count++
		}
	}
	return count, of
}
