package jsonscan

// ones times a byte is a word of eight of it, and highs is the highest bit of each.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// below marks the bytes of a word that are less than a bound of at most 128.
func below(w uint64, bound byte) uint64 {
	return ^((w&^highs + ones*uint64(0x80-bound)) | w) & highs
}
