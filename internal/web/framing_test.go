package web

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// requestParts are requests as clients send them, and whether their length is
// ambiguous.
var requestParts = []struct {
	text      string
	ambiguous bool
}{
	{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", false},
	{"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12345", false},
	{"POST /a HTTP/1.1\r\nHost: h\r\ncontent-length:\t05 \r\n\r\nGET /", false},
	{"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", false},
	{"POST /a HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\n\r\n\r\n", false},
	{"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n12345\r\nA \r\n0123\r\n\r\n89\r\n0\r\n\r\n", false},
	{"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: Content-Length: 5\r\n\r\n", false},
	{"POST /" + strings.Repeat("a", 300) + " HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("Content-Length: 5", 30) + "\r\n Transfer-Encoding: x\r\nContent-Length: 1\r\n\r\n1", false},
	{"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", true},
	{"POST /a HTTP/1.1\r\nHost: h\r\nTRANSFER-ENCODING: chunked\r\nX: y\r\nContent-length: 5\r\n\r\n", true},
	{"POST /a HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", true},
	{"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n\r\n", true},
	{"GET / HTTP/1.1\nHost: h\n\n", true},
	{"GET / HTTP/1.1\nHost: h\r\n\r\n", true},
	{"GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", true},
	{"GET / HTTP/1.1\r\nX: " + strings.Repeat("y", 100) + "\nHost: h\r\n\r\n", true},
	{"GET / HTTP/1.1\r\nHost: h\r\n\n", true},
}

// However requests follow each other and however their bytes are cut, framing
// finds the heads that the server finds, and every head that is ambiguous.
func TestFramingFollowsTheServer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		ambiguous := 0
		for n := range rapid.IntRange(1, 6).Draw(t, "requests") {
			part := rapid.SampledFrom(requestParts).Draw(t, "request")
			text.WriteString(part.text)
			if part.ambiguous {
				ambiguous = n + 1
				break
			}
		}
		var f framing
		for rest := text.String(); rest != ""; {
			n := min(len(rest), rapid.IntRange(1, 40).Draw(t, "piece"))
			f.write([]byte(rest[:n]))
			rest = rest[n:]
		}
		server := bufio.NewReader(strings.NewReader(text.String()))
		for number := 1; ; number++ {
			request, err := http.ReadRequest(server)
			if errors.Is(err, io.EOF) {
				if f.heads != number-1 {
					t.Fatalf("%d heads, the server sees %d", f.heads, number-1)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := f.ambiguity(number) != nil; got != (number == ambiguous) {
				t.Fatalf("request %d is ambiguous: %t (%+v)", number, got, f.ambiguity(number))
			}
			if number == ambiguous {
				return
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What cannot be followed is refused rather than believed.
func TestFramingThatLosesTrackIsAmbiguous(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"POST / HTTP/1.1\r\nContent-Length: 5x\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: \r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: " + strings.Repeat("0", 100) + "5\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n",
	} {
		var f framing
		f.write([]byte(text + "GET / HTTP/1.1\r\n\r\n"))
		if f.ambiguity(2) == nil {
			t.Errorf("%q is not ambiguous", text)
		}
	}
}
