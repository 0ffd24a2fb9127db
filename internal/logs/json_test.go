package logs

import (
	"math"
	"strconv"
	"testing"
	"time"
)

// The short ways of writing times, numbers and texts give what the long ways give.
func TestShortWaysGiveTheSameText(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(2026, 11, 15, 8, 5, 9, 0, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 120_000_000, time.UTC),
		time.Date(1999, 12, 31, 23, 59, 59, 999_999_999, time.FixedZone("", 3600)), time.Date(2026, 1, 2, 3, 4, 5, 7, time.UTC),
		time.Date(2026, 1, 2, 3, 4, 5, 100_000_070, time.UTC), time.Date(12345, 1, 2, 3, 4, 5, 6, time.UTC), {},
	} {
		if got, want := string(appendTime(nil, at)), at.UTC().Format(time.RFC3339Nano); got != want {
			t.Errorf("time %s, want %s", got, want)
		}
	}
	for _, f := range []float64{0, 0.01, 0.1, 0.29, 0.3, 1, 1.005, 4.35, 12.5, 1.13, 99999.99, 123456789.01, 1e11, 1e12, 1e13, 1e300, -0.5, 1.0 / 3, math.Copysign(0, -1), 8.41, 0.57, 1.1} {
		if got, want := string(appendFloat(nil, f)), strconv.FormatFloat(f, 'f', -1, 64); got != want {
			t.Errorf("number %s, want %s", got, want)
		}
	}
	for n := range 100_000 {
		f := float64(n) / 100
		if got, want := string(appendFloat(nil, f)), strconv.FormatFloat(f, 'f', -1, 64); got != want {
			t.Fatalf("number %s, want %s", got, want)
		}
	}
	for c := range 256 {
		text := []byte("0123456789")
		for at := range text {
			text[at] = byte(c)
			plain := c >= ' ' && c <= '~' && c != '"' && c != '\\'
			if got := isPlainASCII(string(text)); got != plain {
				t.Errorf("%q: plain %v, want %v", text, got, plain)
			}
			text[at] = '0'
		}
	}
}
