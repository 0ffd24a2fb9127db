package jsonscan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// marksOf marks the bytes of a block one by one.
func marksOf(block []byte, marked func(c byte) bool) (marks uint64) {
	for i, c := range block {
		if marked(c) {
			marks |= 1 << i
		}
	}
	return marks
}

// textPassers are the ways to pass over text: that of this processor, and the one for
// all others.
func textPassers() map[string]func(*byte, int) (int, uint64, textTraits) {
	return map[string]func(*byte, int) (int, uint64, textTraits){"passText": passText, "portableText": portableText}
}

// firstStop returns where a string stops that goes on at the beginning of a text, or
// its length, and what it has before that.
func firstStop(text []byte) (stop int, found textTraits) {
	within := false
	for i, c := range text {
		switch {
		case c < ' ', within && !simpleEscape[c], !within && c == '"':
			return i, found &^ withinEscape
		}
		within = !within && c == '\\'
		found &^= withinEscape
		if within {
			found |= hasEscapes | withinEscape
		}
	}
	return len(text), found
}

// checkPassing checks what both ways say about blocks of text.
func checkPassing(t *testing.T, text []byte) {
	t.Helper()
	want, wantFound := firstStop(text)
	looked := text[:min(len(text), want/64*64+64)]
	if bytes.ContainsFunc(looked, func(r rune) bool { return r >= utf8.RuneSelf }) {
		wantFound |= notASCII
	}
	for name, pass := range textPassers() {
		passed, stop, found := pass(&text[0], len(text)/64)
		at := 64 * passed
		if stop != 0 {
			at += bits.TrailingZeros64(stop)
		}
		if at != want || found != wantFound || stop == 0 && passed != len(text)/64 {
			t.Fatalf("%s, %q: stopped at %d and found %03b, want %d and %03b", name, text, at, found, want, wantFound)
		}
	}
}

// Text is passed over up to what stops it, whatever stands where.
func TestTextIsPassedOverUntilItStops(t *testing.T) {
	for c := range 256 {
		for _, place := range []int{0, 1, 15, 16, 31, 32, 33, 47, 62, 63} {
			for _, filler := range []string{"a", " ", "!", "#", "[", "]", "~", "\x7f", "é", `\n`, `\\`, `\"`} {
				text := bytes.Repeat([]byte(filler), 192)[:192]
				text[64+place] = byte(c)
				checkPassing(t, text)
			}
		}
	}
	for name, pass := range textPassers() {
		if passed, stop, found := pass(new(byte), 0); passed != 0 || stop != 0 || found != 0 {
			t.Errorf("%s: of no blocks %d were passed, marks %#x, found %03b", name, passed, stop, found)
		}
	}
}

// Backslashes escape each other in rows of any length, also across blocks.
func TestEscapesArePassedOver(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 10_000 {
		text := make([]byte, 0, 256)
		for len(text) < 192 {
			text = append(text, []string{"a", "text", `\`, `\\`, `\n`, `\"`, `\/`, `\\\`, "b", "t", "r", "é"}[random.IntN(12)]...)
			if random.IntN(100) == 0 {
				text = append(text, []string{`"`, `\u0041`, "\n", `\x`}[random.IntN(4)]...)
			}
		}
		checkPassing(t, text[:192])
	}
}

func TestMarksOfRandomBlocksAreThoseOfTheirBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var block [64]byte
		for i := 0; i < len(block); i += 8 {
			binary.LittleEndian.PutUint64(block[i:], random.Uint64())
		}
		for i := range block {
			if random.IntN(2) == 0 {
				block[i] = `0123456789.,- +"\`[random.IntN(17)]
			}
		}
		is := func(set string) uint64 {
			return marksOf(block[:], func(c byte) bool { return strings.IndexByte(set, c) >= 0 })
		}
		want := fmt.Sprint(is("0123456789"), is("0"), is(","), is("."), is("-"), is(" \n"))
		if got := fmt.Sprint(markNumbers(&block)); got != want {
			t.Fatalf("%q has the marks %s, want %s", block, got, want)
		}
	}
}

// numberParts are put together in all ways to lists that are right, and to such as
// are wrong in one of the ways in which a list of numbers can be.
var numberParts = []string{
	"0", "1", "7", "10", "-", "-0", "00", "01", "-01", ".", "0.5", "-3.25", "1.", ".5", "1.2.3", "1..2", "--1", "1-", "e", "1e5", "-1.5E-7", "1e",
	",", ", ", " ,", ",\n  ", ",\t", ",,", " ", "null", "[1]", `"a"`, "0.123456789012345678901234567890", "0.12345678901234567890123456789012",
	"12345678901234567890123456789012", "123456789012345678901234567890123", "\x00", "/", ":", "é",
}

// Lists of numbers are accepted and refused as the oracle does it, wherever among 64
// bytes something stands that must not.
func TestListsOfNumbersAgreeWithTheOracle(t *testing.T) {
	for before := range 70 {
		for _, separator := range []string{",", ", "} {
			for _, number := range []string{"1", "-0.25", "123"} {
				list := strings.Repeat(number+separator, before)
				for _, part := range numberParts {
					checkNumbers(t, "["+list+part+separator+strings.Repeat("0.5,", 30)+"0]")
				}
			}
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		var b strings.Builder
		b.WriteString("[1,")
		for range 25 + random.IntN(10) {
			b.WriteString([]string{"0", "-1.5", "12", "0.25"}[random.IntN(4)])
			b.WriteString([]string{",", ", ", ",\n "}[random.IntN(3)])
		}
		for range random.IntN(3) {
			b.WriteString(numberParts[random.IntN(len(numberParts))])
		}
		b.WriteString(strings.Repeat(",1", random.IntN(30)) + "]")
		checkNumbers(t, b.String())
	}
}

func checkNumbers(t *testing.T, text string) {
	t.Helper()
	var doc Document
	err, want := doc.Parse([]byte(text)), oracle([]byte(text))
	if (err == nil) != (want == nil) {
		t.Fatalf("%s: %v, the oracle says %v", text, err, want)
	}
	if err == nil {
		checkElements(t, doc.Root())
	}
	inner := []byte(text[1:])
	if passed, portable := passNumbers(inner), portableNumbers(inner); passed != portable {
		t.Fatalf("%s: passed over %d bytes, in the portable way %d", text, passed, portable)
	}
}

// A list of numbers is passed over to the last comma of its last whole block, also if it
// is written with spaces; nothing but numbers is.
func TestNumbersArePassedOverInBlocks(t *testing.T) {
	for _, c := range []struct {
		name, number, separator string
		passes                  bool
	}{
		{"floats", "-0.0123456789", ",", true},
		{"floats as Python writes them", "0.012345678901234567", ", ", true},
		{"one to a line", "0.5", ",\n    ", true},
		{"token ids", "50256", ",", true},
		{"the longest without a node", "-0." + strings.Repeat("1", 29), ",", true},
		{"one digit more", "-0." + strings.Repeat("1", 30), ",", false},
		{"exponents", "1e5", ",", false},
		{"texts", `"a"`, ",", false},
		{"a comma behind a space", "1", " ,", false},
	} {
		text := []byte(strings.Repeat(c.number+c.separator, 200) + c.number + "]")
		at := skipNumbers(text, 0)
		if portable := portableNumbers(text); portable != at {
			t.Errorf("%s: passed over %d bytes, in the portable way %d", c.name, at, portable)
		}
		if passed := len(text)-at < 64+len(c.number+c.separator); passed != c.passes || !c.passes && at != 0 {
			t.Errorf("%s: passed over %d of %d bytes", c.name, at, len(text))
		}
	}
}

func TestUTF8IsValidWhereTheLibrarySaysSo(t *testing.T) {
	// All that begins a character and can be wrong about it, beside what is right.
	parts := []string{
		"a", "é", "ѿ", "你", "ࠀ", "퟿", "", "�", "🙂", "\U0010ffff", "\x7f", "\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xdf\x7f",
		"\xe0\x80\x80", "\xe0\x9f\xbf", "\xe4\xbd", "\xe4\x7f\x80", "\xe4\xbd\xc0", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf8", "\xff", "\xf0\xbd\xa0",
	}
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				for _, tail := range []string{"", "12345678", "请告诉我"} {
					text := []byte(a + b + c + tail)
					if got, want := validUTF8(text), utf8.Valid(text); got != want {
						t.Fatalf("%q is valid: %v, want %v", text, got, want)
					}
				}
			}
		}
	}
}
