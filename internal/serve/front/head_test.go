package front

import (
	"net/http"
	"strings"
	"testing"
)

const plainHead = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"

// read parses a head as a connection does.
func read(s *Server, text string) (*exchange, Refusal) {
	return (&conn{server: s}).newExchange([]byte(text))
}

func TestHeadsAreServedOrRefused(t *testing.T) {
	t.Parallel()
	with := func(lines string) string { return strings.Replace(plainHead, "\r\n\r\n", "\r\n"+lines+"\r\n\r\n", 1) }
	for name, test := range map[string]struct {
		head string
		want int // the status of the refusal
	}{
		"ordinary":                 {plainHead, 0},
		"a query":                  {strings.Replace(plainHead, " HTTP", "?api-version=1 HTTP", 1), 0},
		"no length":                {"POST / HTTP/1.1\r\nHost: h\r\n\r\n", 0},
		"lower case":               {strings.ToLower(plainHead[:len("POST ")]) + plainHead[len("POST "):], 0},
		"the client closes":        {with("Connection: close"), 0},
		"blanks around a value":    {with("X: \t a b \t"), 0},
		"bytes beyond ASCII":       {with("X: \xff\xfe"), 0},
		"tab in a value":           {with("X: a\tb"), 0},
		"HTTP/1.0":                 {strings.Replace(plainHead, "1.1", "1.0", 1), 0},
		"HTTP/1.0 without a host":  {"GET / HTTP/1.0\r\n\r\n", 0},
		"absolute target":          {strings.Replace(plainHead, "/v1", "http://h/v1", 1), 0},
		"escape in the target":     {strings.Replace(plainHead, "/v1", "/%761", 1), 0},
		"chunks":                   {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 0},
		"expectation":              {with("Expect: 100-continue"), 0},
		"upgrade":                  {with("Upgrade: h2c"), 0},
		"connection with options":  {with("Connection: keep-alive, upgrade"), 0},
		"many fields":              {with(strings.Repeat("X: y\r\n", 1000) + "X: y"), 0},
		"HTTP/2":                   {"PRI * HTTP/2.0\r\n\r\n", http.StatusHTTPVersionNotSupported},
		"HTTP/1.2":                 {strings.Replace(plainHead, "1.1", "1.2", 1), http.StatusHTTPVersionNotSupported},
		"no version":               {"GET /\r\n\r\n", http.StatusBadRequest},
		"space in the target":      {strings.Replace(plainHead, "/v1", "/v 1", 1), http.StatusBadRequest},
		"control in the target":    {strings.Replace(plainHead, "/v1", "/\x01", 1), http.StatusBadRequest},
		"relative target":          {strings.Replace(plainHead, "/v1", "v1", 1), http.StatusBadRequest},
		"empty line first":         {"\r\n", http.StatusBadRequest},
		"folded value":             {with("X: a\r\n b"), http.StatusBadRequest},
		"no host":                  {"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n", http.StatusBadRequest},
		"two hosts":                {with("Host: b"), http.StatusBadRequest},
		"odd host":                 {strings.Replace(plainHead, "localhost", "local host", 1), http.StatusBadRequest},
		"no colon":                 {with("nonsense"), http.StatusBadRequest},
		"length that is a word":    {strings.Replace(plainHead, ": 2", ": two", 1), http.StatusBadRequest},
		"negative length":          {strings.Replace(plainHead, ": 2", ": -2", 1), http.StatusBadRequest},
		"empty length":             {strings.Replace(plainHead, ": 2", ":", 1), http.StatusBadRequest},
		"length of twenty digits":  {strings.Replace(plainHead, ": 2", ": 00000000000000000002", 1), http.StatusBadRequest},
		"two lengths":              {with("Content-Length: 3"), http.StatusBadRequest},
		"the same length twice":    {with("content-length: 2"), http.StatusBadRequest},
		"length and chunks":        {with("Transfer-Encoding: chunked"), http.StatusBadRequest},
		"chunks in HTTP/1.0":       {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", http.StatusBadRequest},
		"another coding":           {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", http.StatusNotImplemented},
		"a forbidden trailer":      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: content-length\r\n\r\n", http.StatusBadRequest},
		"another expectation":      {with("Expect: a-miracle"), http.StatusExpectationFailed},
		"space before the colon":   {with("X : y"), http.StatusBadRequest},
		"space in a name":          {with("X y: z"), http.StatusBadRequest},
		"empty name":               {with(": z"), http.StatusBadRequest},
		"control in a value":       {with("X: a\x01b"), http.StatusBadRequest},
		"delete in a value":        {with("X: aaaaaaaaaa\x7f"), http.StatusBadRequest},
		"NUL in a value":           {with("X: aaaaaaaaaa\x00aaaaaaaaaa"), http.StatusBadRequest},
		"carriage return in value": {with("X: a\rb"), http.StatusBadRequest},
		"line feed alone":          {strings.Replace(plainHead, "\r\nContent-Type", "\nContent-Type", 1), http.StatusBadRequest},
		"line feed alone at last":  {strings.TrimSuffix(plainHead, "\r\n") + "\n", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			if _, refusal := read(newServer(nil), test.head); refusal.Status != test.want || (refusal.Message == "") != (test.want == 0) {
				t.Errorf("%+v, want %d", refusal, test.want)
			}
		})
	}
}
