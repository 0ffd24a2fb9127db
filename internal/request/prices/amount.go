// Package prices computes the cost of a request: prices by the names of models, in
// whole numbers of a millionth of a millionth of the unit of the currency. No floating
// point takes part.
package prices

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Amount is an amount of money, in units of 10^-12 of the currency's own unit. It is
// enough for nine million units.
type Amount int64

const (
	// decimals is how many digits an amount has behind the point.
	decimals = 12
	unit     = 1_000_000_000_000
	// MostMoney is the greatest Amount in whole units of the currency.
	MostMoney = math.MaxInt64 / unit
	// micro is a millionth of the currency's unit. Amounts are shown in it.
	micro = 1_000_000
)

var errAmount = say.Error("field.amount", "most", MostMoney, "digits", decimals, "example", "2.5")

// ParseAmount reads a decimal number, with or without an exponent.
func ParseAmount(text string) (Amount, error) {
	const longest = 40
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > longest || strings.Trim(mantissa, "0123456789.") != "" || mantissa == "" || mantissa == "." ||
		strings.Count(mantissa, ".") > 1 || strings.Trim(exponent, "0123456789+-") != "" || len(exponent) > 3 {
		return 0, errAmount
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, errAmount
	}
	exact.Mul(exact, big.NewRat(unit, 1))
	if !exact.IsInt() || !exact.Num().IsInt64() {
		return 0, errAmount
	}
	return Amount(exact.Num().Int64()), nil
}

// String returns the amount as a decimal number without needless zeros.
func (a Amount) String() string {
	text := strconv.FormatUint(magnitude(a), 10)
	if len(text) <= decimals {
		text = strings.Repeat("0", decimals+1-len(text)) + text
	}
	whole, rest := text[:len(text)-decimals], strings.TrimRight(text[len(text)-decimals:], "0")
	if rest != "" {
		whole += "." + rest
	}
	if a < 0 {
		return "-" + whole
	}
	return whole
}

// Money returns the amount as people write money: 20, 0.50, 0.0042.
func (a Amount) Money() string {
	text := a.String()
	if at := strings.IndexByte(text, '.'); at >= 0 && len(text)-at == 2 {
		text += "0"
	}
	return text
}

func magnitude(a Amount) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// MarshalText writes the amount as a decimal number.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads a decimal number.
func (a *Amount) UnmarshalText(text []byte) error {
	parsed, err := ParseAmount(string(text))
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}

// Micros returns the amount in millionths of the currency's unit, rounded to the nearest.
func (a Amount) Micros() int64 {
	if a < 0 {
		return -(-a).Micros()
	}
	return int64(a/micro) + int64(a%micro)/(micro/2)
}

// Plus adds amounts. A sum beyond the greatest Amount stays at the greatest.
func (a Amount) Plus(b Amount) Amount {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// times returns the amount for a number of things where it is the price of so many of
// them, rounded to the nearest.
func (a Amount) times(number, of int64) Amount {
	if a <= 0 || number <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(a), uint64(number))
	low, carry := bits.Add64(low, uint64(of/2), 0)
	high += carry
	if high >= uint64(of) {
		return math.MaxInt64
	}
	result, _ := bits.Div64(high, low, uint64(of))
	return Amount(min(result, math.MaxInt64))
}

// scaled reads a decimal number of JSON and multiplies it. Further digits than an
// amount has are rounded away: price lists are computed with floating point.
func scaled(value []byte, times int64) (Amount, error) {
	text := strings.Trim(string(value), `" `)
	if text == "" || text == "null" {
		return 0, nil
	}
	const longest = 40
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > longest || len(exponent) > 3 {
		return 0, errAmount // also a number with so many digits that they would fill the memory
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok || strings.ContainsAny(text, "/_xX") || exact.Sign() < 0 {
		return 0, errAmount
	}
	exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Mul(big.NewInt(times), big.NewInt(unit))))
	exact.Add(exact, big.NewRat(1, 2))
	rounded := new(big.Int).Quo(exact.Num(), exact.Denom())
	if !rounded.IsInt64() {
		return 0, errAmount
	}
	return Amount(rounded.Int64()), nil
}
