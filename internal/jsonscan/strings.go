package jsonscan

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"unicode/utf8"
)

// stops marks, in the highest bit of each byte of a word, a quote, a backslash or a
// control character. Only the lowest mark is exact, which is the one that counts:
// the subtraction borrows from the byte above a marked one.
//
// With the bit 2 flipped, a quote (0x22) stands where the space stood (0x20), just
// above the control characters, which stay among themselves; so one comparison
// finds both.
func stops(w uint64) uint64 {
	quoteOrControl := (w ^ ones*0x02) - ones*0x21
	backslash := (w ^ ones*'\\') - ones
	return (quoteOrControl | backslash) &^ w & highs
}

// str scans a string whose content starts at start and returns the position after
// its closing quote.
func (d *Document) str(start int) (end int, escaped bool, err error) {
	data := d.data
	i := start
	beyond := false // whether something may not be ASCII
	for i+8 <= len(data) {
		// Keys and most other strings end within a few bytes.
		w := binary.LittleEndian.Uint64(data[i:])
		beyond = beyond || w&highs != 0
		if stop := stops(w); stop != 0 {
			i += bits.TrailingZeros64(stop) >> 3
			break
		}
		if i += 8; i+64 <= len(data) && i-start >= 16 {
			break
		}
	}
	if i+64 <= len(data) && data[i] != '"' {
		var high bool
		if i, escaped, high, err = d.blocks(i); err != nil {
			return 0, false, err
		}
		beyond = beyond || high
	}
	for ; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			if beyond && !validUTF8(data[start:i]) {
				return 0, false, fail(start, "invalid UTF-8 in a string")
			}
			return i + 1, escaped, nil
		case c == '\\':
			length, err := d.escape(i)
			if err != nil {
				return 0, false, err
			}
			escaped = true
			i += length - 1
		case c < ' ':
			return 0, false, fail(i, "control character in a string")
		default:
			beyond = beyond || c >= utf8.RuneSelf
		}
	}
	return 0, false, fail(start-1, "unterminated string")
}

// blocks scans a string from i on, 64 bytes at a time, and returns the position of
// its closing quote, or one near the end of the text from where it is to be scanned
// byte by byte.
func (d *Document) blocks(i int) (end int, escaped, beyond bool, err error) {
	data := d.data
	for i+64 <= len(data) {
		passed, stop, found := passText(&data[i], (len(data)-i)/64)
		escaped, beyond = escaped || found.has(hasEscapes), beyond || found.has(notASCII)
		i += 64 * passed
		if stop == 0 {
			if found.has(withinEscape) {
				i-- // to the backslash
			}
			break
		}
		i += bits.TrailingZeros64(stop)
		switch c := data[i]; {
		case c == '"':
			return i, escaped, beyond, nil
		case c < ' ':
			return 0, false, false, fail(i, "control character in a string")
		}
		escaped = true
		if i, err = d.longEscapes(i - 1); err != nil {
			return 0, false, false, err
		}
	}
	return i, escaped, beyond, nil
}

// longEscapes passes over the escape sequence at i and those that follow it at once:
// texts that are written in ASCII have many of them in a row.
func (d *Document) longEscapes(i int) (end int, err error) {
	for i < len(d.data) && d.data[i] == '\\' {
		length, err := d.escape(i)
		if err != nil {
			return 0, err
		}
		i += length
	}
	return i, nil
}

// StringEnds reports whether a string whose content starts at one place of a text
// is well formed and has its closing quote at the other.
func StringEnds(text []byte, start, quote int) bool {
	if quote >= len(text) {
		return false
	}
	d := Document{data: text[:quote+1]}
	end, _, err := d.str(start)
	return err == nil && end == quote+1
}

// simpleEscape holds what may follow a backslash and is done with that.
var simpleEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escape checks the escape sequence at i and returns its length. Half of a surrogate
// pair is grammatical: the other half of a character that was cut in two may stand
// in the text that follows.
func (d *Document) escape(i int) (length int, err error) {
	rest := d.data[i:]
	switch {
	case len(rest) < 2:
		return 0, fail(i, "unterminated string")
	case simpleEscape[rest[1]]:
		return 2, nil
	case rest[1] != 'u':
		return 0, fail(i, "unknown escape sequence")
	case hexRune(rest[2:]) < 0:
		return 0, fail(i, "\\u needs four hexadecimal digits")
	}
	return 6, nil
}

// hexRune reads four hexadecimal digits, or returns -1.
func hexRune(data []byte) rune {
	var value [2]byte
	if len(data) < 4 {
		return -1
	}
	if _, err := hex.Decode(value[:], data[:4]); err != nil {
		return -1
	}
	return rune(binary.BigEndian.Uint16(value[:]))
}
