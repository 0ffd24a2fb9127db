package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A head that two servers could read in two ways is refused wherever it comes: which
// server has the connection, and what it did before, makes no difference.
func TestHeadsThatCanBeReadInTwoWaysAreRefusedEverywhere(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	// Where a request stands, before it: replies to what comes before are read first.
	before := map[string]string{
		"first":                  "",
		"after the front":        gatewaytest.RawPost(gatewaytest.PlainHi),
		"after net/http":         "GET /actuator/info HTTP/1.1\r\nHost: x\r\n\r\n",
		"after chunks":           gatewaytest.PostHead + "Transfer-Encoding: chunked\r\n\r\n" + chunked(gatewaytest.PlainHi),
		"after both":             gatewaytest.RawPost(gatewaytest.PlainHi) + "GET /actuator/info HTTP/1.1\r\nHost: x\r\n\r\n",
		"after an absolute form": strings.Replace(gatewaytest.RawPost(gatewaytest.PlainHi), "/v1", "http://x/v1", 1),
	}
	targets := map[string]string{"": "/v1/chat/completions", "absolute": "http://x/v1/chat/completions", "elsewhere": "/actuator/info", "escaped": "/v1/%63hat/completions"}
	ambiguous := map[string]string{
		"line feeds alone":              "POST %s HTTP/1.1\nHost: x\nContent-Length: 2\n\n{}",
		"a line feed after the target":  "POST %s HTTP/1.1\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"a line feed after a field":     "POST %s HTTP/1.1\r\nHost: x\nContent-Length: 2\r\n\r\n{}",
		"a line feed after a long one":  "POST %s HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 500) + "\nContent-Length: 2\r\n\r\n{}",
		"a line feed at the end":        "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\n{}",
		"a line feed before":            "\nPOST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"the same length twice":         "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\n{}",
		"two lengths":                   "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"a space before the colon":      "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length : 2\r\n\r\n{}",
		"a control character":           "POST %s HTTP/1.1\r\nHost: x\r\nX: a\x01b\r\nContent-Length: 2\r\n\r\n{}",
		"a length and chunks":           "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a length and chunks, line fed": "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	}
	for where, first := range before {
		for form, target := range targets {
			for what, request := range ambiguous {
				t.Run(fmt.Sprintf("%s %s/%s", where, form, what), func(t *testing.T) {
					arrived := b.Stats().Arrived
					conn := r.DialRaw()
					defer conn.Close()
					replies := bufio.NewReader(conn)
					for rest := first; rest != ""; { // one after the other, as a client that waits
						one, more := cutRequest(rest)
						send(t, conn, one)
						gatewaytest.ReadRaw(t, replies, http.MethodPost).Succeeds(t)
						rest = more
						if strings.Contains(one, "chat") {
							arrived++
						}
					}
					send(t, conn, fmt.Sprintf(request, target)+gatewaytest.RawPost(gatewaytest.PlainHi))
					answer := gatewaytest.ReadRaw(t, replies, http.MethodPost)
					if answer.Status != http.StatusBadRequest || !answer.Closes {
						t.Errorf("status %d, the connection ends: %t", answer.Status, answer.Closes)
					}
					if rest, err := io.ReadAll(replies); len(rest) > 0 {
						t.Errorf("%q follows, %v", rest, err)
					}
					if got := b.Stats().Arrived; got != arrived {
						t.Errorf("%d requests arrived at the backend, want %d", got, arrived)
					}
				})
			}
		}
	}
}

// cutRequest returns the first request of a text that has one or two.
func cutRequest(text string) (one, more string) {
	if at := strings.Index(text[1:], "GET /actuator"); at >= 0 {
		return text[:at+1], text[at+1:]
	}
	return text, ""
}

func send(t *testing.T, to io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		t.Fatal(err)
	}
}
