package jsonscan

import (
	"encoding/binary"
	"unicode/utf8"
)

// validUTF8 is utf8.Valid, several times as fast for scripts whose characters take
// three bytes each, such as Chinese.
func validUTF8(text []byte) bool {
	for len(text) >= 8 {
		w := binary.LittleEndian.Uint64(text)
		switch {
		case w&0xc0c0f0_c0c0f0 == 0x8080e0_8080e0 && usualLead(w) && usualLead(w>>24):
			text = text[6:] // two characters of three bytes
		case w&highs == 0:
			text = text[8:]
		case w&0xc0e0 == 0x80c0 && w&0x1e != 0:
			text = text[2:] // a character of two bytes, which needs more than seven bits
		default:
			r, size := utf8.DecodeRune(text)
			if r == utf8.RuneError && size == 1 {
				return false
			}
			text = text[size:]
		}
	}
	return utf8.Valid(text)
}

// usualLead tells whether the first byte of w can begin any character of three bytes.
// After 0xe0 and 0xed not every byte may follow: such characters would be too long,
// or half of a surrogate pair.
func usualLead(w uint64) bool {
	const unusual = 1<<0x0 | 1<<0xd
	return unusual>>(w&0xf)&1 == 0
}
