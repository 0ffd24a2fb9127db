package vectors

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// extremes are the float32 values at which conversions go wrong.
var extremes = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, 0.1, 1.0 / 3, math.Pi,
	math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32,
	math.Float32frombits(0x00800000), math.Float32frombits(0x007fffff), // the smallest normal, the largest subnormal
	16777216, 16777215, 1e10, 1e-10, 1.17549435e-38, 3.4028233e38,
}

// vectors returns the extremes and random bit patterns, none of them infinite
// or no number.
func vectors() [][]float32 {
	random := rand.New(rand.NewPCG(1, 2))
	list := [][]float32{{}, extremes}
	for range 200 {
		v := make([]float32, random.IntN(64))
		for i := range v {
			for {
				v[i] = math.Float32frombits(random.Uint32())
				if f := float64(v[i]); !math.IsNaN(f) && !math.IsInf(f, 0) {
					break
				}
			}
		}
		list = append(list, v)
	}
	return list
}

func bitsOf(vector []float32) []byte {
	var bits []byte
	for _, f := range vector {
		bits = binary.LittleEndian.AppendUint32(bits, math.Float32bits(f))
	}
	return bits
}

// arrayOf writes a vector as JSON in one of the ways that backends have.
func arrayOf(vector []float32, number func(float32) string, separator string) []byte {
	parts := make([]string, len(vector))
	for i, f := range vector {
		parts[i] = number(f)
	}
	return []byte("[" + strings.Join(parts, separator) + "]")
}

// TestVectorsSurviveConversionBitByBit writes vectors in the ways that backends
// write them, shortest digits, all digits of the double, exponents, spaces, and
// wants the same bits back.
func TestVectorsSurviveConversionBitByBit(t *testing.T) {
	for name, number := range map[string]func(float32) string{
		"shortest":  func(f float32) string { return strconv.FormatFloat(float64(f), 'g', -1, 32) },
		"as double": func(f float32) string { return strconv.FormatFloat(float64(f), 'g', -1, 64) },
		"exponent":  func(f float32) string { return strconv.FormatFloat(float64(f), 'E', -1, 64) },
		"expanded":  func(f float32) string { return strconv.FormatFloat(float64(f), 'f', -1, 64) },
	} {
		for _, separator := range []string{",", ", ", " ,\n\t"} {
			for _, vector := range vectors() {
				array := arrayOf(vector, number, separator)
				bits, err := appendFloats(nil, array)
				if err != nil || !bytes.Equal(bits, bitsOf(vector)) {
					t.Fatalf("%s: %s became %x (%v), want %x", name, array, bits, err, bitsOf(vector))
				}
			}
		}
	}
}

// TestPlainFloatIsRightOrDoesNotKnow compares with the standard library where
// rounding twice goes wrong: at the middle between two float32 values and next
// to it, and at the ends of the range.
func TestPlainFloatIsRightOrDoesNotKnow(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	known := 0
	check := func(number string) {
		t.Helper()
		f, length, ok := plainFloat([]byte(number + "]"))
		if !ok {
			return
		}
		known++
		want, err := strconv.ParseFloat(number, 32)
		if err != nil || length != len(number) || math.Float32bits(f) != math.Float32bits(float32(want)) {
			t.Fatalf("%s is %v (%d of %d bytes), want %v (%v)", number, f, length, len(number), want, err)
		}
	}
	for range 20_000 {
		low := math.Float32frombits(random.Uint32() % 0x7f7fffff)
		high := math.Nextafter32(low, math.MaxFloat32)
		middle := (float64(low) + float64(high)) / 2
		for _, f := range []float64{
			float64(low), middle, math.Nextafter(middle, 0), math.Nextafter(middle, 1e300),
			math.Ldexp(random.Float64(), -random.IntN(20)), random.NormFloat64(), float64(random.IntN(1 << 30)),
		} {
			check(strconv.FormatFloat(f, 'g', -1, 64))
			check(strconv.FormatFloat(-f, 'e', random.IntN(22), 64))
			check(strconv.FormatFloat(f, 'f', random.IntN(25), 64))
		}
	}
	if known < 100_000 {
		t.Errorf("only %d numbers were known", known)
	}
	for _, number := range []string{"0", "-0", "0.0", "-0.000", "0e5", "1E+2", "10e-1", "9999999999999999999", "0.10000000000000000000"} {
		check(number)
	}
	for _, other := range []string{"null", "true", `"1"`, "[", "{", "-", "1e400", "1e-400", "99999999999999999999"} {
		if f, _, ok := plainFloat([]byte(other + "]")); ok {
			t.Errorf("%s is taken for %v", other, f)
		}
	}
}

func TestEightDigits(t *testing.T) {
	for _, text := range []string{"00000000", "12345678", "99999999", "10000000", "00000001", "98765432"} {
		want, _ := strconv.ParseUint(text, 10, 64)
		if got, ok := eightDigits(binary.LittleEndian.Uint64([]byte(text))); got != want || !ok {
			t.Errorf("%s is %d (%v)", text, got, ok)
		}
		for i := range text {
			for c := range 256 {
				if changed := []byte(text); c < '0' || c > '9' {
					changed[i] = byte(c)
					if _, ok := eightDigits(binary.LittleEndian.Uint64(changed)); ok {
						t.Fatalf("%q are taken for digits", changed)
					}
				}
			}
		}
	}
}

func TestVectorsSurviveTheWayThroughNumbers(t *testing.T) {
	for _, vector := range vectors() {
		bits := bitsOf(vector)
		array := appendNumbers(nil, bits)
		var read []float32
		if err := json.Unmarshal(array, &read); err != nil {
			t.Fatalf("%s: %v", array, err)
		}
		if !bytes.Equal(bitsOf(read), bits) {
			t.Fatalf("%s is not what %x says", array, bits)
		}
		if n := countNumbers(array); n != len(vector) {
			t.Fatalf("%s has %d numbers, want %d", array, n, len(vector))
		}
	}
}

func TestVectorsOfNoNumbersBecomeZero(t *testing.T) {
	bits := bitsOf([]float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1})
	if got := string(appendNumbers(nil, bits)); got != "[0,0,0,1]" {
		t.Errorf("%s, want [0,0,0,1]", got)
	}
}

func TestConvertVectorRefusesOtherValues(t *testing.T) {
	for _, vector := range []string{
		`null`, `1`, `true`, `{}`, `{"0":1}`,
		`[null]`, `[true]`, `[false]`, `["1"]`, `[1,"2"]`, `[[1]]`, `[1,[2]]`, `[{}]`, `[1,{"a":2}]`,
		`"A"`, `"AAA="`, `"AAAAAA"`, `"AAAAAAA="`, `"????"`, `"AAAA AAAA"`,
	} {
		for _, toBase64 := range []bool{false, true} {
			var doc jsonscan.Document
			if err := doc.Parse([]byte(vector)); err != nil {
				t.Fatal(err)
			}
			if got, err := Convert(doc.Root(), toBase64, 0); !errors.Is(err, dialect.ErrInvalid) {
				t.Errorf("%s to base64 %v: %s (%v), want %v", vector, toBase64, got, err, dialect.ErrInvalid)
			}
		}
	}
	// Beyond the range of float32 there is nothing to convert to.
	if _, err := appendFloats(nil, []byte("[1e39]")); !errors.Is(err, dialect.ErrInvalid) {
		t.Errorf("1e39: %v, want %v", err, dialect.ErrInvalid)
	}
}

// FuzzVector converts whatever a backend may give, both ways, and compares the
// outcome with a general decoder.
func FuzzVector(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[ ]`, `[1]`, `[0.1,-0.2,3e-4]`, `[1,null]`, `[[1]]`, `["1"]`, `[1e39]`, `[1e-50]`, `[-0]`, "[1 ,\n2]",
		`""`, `"AAAAAA=="`, `"AADUvgAAKL8AACi/AAAovw=="`, `"AAA"`, `"AAAA\nAAA="`, `"\u0041AAAAA=="`, `null`, `{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var doc jsonscan.Document
		if doc.Parse(text) != nil {
			return
		}
		want, isVector := decodeVector(text)
		encoded, err := Convert(doc.Root(), true, 0)
		if (err == nil) != isVector {
			t.Fatalf("%q: %v, but a decoder reads %v (%v)", text, err, want, isVector)
		}
		if !isVector {
			return
		}
		if encoded == nil {
			encoded = text
		}
		if got, ok := decodeVector(encoded); !ok || !slices.Equal(got, want) {
			t.Fatalf("%q became %s, want %v", text, encoded, want)
		}
		numbers, err := Convert(doc.Root(), false, 0)
		if err != nil {
			t.Fatalf("%q to numbers: %v", text, err)
		}
		if numbers == nil {
			numbers = text
		}
		for i, bits := range want {
			if f := float64(math.Float32frombits(bits)); math.IsNaN(f) || math.IsInf(f, 0) {
				want[i] = 0
			}
		}
		if got, ok := decodeVector(numbers); !ok || !slices.Equal(got, want) {
			t.Fatalf("%q became %s, want %v", text, numbers, want)
		}
	})
}

// decodeVector reads a vector with a general decoder, as the bits of its values.
func decodeVector(text []byte) (bits []uint32, ok bool) {
	text = bytes.TrimSpace(text)
	switch text[0] {
	case '[':
		var elements []any
		if json.Unmarshal(text, &elements) != nil {
			return nil, false
		}
		for _, element := range elements {
			if _, isNumber := element.(float64); !isNumber {
				return nil, false
			}
		}
		var values []float32
		if json.Unmarshal(text, &values) != nil {
			return nil, false
		}
		for _, f := range values {
			bits = append(bits, math.Float32bits(f))
		}
		return bits, true
	case '"':
		var encoded string
		if json.Unmarshal(text, &encoded) != nil {
			return nil, false
		}
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(raw)%floatSize != 0 {
			return nil, false
		}
		for ; len(raw) > 0; raw = raw[floatSize:] {
			bits = append(bits, binary.LittleEndian.Uint32(raw))
		}
		return bits, true
	}
	return nil, false
}
