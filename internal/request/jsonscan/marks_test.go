package jsonscan

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// firstStop returns the place of the first byte of a text that does not continue a string or an escape
// sequence of two bytes: of a sequence of six, the place of its backslash.
func firstStop(text []byte) (stop int, escaped bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c < ' ', c == '"':
			return i, escaped
		case c == '\\' && i+1 < len(text) && simpleEscape[text[i+1]]:
			escaped = true
			i++
		case c == '\\':
			if i+1 < len(text) && text[i+1] < ' ' {
				return i + 1, true
			}
			return i, escaped
		}
	}
	return len(text), escaped
}

// checkPassing checks how both ways pass over a text: not further than to what stops it, and less only
// at its end or, without vectors, at an escape sequence.
func checkPassing(t *testing.T, whole []byte) {
	t.Helper()
	want, wantEscaped := firstStop(whole)
	wantEscaped = wantEscaped || want < len(whole) && whole[want] == '\\'
	high := bytes.ContainsFunc(whole[:want], func(r rune) bool { return r >= utf8.RuneSelf })
	for name, pass := range map[string]func([]byte, int) (text, int){"passText": passText, "passWords": passWords} {
		passed, end := pass(whole, 0)
		if end > want || passed.escaped && !wantEscaped {
			t.Fatalf("%s, %q: passed over %d bytes with escapes %v, want at most %d with %v", name, whole, end, passed.escaped, want, wantEscaped)
		}
		if bytes.IndexByte(whole, '\\') < 0 && want-end >= 64 || name == "passText" && hasVectors && len(whole)-end >= 128 && end < want-1 {
			t.Fatalf("%s, %q: passed over %d of %d bytes", name, whole, end, want)
		}
		if inside := bytes.ContainsFunc(whole[:end], func(r rune) bool { return r >= utf8.RuneSelf }); inside && passed.bits&highs == 0 || !high && inside {
			t.Fatalf("%s, %q: passed over %d bytes, bits %#x", name, whole, end, passed.bits)
		}
	}
	quoted := append(append([]byte{'"'}, whole...), '"')
	if err, oracle := new(Document).Parse(quoted), oracle(quoted); (err == nil) != (oracle == nil) {
		t.Fatalf("%q: %v, the oracle says %v", quoted, err, oracle)
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
		checkPassing(t, text[:192:192])
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
	list := []byte(text[1:])
	if passed := passNumbers(list); passed > 0 {
		if list[passed-1] != ',' {
			t.Fatalf("%s: passed over %d bytes, up to no comma", text, passed)
		}
		for element := range strings.SplitSeq(string(list[:passed-1]), ",") {
			number := strings.Trim(element, " \n")
			if len(number) > shortElement || strings.ContainsAny(number, "eE \n") || oracle([]byte(number)) != nil {
				t.Fatalf("%s: passed over %q", text, element)
			}
		}
	}
}

// A list of numbers is passed over to the last comma of its last whole block, also if it
// is written with spaces; nothing but numbers is.
func TestNumbersArePassedOverInBlocks(t *testing.T) {
	if !hasVectors {
		t.Skip("numbers are read one by one")
	}
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
		at := passNumbers(text)
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

// Characters of three bytes are checked in blocks: one wrong byte is found wherever it is, and all that
// is right is accepted.
func TestUTF8IsCheckedInBlocks(t *testing.T) {
	long := []byte(strings.Repeat("请告诉我，它们连接什么。", 12))
	for place := range long {
		for c := range 256 {
			text := bytes.Clone(long)
			text[place] = byte(c)
			if got, want := validUTF8(text), utf8.Valid(text); got != want {
				t.Fatalf("byte %#x at %d is valid: %v, want %v", c, place, got, want)
			}
		}
	}
	for char := rune(0x800); char <= 0xffff; char++ {
		if !utf8.ValidRune(char) {
			continue
		}
		text := []byte(strings.Repeat("我", int(char)%40) + string(char) + strings.Repeat("们", 70))
		if !validUTF8(text) {
			t.Fatalf("%q is not valid", text)
		}
	}
}

func FuzzUTF8(f *testing.F) {
	for _, seed := range []string{strings.Repeat("请告诉我", 20), strings.Repeat("привет ", 20), strings.Repeat("退我\xed\xa0\x80", 12), "é" + strings.Repeat("我", 33)} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, times int) {
		text = bytes.Repeat(text, max(1, times%16)) // blocks are longer than most texts that are made up
		if got, want := validUTF8(text), utf8.Valid(text); got != want {
			t.Fatalf("%q is valid: %v, want %v", text, got, want)
		}
		quoted, err := json.Marshal(string(text))
		if err == nil && new(Document).Parse(quoted) != nil {
			t.Fatalf("refused %q", quoted)
		}
	})
}
