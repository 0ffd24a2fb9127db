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
				return 0, false, faultAt(start, "json.utf8")
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
			return 0, false, faultAt(i, "json.control")
		default:
			beyond = beyond || c >= utf8.RuneSelf
		}
	}
	return 0, false, faultAt(start-1, "json.open_string")
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
			return 0, false, false, faultAt(i, "json.control")
		}
		escaped = true
		if i, err = d.longEscapes(i - 1); err != nil {
			return 0, false, false, err
		}
	}
	return i, escaped, beyond, nil
}

// longEscapes skips the escape sequence at i and all that follow it at once: texts that
// are written in ASCII have many of them in a row.
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

// skipNumbers passes over the elements of an array from i on that are short numbers
// without an exponent, each with the comma behind it, and returns where it stopped:
// at the last element or at one that is something else, or at a space before it.
// Lists of numbers are long, and this is how almost all of them are written.
func skipNumbers(data []byte, i int) int { return i + passNumbers(data[i:]) }

// portableNumbers is passNumbers for processors without a version of their own.
//
// It reads 64 bytes at a time as masks, one for each kind of byte: a rule about the
// byte before or behind is then a shift by one. A bit shifted out of a block is shifted
// into the next one.
func portableNumbers(data []byte) (passed int) {
	last := lastOfBlock{begin: 1}
	for i := 0; i+64 <= len(data); i += 64 {
		digit, zero, comma, point, minus, space := markNumbers((*[64]byte)(data[i:]))
		other := ^(digit | comma | point | minus | space)
		part := other&-other - 1 // of the block: the bytes before anything else
		comma &= part
		// An addition carries each beginning over the spaces in front of it.
		begin, carry := bits.Add64(comma<<1|last.begin, space, 0)
		strayed := space & begin // spaces in other places
		begin &^= space
		first := begin&^minus | begin&minus<<1 | last.minus // the first digit of each number
		fraction := point<<1 | last.point
		ended, within := bits.Add64(fraction, digit, last.fraction) // where fractions end
		wrong := strayed |
			first&^digit |
			minus&^begin |
			(first&zero<<1|last.zero)&digit | // a number with a zero in front
			point&^(digit<<1|last.digit) |
			fraction&^digit |
			ended&^digit&^comma
		separator := comma | space
		if wrong&part != 0 || longRun(^separator&part) || last.run+bits.TrailingZeros64(separator) > shortElement {
			return passed
		}
		if comma != 0 {
			passed = i + bits.Len64(comma)
		}
		if other != 0 {
			return passed
		}
		last = lastOfBlock{
			begin: comma>>63 | carry, minus: begin & minus >> 63, point: point >> 63, zero: first & zero >> 63,
			digit: digit >> 63, fraction: within, run: bits.LeadingZeros64(separator),
		}
	}
	return passed
}

// lastOfBlock says how the last byte of a block affects the first one of the next: each
// is 1 if it applies. The run is how many bytes of a number the block ends with.
type lastOfBlock struct {
	begin, minus, point, zero, digit, fraction uint64
	run                                        int
}

// longRun reports whether more bits in a row are set than a short element has bytes.
func longRun(bits uint64) bool {
	for n := 1; n < shortElement; n *= 2 {
		bits &= bits >> n
	}
	return bits&(bits>>1) != 0
}

// validUTF8 is utf8.Valid, several times as fast for scripts with characters of three
// bytes each, such as Chinese.
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

// usualLead reports whether the first byte of w can begin any character of three bytes.
// After 0xe0 and 0xed not every byte may follow: such characters would be too long, or
// half of a surrogate pair.
func usualLead(w uint64) bool {
	const unusual = 1<<0x0 | 1<<0xd
	return unusual>>(w&0xf)&1 == 0
}
