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
// With the bit 2 flipped, a quote (0x22) takes the place of the space (0x20), just
// above the control characters, which stay among themselves; so one comparison finds
// both.
func stops(w uint64) uint64 {
	quoteOrControl := (w ^ ones*0x02) - ones*0x21
	backslash := (w ^ ones*'\\') - ones
	return (quoteOrControl | backslash) &^ w & highs
}

// str scans the string with content from start on and returns the position after its
// closing quote.
func (d *Document) str(start int) (end int, escaped bool, err error) {
	data := d.data
	var seen uint64 // the bits of all bytes, also of some behind the string
	for i := start; i < len(data); {
		if i+8 <= len(data) {
			// Keys and most other strings end within a few bytes.
			w := binary.LittleEndian.Uint64(data[i:])
			seen |= w
			stop := stops(w)
			if stop == 0 {
				var passed text
				passed, i = passText(data, i+8)
				seen |= passed.bits
				escaped = escaped || passed.escaped
				continue
			}
			i += bits.TrailingZeros64(stop) >> 3
		}
		switch c := data[i]; {
		case c == '"':
			if seen&highs != 0 && !validUTF8(data[start:i]) {
				return 0, false, faultAt(start, "json.utf8")
			}
			return i + 1, escaped, nil
		case c == '\\':
			// Texts that are written in ASCII have many sequences in a row.
			for ; i < len(data) && data[i] == '\\'; escaped = true {
				length, err := d.escape(i)
				if err != nil {
					return 0, false, err
				}
				i += length
			}
		case c < ' ':
			return 0, false, faultAt(i, "json.control")
		default:
			seen |= uint64(c)
			i++
		}
	}
	return 0, false, faultAt(start-1, "json.open_string")
}

// text are facts about a passed part of a string: the bits of its bytes, and perhaps of some behind it,
// and whether it has escape sequences.
type text struct {
	bits    uint64
	escaped bool
}

// passWords skips the blocks of 32 bytes from i on that only continue a string.
func passWords(data []byte, i int) (passed text, end int) {
	for ; i+32 <= len(data); i += 32 {
		block := (*[32]byte)(data[i:])
		a, b := binary.LittleEndian.Uint64(block[:]), binary.LittleEndian.Uint64(block[8:])
		c, d := binary.LittleEndian.Uint64(block[16:]), binary.LittleEndian.Uint64(block[24:])
		if stops(a)|stops(b)|stops(c)|stops(d) != 0 {
			break
		}
		passed.bits |= a | b | c | d
	}
	return passed, i
}

// StringEnds reports whether the string with content from start on is well formed and
// has its closing quote at the position quote.
func StringEnds(text []byte, start, quote int) bool {
	if quote >= len(text) {
		return false
	}
	d := Document{data: text[:quote+1]}
	end, _, err := d.str(start)
	return err == nil && end == quote+1
}

// simpleEscape holds the bytes that complete an escape sequence directly behind a
// backslash.
var simpleEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escape checks the escape sequence at i and returns its length. Half of a surrogate
// pair is grammatical: the other half of a character that was cut in two may be in the
// text that follows.
func (d *Document) escape(i int) (length int, err error) {
	rest := d.data[i:]
	switch {
	case len(rest) < 2:
		return 0, faultAt(i, "json.open_string")
	case simpleEscape[rest[1]]:
		return 2, nil
	case rest[1] != 'u':
		return 0, faultAt(i, "json.escape")
	case hexRune(rest[2:]) < 0:
		return 0, faultAt(i, "json.hexadecimal")
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

func (d *Document) number(start int) (int, error) {
	i := start
	if d.data[i] == '-' {
		i++
	}
	switch {
	case i < len(d.data) && d.data[i] == '0':
		i++
	case i < len(d.data) && isDigit(d.data[i]):
		i = skipDigits(d.data, i)
	default:
		return 0, d.unexpected(start, "json.value")
	}
	if i < len(d.data) && d.data[i] == '.' {
		after := skipDigits(d.data, i+1)
		if after == i+1 {
			return 0, d.unexpected(after, "json.fraction")
		}
		i = after
	}
	if i < len(d.data) && d.data[i]|0x20 == 'e' {
		i++
		if i < len(d.data) && (d.data[i] == '+' || d.data[i] == '-') {
			i++
		}
		after := skipDigits(d.data, i)
		if after == i {
			return 0, d.unexpected(after, "json.exponent")
		}
		i = after
	}
	return i, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// skipDigits returns the position of the next byte that is no digit.
func skipDigits(data []byte, i int) int {
	for i+8 <= len(data) {
		digits := below(binary.LittleEndian.Uint64(data[i:])^ones*'0', 10)
		if digits != highs {
			return i + bits.TrailingZeros64(digits^highs)>>3
		}
		i += 8
	}
	for i < len(data) && isDigit(data[i]) {
		i++
	}
	return i
}

// validUTF8 is utf8.Valid, several times as fast for scripts with characters of three
// bytes each, such as Chinese.
func validUTF8(text []byte) bool {
	for len(text) >= 8 {
		w := binary.LittleEndian.Uint64(text)
		switch {
		case w&0xc0c0f0_c0c0f0 == 0x8080e0_8080e0 && usualLead(w) && usualLead(w>>24):
			text = text[6+passTriples(text[6:]):] // two characters of three bytes, and those that follow
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

// usualLead reports whether the first byte of w can begin any character of three bytes.
// After 0xe0 and 0xed not every byte may follow: such characters would be too long, or
// half of a surrogate pair.
func usualLead(w uint64) bool {
	const unusual = 1<<0x0 | 1<<0xd
	return unusual>>(w&0xf)&1 == 0
}
