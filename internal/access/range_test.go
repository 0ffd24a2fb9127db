package access

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"testing"
)

// The pattern in the OpenAPI document takes what parseRange takes.
func TestPatternOfRangesIsTheParsers(t *testing.T) {
	pattern := regexp.MustCompile(RangePattern)
	check := func(text string) {
		t.Helper()
		_, err := parseRange(text)
		if matches := pattern.MatchString(text); matches != (err == nil) {
			t.Errorf("%q: the pattern says %v, the parser %v", text, matches, err)
		}
	}
	for _, text := range []string{
		"", "10.0.0.0/8", "10.0.0.1", "10.0.0.0/33", "10.0.0.01", "256.0.0.1", "10.0.0", "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/-1",
		"::", "::1", "1::", "fd00::/8", "::/0", "::/128", "::/129", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9",
		"1::2::3", ":::", "1:2:3:4:5:6:7", "fe80::1%eth0", "FD00::A/16", "12345::", "localhost", "10.0.0.1\n",
	} {
		check(text)
	}
	for range 2000 {
		var words [16]byte
		for i := range words {
			if i/2%2 == rand.IntN(2) { // so that many words are zero
				words[i] = byte(rand.Uint32())
			}
		}
		words[0] |= 1 // not within ::ffff:0:0/96
		addr := netip.AddrFrom16(words)
		check(addr.String())
		check(fmt.Sprintf("%s/%d", addr, rand.IntN(140)))
		check(fmt.Sprintf("%s/%d", netip.AddrFrom4([4]byte(words[:4])), rand.IntN(40)))
	}
}
