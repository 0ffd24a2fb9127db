package wire

import "encoding/binary"

// IsToken tells whether s can be a method or the name of a field.
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

// isTokenByte looks a byte up in a set of bits: digits, letters and !#$%&'*+-.^_`|~.
func isTokenByte(c byte) bool {
	const (
		low  = 0x03ff_6cfa_0000_0000
		high = 0x57ff_ffff_c7ff_fffe
	)
	switch {
	case c < 64:
		return low>>c&1 != 0
	case c < 128:
		return uint64(high)>>(c-64)&1 != 0
	}
	return false
}

// IsVisible tells whether s has nothing but visible ASCII characters, which excludes spaces.
func IsVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// IsText tells whether s has no control characters but tabs.
func IsText[T string | []byte](s T) bool {
	for len(s) >= 8 {
		if mayHaveControl(binary.LittleEndian.Uint64([]byte(s[:8]))) && !isTextSlowly(s[:8]) {
			return false
		}
		s = s[8:]
	}
	return isTextSlowly(s)
}

func isTextSlowly[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// mayHaveControl tells whether one of eight bytes may be below a space, or delete.
func mayHaveControl(eight uint64) bool {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	below := (eight - ' '*ones) &^ eight
	deleted := eight ^ 0x7f*ones
	return (below|(deleted-ones)&^deleted)&highs != 0
}
