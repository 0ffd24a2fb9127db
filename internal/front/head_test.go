package front

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

const plainHead = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"

func TestHeadsAreServedPassedOrRefused(t *testing.T) {
	t.Parallel()
	with := func(lines string) string { return strings.Replace(plainHead, "\r\n\r\n", "\r\n"+lines+"\r\n\r\n", 1) }
	for name, test := range map[string]struct {
		head string
		want verdict
	}{
		"ordinary":                 {plainHead, serve},
		"a query":                  {strings.Replace(plainHead, " HTTP", "?api-version=1 HTTP", 1), serve},
		"no length":                {"POST / HTTP/1.1\r\nHost: h\r\n\r\n", serve},
		"lower case":               {strings.ToLower(plainHead[:len("POST ")]) + plainHead[len("POST "):], serve},
		"the client closes":        {with("Connection: close"), serve},
		"blanks around a value":    {with("X: \t a b \t"), serve},
		"bytes beyond ASCII":       {with("X: \xff\xfe"), serve},
		"tab in a value":           {with("X: a\tb"), serve},
		"HTTP/1.0":                 {strings.Replace(plainHead, "1.1", "1.0", 1), pass},
		"HTTP/2":                   {"PRI * HTTP/2.0\r\n\r\n", pass},
		"no version":               {"GET /\r\n\r\n", pass},
		"absolute target":          {strings.Replace(plainHead, "/v1", "http://h/v1", 1), pass},
		"escape in the target":     {strings.Replace(plainHead, "/v1", "/%761", 1), pass},
		"space in the target":      {strings.Replace(plainHead, "/v1", "/v 1", 1), pass},
		"empty line first":         {"\r\n", pass},
		"chunks":                   {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", pass},
		"expectation":              {with("Expect: 100-continue"), pass},
		"upgrade":                  {with("Upgrade: h2c"), pass},
		"connection with options":  {with("Connection: keep-alive, upgrade"), pass},
		"folded value":             {with("X: a\r\n b"), pass},
		"no host":                  {"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n", pass},
		"two hosts":                {with("Host: b"), pass},
		"odd host":                 {strings.Replace(plainHead, "localhost", "local host", 1), pass},
		"no colon":                 {with("nonsense"), pass},
		"length that is a word":    {strings.Replace(plainHead, ": 2", ": two", 1), pass},
		"negative length":          {strings.Replace(plainHead, ": 2", ": -2", 1), pass},
		"length of twenty digits":  {strings.Replace(plainHead, ": 2", ": 00000000000000000002", 1), pass},
		"many fields":              {with(strings.Repeat("X: y\r\n", maxFields) + "X: y"), pass},
		"two lengths":              {with("Content-Length: 3"), refuse},
		"the same length twice":    {with("content-length: 2"), refuse},
		"length and chunks":        {with("Transfer-Encoding: chunked"), refuse},
		"chunks in HTTP/1.0":       {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", refuse},
		"space before the colon":   {with("X : y"), refuse},
		"space in a name":          {with("X y: z"), refuse},
		"empty name":               {with(": z"), refuse},
		"control in a value":       {with("X: a\x01b"), refuse},
		"delete in a value":        {with("X: aaaaaaaaaa\x7f"), refuse},
		"NUL in a value":           {with("X: aaaaaaaaaa\x00aaaaaaaaaa"), refuse},
		"carriage return in value": {with("X: a\rb"), refuse},
		"line feed alone":          {strings.Replace(plainHead, "\r\nContent-Type", "\nContent-Type", 1), refuse},
		"line feed alone at last":  {strings.TrimSuffix(plainHead, "\r\n") + "\n", refuse},
	} {
		t.Run(name, func(t *testing.T) {
			var h head
			if got, refusal := h.parse(test.head); got != test.want {
				t.Errorf("verdict %d, want %d (%+v)", got, test.want, refusal)
			}
		})
	}
}

// Whatever head is served here, net/http reads the same from it.
func FuzzHeadsAreReadAsByNetHTTP(f *testing.F) {
	f.Add([]byte(plainHead))
	f.Add([]byte(strings.Replace(plainHead, " HTTP", "?a=b&c HTTP", 1)))
	f.Add([]byte("POST /v1/x HTTP/1.1\r\nhost: h\r\nx-a: 1\r\nX-A:2\r\nCONTENT-LENGTH: 07\r\nConnection: close\r\naccept:\r\n\r\n"))
	f.Add([]byte("PUT /a/b;c=d HTTP/1.1\r\nHost: [::1]:80\r\nX-Tab: a\tb\r\nCookie: a=b\r\nCookie: c\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.1\nHost: h\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		end := headEnd(text)
		if end < 0 {
			return
		}
		c := &conn{server: newServer(nil)}
		verdict, _ := c.head.parse(string(text[:end]))
		if verdict != serve {
			return
		}
		got := c.newRequest(c.newExchange())
		want, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(text[:end]), zeros{})))
		if err != nil {
			t.Fatalf("%q is served, and net/http does not take it: %v", text[:end], err)
		}
		if got.Method != want.Method || got.Host != want.Host || got.RequestURI != want.RequestURI || got.Proto != want.Proto ||
			got.ContentLength != want.ContentLength || got.Close != want.Close || len(want.TransferEncoding) > 0 {
			t.Fatalf("%q: %+v, net/http has %+v", text[:end], got, want)
		}
		if got.URL.RawQuery != want.URL.RawQuery || got.URL.Path != want.URL.Path || got.URL.ForceQuery != want.URL.ForceQuery || got.URL.Fragment != want.URL.Fragment {
			t.Fatalf("%q: %#v, net/http has %#v", text[:end], got.URL, want.URL)
		}
		if !reflect.DeepEqual(got.Header, want.Header) {
			t.Fatalf("%q: %q, net/http has %q", text[:end], got.Header, want.Header)
		}
	})
}

// headEnd returns where the first empty line of a text ends, or -1.
func headEnd(text []byte) int {
	line := 0
	for i, c := range text {
		if c != '\n' {
			continue
		}
		if i == line || i == line+1 && text[line] == '\r' {
			return i + 1
		}
		line = i + 1
	}
	return -1
}

// zeros is a body without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
