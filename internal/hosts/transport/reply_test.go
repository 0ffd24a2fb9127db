package transport

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

// result is what a caller sees of a reply.
type result struct {
	Status  int
	Length  int64
	Body    string
	Kept    bool // the connection may be used again
	Failure string
}

// read sends one request and reads reply, step bytes at a time (0: all), with
// a buffer of the given size.
func read(t testing.TB, method, reply string, step, size int) (result, *memory) {
	m := &memory{in: strings.NewReader(reply), step: step}
	c := offline(t, m)
	r, err := c.Send(t.Context(), new(origin(t, "http://h:1")), &wire.Call{Method: method, Path: "/"}, Timeouts{})
	if err != nil {
		return result{Failure: failure(err)}, m
	}
	got := result{Status: r.Status, Length: r.Length}
	buf := make([]byte, size)
	var body []byte
	for err == nil {
		var n int
		n, err = r.Read(buf)
		body = append(body, buf[:n]...)
	}
	if err != io.EOF {
		got.Failure = failure(err)
	}
	r.Close()
	got.Body, got.Kept = string(body), idleCount(c) == 1
	return got, m
}

func failure(err error) string {
	for _, class := range []error{ErrProtocol, ErrTimeout, ErrReset, ErrConnect} {
		if errors.Is(err, class) {
			return class.Error()
		}
	}
	return err.Error()
}

var (
	malformed = ErrProtocol.Error()
	broken    = ErrReset.Error()
)

const chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

var replies = []struct {
	name, reply string
	want        result
}{
	{"fixed length", ok, result{200, 2, "ok", true, ""}},
	{"no reason", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", result{200, 2, "ok", true, ""}},
	{"bare LF in head", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", result{200, 2, "ok", true, ""}},
	{"mixed line ends", "HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok", result{200, 2, "ok", true, ""}},
	{"same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nok", result{200, 2, "ok", true, ""}},
	{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", result{200, 0, "", true, ""}},
	{"204", "HTTP/1.1 204 No Content\r\n\r\n", result{204, 0, "", true, ""}},
	{"304 with length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", result{304, 0, "", true, ""}},
	{"closing", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: foo, Close\r\n\r\nok", result{200, 2, "ok", false, ""}},
	{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", result{200, 2, "ok", false, ""}},
	{"HTTP/1.0 kept", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: Keep-Alive\r\n\r\nok", result{200, 2, "ok", true, ""}},
	{"until close", "HTTP/1.1 200 OK\r\n\r\nuntil the end", result{200, -1, "until the end", false, ""}},
	{"bytes after the body", ok + "HTTP/1.1 200 OK\r\n", result{200, 2, "ok", false, ""}},
	{"bytes after 204", "HTTP/1.1 204 No Content\r\n\r\nx", result{204, 0, "", false, ""}},
	{"interim replies", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, result{200, 2, "ok", true, ""}},
	{"interim only", "HTTP/1.1 100 Continue\r\n\r\n", result{Failure: broken}},
	{"endless interim replies", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 9) + ok, result{Failure: malformed}},
	{"switching protocols", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", result{Failure: malformed}},
	{"padded value", "HTTP/1.1 200 OK\r\nContent-Length: \t2 \r\n\r\nok", result{200, 2, "ok", true, ""}},

	{"chunks", chunkedHead + "2\r\nok\r\n3\r\nay!\r\n0\r\n\r\n", result{200, -1, "okay!", true, ""}},
	{"no chunks", chunkedHead + "0\r\n\r\n", result{200, -1, "", true, ""}},
	{"extensions", chunkedHead + "2;a=\"b\"\r\nok\r\n0 ;x\r\n\r\n", result{200, -1, "ok", true, ""}},
	{"padded size", chunkedHead + "2  \r\nok\r\n0\t\r\n\r\n", result{200, -1, "ok", true, ""}},
	{"upper case size", chunkedHead + "0A\r\n0123456789\r\n0\r\n\r\n", result{200, -1, "0123456789", true, ""}},
	{"trailers", chunkedHead + "2\r\nok\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n", result{200, -1, "ok", true, ""}},
	{"bytes after chunks", chunkedHead + "2\r\nok\r\n0\r\n\r\nH", result{200, -1, "ok", false, ""}},
	{"chunks and length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", result{200, -1, "ok", false, ""}},
	{"chunk lines of LF", chunkedHead + "2\nok\r\n0\r\n\r\n", result{200, -1, "", false, malformed}},
	{"LF after a chunk", chunkedHead + "2\r\nok\n0\r\n\r\n", result{200, -1, "ok", false, malformed}},
	{"CR in a chunk line", chunkedHead + "2;\rx\r\nok\r\n0\r\n\r\n", result{200, -1, "", false, malformed}},
	{"long chunk", chunkedHead + "2\r\nokay\r\n0\r\n\r\n", result{200, -1, "ok", false, malformed}},
	{"no size", chunkedHead + "\r\nok\r\n", result{200, -1, "", false, malformed}},
	{"negative size", chunkedHead + "-2\r\nok\r\n", result{200, -1, "", false, malformed}},
	{"prefixed size", chunkedHead + "0x2\r\nok\r\n", result{200, -1, "", false, malformed}},
	{"huge size", chunkedHead + "1000000000000000\r\nok\r\n", result{200, -1, "", false, malformed}},
	{"long chunk line", chunkedHead + "2;" + strings.Repeat("x", 2<<10) + "\r\nok\r\n", result{200, -1, "", false, malformed}},
	{"many extensions", chunkedHead + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 17), result{200, -1, strings.Repeat("a", 16), false, malformed}},
	{"many trailers", chunkedHead + "0\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 17) + "\r\n", result{200, -1, "", false, malformed}},
	{"cut in a chunk", chunkedHead + "5\r\nok", result{200, -1, "ok", false, broken}},
	{"cut after a chunk", chunkedHead + "2\r\nok\r\n", result{200, -1, "ok", false, broken}},
	{"cut before the last CRLF", chunkedHead + "2\r\nok\r\n0\r\n", result{200, -1, "ok", false, broken}},
	{"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", result{200, 3, "ok", false, broken}},

	{"nothing", "", result{Failure: broken}},
	{"cut head", "HTTP/1.1 200 OK\r\nContent-Le", result{Failure: broken}},
	{"empty line first", "\r\n" + ok, result{Failure: malformed}},
	{"not HTTP", "220 mail.example ESMTP\r\n\r\n", result{Failure: malformed}},
	{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", result{Failure: malformed}},
	{"HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n", result{Failure: malformed}},
	{"short status", "HTTP/1.1 20 OK\r\n\r\n", result{Failure: malformed}},
	{"long status", "HTTP/1.1 2000 OK\r\n\r\n", result{Failure: malformed}},
	{"status 099", "HTTP/1.1 099 OK\r\n\r\n", result{Failure: malformed}},
	{"signed status", "HTTP/1.1 +20 OK\r\n\r\n", result{Failure: malformed}},
	{"NUL in reason", "HTTP/1.1 200 O\x00\r\n\r\n", result{Failure: malformed}},
	{"folded line", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok", result{Failure: malformed}},
	{"space before colon", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok", result{Failure: malformed}},
	{"no colon", "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\nok", result{Failure: malformed}},
	{"no name", "HTTP/1.1 200 OK\r\n: x\r\n\r\nok", result{Failure: malformed}},
	{"CR in value", "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\nok", result{Failure: malformed}},
	{"NUL in value", "HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\nok", result{Failure: malformed}},
	{"conflicting lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", result{Failure: malformed}},
	{"list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", result{Failure: malformed}},
	{"signed length", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", result{Failure: malformed}},
	{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", result{Failure: malformed}},
	{"empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok", result{Failure: malformed}},
	{"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nok", result{Failure: malformed}},
	{"packed transfer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", result{Failure: malformed}},
	{"chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", result{Failure: malformed}},
	{"chunked HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", result{Failure: malformed}},
	{"200 fields", "HTTP/1.1 204 OK\r\n" + strings.Repeat("X: y\r\n", 200) + "\r\n", result{204, 0, "", true, ""}},
	{"201 fields", "HTTP/1.1 204 OK\r\n" + strings.Repeat("X: y\r\n", 201) + "\r\n", result{Failure: malformed}},
	{"long head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", maxHead-200) + "\r\nContent-Length: 2\r\n\r\nok", result{200, 2, "ok", true, ""}},
	{"too long head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", maxHead) + "\r\n\r\n", result{Failure: malformed}},
}

func TestReplies(t *testing.T) {
	t.Parallel()
	for _, tt := range replies {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := read(t, "POST", tt.reply, 0, 32<<10)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// However the bytes of a reply are cut into packets, and however the caller
// reads them, the result is the same.
func TestRepliesInPieces(t *testing.T) {
	t.Parallel()
	for _, tt := range replies {
		steps := []int{1, 2, 3, 5, 7, 64, 1000}
		if len(tt.reply) < 200 {
			steps = steps[:0]
			for n := range len(tt.reply) {
				steps = append(steps, n+1)
			}
		}
		for _, step := range steps {
			for _, size := range []int{1, 3, 512, 8192} {
				got, _ := read(t, "POST", tt.reply, step, size)
				// Unread bytes are noticed when they came with the last of the
				// reply; those that come later are the probe's to find.
				if strings.HasPrefix(tt.name, "bytes after") {
					got.Kept = false
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s, %d at a time into %d: %s", tt.name, step, size, diff)
				}
			}
		}
	}
}

// A reply split in two at every position, over a real socket.
func TestReplySplitAnywhere(t *testing.T) {
	t.Parallel()
	const reply = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nok\r\n3\r\nay!\r\n0\r\nT: x\r\n\r\n"
	to := backend(t, func(p *peer) {
		for {
			at, ok := p.request()
			if !ok {
				return
			}
			n, _ := strconv.Atoi(at)
			p.say(reply[:n])
			p.say(reply[n:])
		}
	})
	c := client(t, Options{})
	for n := range len(reply) {
		if _, body := mustAsk(t, c, to, post(strconv.Itoa(n))); body != "okay!" {
			t.Errorf("split at %d: %q", n, body)
		}
	}
}

func TestHeadRequestHasNoBody(t *testing.T) {
	t.Parallel()
	got, m := read(t, "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", 0, 10)
	if want := (result{200, 0, "", true, ""}); got != want || m.in.Len() > 0 {
		t.Errorf("got %+v", got)
	}
}

func TestHeaderFindsFieldsInAnyCase(t *testing.T) {
	m := &memory{in: strings.NewReader("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\nX-A:  one \r\nx-a: two\r\nEmpty:\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b")}
	r, body := mustAsk(t, offline(t, m), origin(t, "http://h"), post())
	if body != "\x1f\x8b" {
		t.Errorf("packed body was changed: %q", body)
	}
	for name, want := range map[string]string{
		"content-type": "text/event-stream", "CONTENT-ENCODING": "gzip", "X-a": "one", "empty": "", "missing": "", "Content": "", "HTTP/1.1 200 OK": "",
	} {
		if got := r.Header(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { r.Header("content-encoding") }); n > 0 {
		t.Errorf("looking up a field takes %v allocations", n)
	}
}

// A burst of events that has come is delivered in one read.
func TestChunksAreDeliveredTogether(t *testing.T) {
	t.Parallel()
	m := &memory{in: strings.NewReader(chunkedHead + strings.Repeat(chunk("data: x\n\n"), 50) + "0\r\n\r\n")}
	r, err := offline(t, m).Send(t.Context(), new(origin(t, "http://h")), post(), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n, err := r.Read(make([]byte, 4096))
	if n != 450 || err != nil {
		t.Errorf("first read gave %d, %v", n, err)
	}
}

// Where net/http accepts a reply of the table too, both read the same.
func TestRepliesAsNetHTTP(t *testing.T) {
	t.Parallel()
	for _, tt := range replies {
		compare(t, tt.name, tt.reply)
	}
}

// compare reads a reply with net/http and with us and returns whether we took
// it.
func compare(t testing.TB, name, reply string) bool {
	ours, m := read(t, "POST", reply, 0, 700)
	source := strings.NewReader(reply)
	in := bufio.NewReader(source)
	theirs, body, theirErr := readStandard(in)
	if ours.Failure != "" || theirErr != nil {
		return ours.Failure == ""
	}
	if theirs.StatusCode != ours.Status || body != ours.Body {
		t.Errorf("%s: net/http read %d %q, we %d %q", name, theirs.StatusCode, body, ours.Status, ours.Body)
	}
	if rest := in.Buffered() + source.Len(); ours.Kept && m.in.Len() != rest {
		t.Errorf("%s: connection kept with %d bytes to come, net/http left %d", name, m.in.Len(), rest)
	}
	if ours.Kept && theirs.Close {
		t.Errorf("%s: connection kept although net/http closes it", name)
	}
	return true
}

func readStandard(in *bufio.Reader) (*http.Response, string, error) {
	for {
		r, err := http.ReadResponse(in, &http.Request{Method: "POST"})
		if err != nil {
			return nil, "", err
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, "", err
		}
		if r.StatusCode >= 200 {
			return r, string(body), nil
		}
	}
}
