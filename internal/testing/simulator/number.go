package simulator

import (
	"fmt"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// wholeNumber is a number without a fraction, which may be written with one that
// is zero: 5 and 5.0 are the same to JSON.
type wholeNumber int

// UnmarshalJSONFrom reads the number.
func (n *wholeNumber) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	var number float64
	if err := json.UnmarshalDecode(from, &number); err != nil {
		return err
	}
	if number != math.Trunc(number) {
		return fmt.Errorf("%v is no whole number", number)
	}
	*n = wholeNumber(max(math.MinInt32, min(number, math.MaxInt32)))
	return nil
}
