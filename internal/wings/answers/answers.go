// Package answers keeps responses for a limited time, for clients to continue, read and
// delete: in memory within a bound, or in a store that several gateways share. No key can
// see the answers of another, and none can take the room of others.
package answers

import "github.com/patchbay-ai/patchbay/internal/request/recall"

// sizeOf returns the memory that an answer takes, apart from a constant.
func sizeOf(a *recall.Answer) int64 {
	n := len(a.ID) + len(a.Owner.Key) + len(a.Owner.Issue) + len(a.Input) + len(a.Response) +
		len(a.Instance) + len(a.Run)
	for _, id := range a.Previous {
		n += len(id)
	}
	return int64(n)
}

// largestShare is the part of the bound that one answer may take.
const largestShare = 8

// TooLarge reports whether an answer of a size is too large to be kept.
func TooLarge(s Settings, bytes int) bool { return int64(bytes) > int64(s.MaxBytes)/largestShare }
