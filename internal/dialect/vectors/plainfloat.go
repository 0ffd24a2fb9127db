package vectors

import (
	"encoding/binary"
	"math"
)

// powersOfTen are the powers that a float64 holds exactly.
var powersOfTen = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// plainFloat reads the JSON number that a text begins with. It is right to the last bit
// or says that it does not know; it knows nearly all numbers in vectors, several times
// as fast as the standard library. Something that cannot be part of a number must
// follow in the text.
//
// The digits as a whole number, scaled by an exact power of ten, are a float64 that is
// off by two units in its last place at most. Rounding it to float32 is right unless it
// lies that close to the middle between two float32 numbers.
func plainFloat(text []byte) (f float32, length int, ok bool) {
	const mostDigits = 19 // always fit 64 bits
	i := 0
	if text[0] == '-' {
		i++
	}
	digits := i
	var whole uint64
	for ; isDigit(text[i]); i++ {
		whole = whole*10 + uint64(text[i]-'0')
	}
	if i == digits {
		return 0, 0, false
	}
	scale := 0
	if text[i] == '.' {
		point := i
		i++
		if whole == 0 && point-digits == 1 { // zeros in front count for nothing
			for text[i] == '0' {
				i++
			}
			digits = i
		}
		for len(text)-i >= 8 {
			eight, all := eightDigits(binary.LittleEndian.Uint64(text[i:]))
			if !all {
				break
			}
			whole = whole*1e8 + eight
			i += 8
		}
		for ; isDigit(text[i]); i++ {
			whole = whole*10 + uint64(text[i]-'0')
		}
		scale = point + 1 - i
	}
	if i-digits > mostDigits {
		return 0, 0, false
	}
	if text[i]|0x20 == 'e' {
		exponent, end := readExponent(text, i+1)
		scale += exponent
		i = end
	}
	wide := float64(whole)
	switch {
	case scale < -22 || scale > 22:
		return 0, 0, false
	case scale < 0:
		wide /= powersOfTen[-scale]
	default:
		wide *= powersOfTen[scale]
	}
	if wide != 0 && (wide < smallestNormal || wide > math.MaxFloat32) {
		return 0, 0, false
	}
	const dropped, near = 1<<29 - 1, 4 // the bits that float32 has no room for
	if middle := math.Float64bits(wide)&dropped - (1<<28 - near); middle <= 2*near {
		return 0, 0, false
	}
	if text[0] == '-' {
		wide = -wide
	}
	return float32(wide), i, true
}

// smallestNormal is the float32 below which digits get lost.
const smallestNormal = 0x1p-126

func readExponent(text []byte, i int) (exponent, end int) {
	negative := text[i] == '-'
	if negative || text[i] == '+' {
		i++
	}
	for ; isDigit(text[i]); i++ {
		exponent = min(exponent*10+int(text[i]-'0'), 1000)
	}
	if negative {
		exponent = -exponent
	}
	return exponent, i
}

// eightDigits returns the value of eight digits, the first of them in the lowest
// byte: pairs, then fours, then all of them are put together at once. All is
// false if one of the bytes is no digit.
func eightDigits(text uint64) (value uint64, all bool) {
	const high, low = 0xf0f0f0f0f0f0f0f0, 0x0606060606060606
	if text&high|(text+low)&high>>4 != 0x3333333333333333 {
		return 0, false
	}
	text -= 0x3030303030303030
	text = text*10 + text>>8
	const pairs = 0x000000ff000000ff
	return (text&pairs*(100+1000000<<32) + text>>16&pairs*(1+10000<<32)) >> 32, true
}

func isDigit(c byte) bool { return c-'0' <= 9 }
