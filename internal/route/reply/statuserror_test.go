package reply

import (
	"net/http"
	"testing"
	"time"
)

func TestWaitsThatBackendsAskFor(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	const years = 1e9 * time.Second
	for _, test := range []struct {
		seconds, milliseconds string
		want                  time.Duration
	}{
		{"", "", 0},
		{"7", "", 7 * time.Second},
		{" 1.5 ", "", 1500 * time.Millisecond},
		{"9", "1500", 1500 * time.Millisecond},
		{"9", "soon", 9 * time.Second},
		{"99999999999999999999", "", years},
		{"", "99999999999999999999", years},
		{"Mon, 16 Nov 2026 12:00:09 GMT", "", 9 * time.Second},
		{"Mon, 16 Nov 2026 11:00:00 GMT", "", 0},
		{"0", "", 0},
		{"-5", "-5", 0},
		{"NaN", "NaN", 0},
		{"inf", "Infinity", 0},
		{"soon", "", 0},
	} {
		header := http.Header{"Retry-After": {test.seconds}, "Retry-After-Ms": {test.milliseconds}}
		if got := parseRetryAfter(header.Get, now); got != test.want {
			t.Errorf("Retry-After %q, in milliseconds %q: %v, want %v", test.seconds, test.milliseconds, got, test.want)
		}
	}
}
