package web

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// A reply may contain anything, also what the server writes when it refuses a
// request. It is not touched while a handler runs.
func TestRepliesThatLookLikeRefusalsAreNotTouched(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]string{
		"refusal":     "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request",
		"expectation": "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := start + strings.Repeat("x", 64<<10) // more than the server collects
				c := talk(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Length", fmt.Sprint(len(body)))
					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush()
					_, _ = io.WriteString(w, body)
				})
				replies := bufio.NewReader(c)
				for range 2 {
					say(t, c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
					response, err := http.ReadResponse(replies, nil)
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(response.Body)
					if string(got) != body || err != nil {
						t.Fatalf("%d bytes for %d, %v: %.200q", len(got), len(body), err, got)
					}
				}
				say(t, c, "GET / HTTP/1.1\r\n\r\n") // no host: the server refuses it
				response, err := http.ReadResponse(replies, nil)
				if err != nil || response.StatusCode != http.StatusBadRequest || response.Header.Get("Content-Type") != "application/json" {
					t.Errorf("the server's own refusal: %v, %v", response, err)
				}
			})
		})
	}
}
