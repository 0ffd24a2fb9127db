package front

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

// differences are what this server refuses or ends although net/http reads it. Everything
// else that net/http reads is read here, too, and in the same way.
var differences = map[string]string{
	"line feeds that end lines":         "GET / HTTP/1.1\nHost: h\n\n",
	"a line feed at the end":            "GET / HTTP/1.1\r\nHost: h\r\n\n",
	"a length twice":                    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
	"a length and chunks":               "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunks in HTTP/1.0":                "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
	"a field on two lines":              "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
	"a length of nineteen digits":       "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0000000000000000001\r\n\r\nx",
	"a chunk's size of sixteen digits":  "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0000000000000001\r\nx\r\n0\r\n\r\n",
	"a line before a chunk of 3 KiB":    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 3<<10) + "\r\nx\r\n0\r\n\r\n",
	"trailers of 3 KiB":                 "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + strings.Repeat("x", 3<<10) + "\r\n\r\n",
	"a trailer on two lines":            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: a\r\n b\r\n\r\n",
	"HTTP/1.2":                          "GET / HTTP/1.2\r\nHost: h\r\n\r\n",
	"the beginning of HTTP/2":           "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"an expectation with something":     "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue x\r\nContent-Length: 1\r\n\r\nx",
	"two empty lines after a POST":      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
	"a control character in a trailer":  "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: a\x01\r\n\r\n",
	"a colon first among the trailers":  "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n: a\r\n\r\n",
	"a character beyond ASCII in a key": "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\xffX: a\r\n\r\n",
}

// same are requests that both servers read in the same way, or both refuse.
var same = []string{
	"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /a?b=c&d HTTP/1.1\r\nHost: h:80\r\nX-A: 1\r\nx-a: 2\r\nCookie: a=b\r\nCookie: c\r\naccept:\r\n\r\n",
	"GET /%61/b%2Fc;d=e/~f!(g)*'h?i#j HTTP/1.1\r\nHost: [::1]:80\r\nX-Tab: a\tb\r\n\r\n",
	"GET //a//b? HTTP/1.1\r\nHost:\r\nPragma: no-cache\r\n\r\n",
	"GET http://g/a?b HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /\xe6\x97\xa5 HTTP/1.1\r\nHost: h\r\n\r\n",
	"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n",
	"OPTIONS /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, keep-alive\r\nUpgrade: x\r\n\r\n",
	"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12345",
	"POST /a HTTP/1.1\r\nHost: h\r\ncontent-length:\t05 \r\n\r\nGET /",
	"POST /a HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n12345\r\nA \r\n0123\r\n\r\n89\r\n0\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: Content-Length: 5\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
	"POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n\r\n",
	"POST /" + strings.Repeat("a", 300) + " HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("Content-Length: 5", 30) + "\r\nContent-Length: 1\r\n\r\n1",
	"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5 ;x\r\n12345\r\n0\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nnonsense\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5x\r\n\r\n",
	"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET / HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
	"GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab",
}

// seen is one request as a handler sees it. broken says that its body cannot be read.
type seen struct {
	request *http.Request
	body    string
	broken  bool
}

// watchRequests returns a handler that notes the requests it gets.
func watchRequests(to *[]seen, mu *sync.Mutex) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		*to = append(*to, seen{r, string(body), err != nil})
		mu.Unlock()
		w.WriteHeader(http.StatusOK)
	}
}

// pieces is a connection on which a text comes in pieces of these lengths, the rest in
// one, and then the end of the client's side.
type pieces struct {
	net.Conn
	mu      sync.Mutex
	text    string
	lengths []int
	done    chan struct{}
}

func (p *pieces) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text == "" {
		return 0, io.EOF
	}
	n := min(len(b), len(p.text))
	if len(p.lengths) > 0 {
		n, p.lengths = min(n, max(1, p.lengths[0])), p.lengths[1:]
	}
	n = copy(b[:n], p.text)
	p.text = p.text[n:]
	return n, nil
}

func (p *pieces) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (*pieces) Write(b []byte) (int, error)      { return len(b), nil }
func (*pieces) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
func (*pieces) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (*pieces) SetReadDeadline(time.Time) error  { return nil }
func (*pieces) SetWriteDeadline(time.Time) error { return nil }
func (*pieces) SetDeadline(time.Time) error      { return nil }

// one is a listener of one connection.
type one struct {
	conn *pieces
	once sync.Once
}

func (o *one) Accept() (c net.Conn, err error) {
	err = io.EOF
	o.once.Do(func() { c, err = o.conn, nil })
	if err != nil {
		<-o.conn.done
	}
	return c, err
}

func (*one) Close() error   { return nil }
func (*one) Addr() net.Addr { return &net.TCPAddr{} }

// seenHere are the requests that this server finds in a text.
func seenHere(text string, lengths []int) []seen {
	var all []seen
	s := newServer(watchRequests(&all, new(sync.Mutex)))
	newConn(s, &pieces{text: text, lengths: lengths, done: make(chan struct{})}).serveAlone()
	return all
}

// serveAlone serves a connection that no server has accepted.
func (c *conn) serveAlone() {
	c.server.mu.Lock()
	c.server.conns[c] = struct{}{}
	c.server.mu.Unlock()
	c.serve()
	c.server.serving.Wait()
}

// seenByNetHTTP are those that net/http finds.
func seenByNetHTTP(text string) []seen {
	var all []seen
	var mu sync.Mutex
	l := &one{conn: &pieces{text: text, done: make(chan struct{})}}
	server := &http.Server{Handler: watchRequests(&all, &mu), MaxHeaderBytes: 64 << 10, ReadHeaderTimeout: time.Minute, DisableGeneralOptionsHandler: true}
	_ = server.Serve(l)
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(all)
}

// withoutEmptyLines is a text without the empty lines before the requests that were found
// in it. net/http skips them after a POST only; here it makes no difference what the
// connection did before.
func withoutEmptyLines(text string, found []seen) string {
	var out strings.Builder
	for _, s := range found {
		text = strings.TrimPrefix(text, "\r\n")
		end := strings.Index(text, "\r\n\r\n") + len("\r\n\r\n") + int(max(0, s.request.ContentLength))
		for chunks := (wire.Chunks{}); s.request.ContentLength < 0 && end <= len(text); {
			n, err := chunks.Step([]byte(text[end:]))
			if end += n; n == 0 || err != nil {
				break
			}
			end += int(min(chunks.Left, int64(len(text)-end)))
			chunks.Left = 0
		}
		end = min(end, len(text))
		out.WriteString(text[:end])
		text = text[end:]
	}
	return out.String() + text
}

// compareText compares what both servers see in a text.
func compareText(text string, lengths []int) error {
	here := seenHere(text, lengths)
	return compare(here, seenByNetHTTP(withoutEmptyLines(text, here)))
}

// compare reports how what is seen here differs from what net/http sees; being stricter
// is no difference.
func compare(here, there []seen) error {
	for n, got := range here {
		if n >= len(there) {
			return fmt.Errorf("request %d (%s %s) is served, and net/http does not see it", n, got.request.Method, got.request.RequestURI)
		}
		if err := compareOne(got, there[n]); err != nil {
			return fmt.Errorf("request %d: %w", n, err)
		}
	}
	return nil
}

func compareOne(here, there seen) error {
	got, want := here.request, there.request
	switch {
	case got.Method != want.Method || got.Host != want.Host || got.RequestURI != want.RequestURI || got.Proto != want.Proto ||
		got.ProtoMajor != want.ProtoMajor || got.ProtoMinor != want.ProtoMinor || got.RemoteAddr != want.RemoteAddr ||
		got.ContentLength != want.ContentLength || got.Close != want.Close || !slices.Equal(got.TransferEncoding, want.TransferEncoding):
		return fmt.Errorf("%+v, net/http has %+v", got, want)
	case !reflect.DeepEqual(got.URL, want.URL):
		return fmt.Errorf("%#v, net/http has %#v", got.URL, want.URL)
	case !maps.EqualFunc(got.Header, want.Header, slices.Equal):
		return fmt.Errorf("%q, net/http has %q", got.Header, want.Header)
	case (got.Body == http.NoBody) != (want.Body == http.NoBody) && got.Header["Expect"] == nil:
		return fmt.Errorf("a body: %T, net/http has %T", got.Body, want.Body)
	case there.broken && !here.broken:
		return errors.New("a body is read that net/http does not take")
	case here.broken && strings.HasPrefix(there.body, here.body): // stricter
	case here.body != there.body:
		return fmt.Errorf("the body %q, net/http has %q", here.body, there.body)
	}
	return nil
}

// Everything that both servers read they read in the same way, in any order and however
// it is cut.
func TestRequestsAreReadAsByNetHTTP(t *testing.T) {
	t.Parallel()
	for _, text := range same {
		here, there := seenHere(text, nil), seenByNetHTTP(text)
		if err := compare(here, there); err != nil || len(here) != len(there) {
			t.Errorf("%q: %d and %d requests, %v", text, len(here), len(there), err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(same), 1, 5).Draw(t, "requests"), "")
		lengths := rapid.SliceOf(rapid.IntRange(1, 40)).Draw(t, "pieces")
		if err := compareText(text, lengths); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// Requests that are damaged somewhere are read as net/http reads them, or refused.
func TestDamagedRequestsAreReadAsByNetHTTP(t *testing.T) {
	t.Parallel()
	all := append(slices.Sorted(maps.Values(differences)), same...)
	damages := rapid.SampledFrom([]string{
		"", " ", "\t", "\r", "\n", "\r\n", "\r\n\r\n", ":", ";", ",", "0", "1", "f", "/", "%", "%2", "?", "#", "*", "x", "\x00", "\x7f", "\xff", "-", "+", "HTTP/1.1", "HTTP/1.0",
		"Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n", "Host: h\r\n", "Expect: 100-continue\r\n", "Trailer: X\r\n", "GET / HTTP/1.1\r\n", "0\r\n\r\n",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(all), 1, 3).Draw(t, "requests"), "")
		for range rapid.IntRange(1, 4).Draw(t, "how often") {
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			text = text[:at] + damages.Draw(t, "damage") + text[min(len(text), at+rapid.IntRange(0, 3).Draw(t, "lost")):]
		}
		if strings.Contains(text, "PRI *") || strings.Contains(text, "OPTIONS *") {
			return // the first net/http treats as HTTP/2, the second has no handler
		}
		lengths := rapid.SliceOf(rapid.IntRange(1, 40)).Draw(t, "pieces")
		if err := compareText(text, lengths); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// What is refused here is refused wherever it stands, and nothing behind it is read. Each
// difference is one: net/http would read it.
func TestDifferencesFromNetHTTP(t *testing.T) {
	t.Parallel()
	before := append(slices.Clone(same[:3]), same[9], same[12], "")
	next := "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, text := range differences {
		t.Run(name, func(t *testing.T) {
			alone, there := seenHere(text+next, nil), seenByNetHTTP(text+next)
			if len(there) < len(alone) || len(there) == len(alone) && !slices.ContainsFunc(alone, func(s seen) bool { return s.broken }) {
				t.Errorf("%d requests are served, and %d by net/http: that is no difference", len(alone), len(there))
			}
			for _, first := range before {
				got := seenHere(first+text+next, []int{len(first), 1, 1})
				want := len(alone)
				if first != "" {
					want++
				}
				if len(got) != want {
					t.Errorf("after %.20q %d requests are served, want %d", first, len(got), want)
				}
				for _, s := range got {
					if s.request.URL.Path == "/next" {
						t.Errorf("after %.20q what comes behind it is served", first)
					}
				}
			}
		})
	}
}

// Whatever comes, this server sees the requests that net/http sees, or fewer.
func FuzzRequestsAreReadAsByNetHTTP(f *testing.F) {
	for _, text := range same {
		f.Add([]byte(text), uint8(7))
	}
	for _, text := range differences {
		f.Add([]byte(text), uint8(1))
	}
	f.Add([]byte(same[9]+same[12]+same[0]), uint8(3))
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		lengths := slices.Repeat([]int{int(piece)}, 64)
		if bytes.HasPrefix(text, []byte("PRI")) || bytes.Contains(text, []byte("OPTIONS *")) {
			return // the first net/http treats as HTTP/2, the second has no handler
		}
		if err := compareText(string(text), lengths); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// Replies are framed as those of net/http: clients of every version find their end.
func TestRepliesAreFramedAsByNetHTTP(t *testing.T) {
	t.Parallel()
	handlers := map[string]http.HandlerFunc{
		"nothing":    func(http.ResponseWriter, *http.Request) {},
		"no content": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"not modified": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", "x")
			w.WriteHeader(http.StatusNotModified)
		},
		"a length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "hi")
		},
		"a stream": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hi"); w.(http.Flusher).Flush() },
		"the last one": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "hi")
		},
		"its own date": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", "today")
			w.Header().Set("Content-Length", "0")
		},
		"a late status": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "hi")
			w.WriteHeader(http.StatusTeapot)
		},
	}
	requests := map[string]string{
		"GET":                  "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"HEAD":                 "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",
		"HTTP/1.0":             "GET / HTTP/1.0\r\n\r\n",
		"HTTP/1.0, keep alive": "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"the last":             "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
	}
	for name, handler := range handlers {
		there := httptest.NewUnstartedServer(handler)
		there.Config.ErrorLog = log.New(io.Discard, "", 0)
		there.Start()
		t.Cleanup(there.Close)
		for what, request := range requests {
			t.Run(name+"/"+what, func(t *testing.T) {
				_, here := listen(t, handler)
				other, err := net.Dial("tcp", there.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				describe := func(c net.Conn) string {
					say(t, c, request)
					method, _, _ := strings.Cut(request, " ")
					response, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(response.Body)
					return fmt.Sprintf("%s %d %q %v, ends %t, date %t", response.Proto, response.StatusCode, body, err, response.Close, response.Header.Get("Date") != "")
				}
				if got, want := describe(here), describe(other); got != want {
					t.Errorf("%s, net/http %s", got, want)
				}
			})
		}
	}
}
