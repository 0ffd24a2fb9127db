package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

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
		return 0, d.unexpected(start, "expected a value")
	}
	if i < len(d.data) && d.data[i] == '.' {
		after := skipDigits(d.data, i+1)
		if after == i+1 {
			return 0, d.unexpected(after, "expected a digit after the decimal point")
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
			return 0, d.unexpected(after, "expected a digit in the exponent")
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

// portableNumbers is passNumbers for processors for which there is no other.
//
// It looks at 64 bytes at a time as marks of what each byte is, so that what must
// stand before or behind a byte is a shift by one. What is shifted out of a block is
// shifted into the next one.
func portableNumbers(data []byte) (passed int) {
	last := lastOfBlock{begin: 1}
	for i := 0; i+64 <= len(data); i += 64 {
		digit, zero, comma, point, minus, space := markNumbers((*[64]byte)(data[i:]))
		other := ^(digit | comma | point | minus | space)
		part := other&-other - 1 // of the block: what stands before anything else
		comma &= part
		// An addition carries each beginning over the spaces in front of it.
		begin, carry := bits.Add64(comma<<1|last.begin, space, 0)
		strayed := space & begin // spaces that stand elsewhere
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

// lastOfBlock is what the last byte of a block means for the first one of the next:
// each is 1 if it applies. The run is how many bytes of a number the block ends with.
type lastOfBlock struct {
	begin, minus, point, zero, digit, fraction uint64
	run                                        int
}

// longRun tells whether more bits in a row are set than a short element has bytes.
func longRun(bits uint64) bool {
	for n := 1; n < shortElement; n *= 2 {
		bits &= bits >> n
	}
	return bits&(bits>>1) != 0
}
