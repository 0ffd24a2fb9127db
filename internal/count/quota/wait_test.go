package quota_test

import (
	"slices"
)

func sorted[T any](list []T, compare func(a, b T) int) []T {
	slices.SortFunc(list, compare)
	return list
}
