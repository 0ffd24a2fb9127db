package transport

import (
	"bytes"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

const (
	// maxHead and maxFields bound the memory for one reply; real heads stay below 4 KiB
	// and 40 fields.
	maxHead   = 64 << 10
	maxFields = 200
	// maxInterim bounds the 1xx replies before the final one. None is asked for and a
	// few are legal; a backend that sends more may never send the final one.
	maxInterim = 8
)

// readHead reads interim replies and the head of the final one.
func (r *Response) readHead(method string) error {
	if r.writeErr != nil && r.ctx.Err() != nil {
		return r.writeErr
	}
	for range maxInterim + 1 {
		raw, err := r.nextHead()
		if err != nil {
			return err
		}
		r.conn.r += len(raw)
		h, err := parseHead(raw)
		if err != nil {
			return err
		}
		if h.status == 101 {
			return flaw("reply switches protocols")
		}
		if h.status < 200 {
			continue
		}
		r.head, r.Status = append(r.head[:0], raw...), h.status
		r.keep = h.keepAlive() && r.writeErr == nil
		r.lasts, r.Encoding = h.lasts, h.encoding
		r.body.begin(h, method)
		r.Length = r.body.length()
		if r.body.framing == untilClose {
			r.keep = false
		}
		return nil
	}
	return flaw("too many interim replies")
}

// nextHead reads until the buffer starts with a whole head and returns it. It
// is valid until the next read and not consumed.
func (r *Response) nextHead() ([]byte, error) {
	c := r.conn
	line, from := 0, 0 // where the current line starts, where to search on
	for {
		b := c.buffered()
		for {
			i := bytes.IndexByte(b[from:], '\n')
			if i < 0 {
				from = len(b)
				break
			}
			end := from + i
			if end == line || end == line+1 && b[line] == '\r' {
				return b[:end+1], nil
			}
			line, from = end+1, end+1
		}
		if len(b) >= maxHead {
			return nil, errHeadTooLong
		}
		if len(b) > 0 && len(b) == len(c.buf) {
			c.grow()
		}
		if err := r.fillHead(); err != nil {
			return nil, err
		}
	}
}

// fillHead reads once. While a long request is still leaving, the time limit for
// the begin of its reply has not started.
func (r *Response) fillHead() error {
	for {
		due := r.headDue()
		err := r.conn.fill(due)
		if err == nil || !expired(err) || !r.headDue().After(due) {
			return err
		}
	}
}

// headDue is the end of the wait for the head; zero means never.
func (r *Response) headDue() time.Time {
	switch {
	case r.writeErr != nil:
		return r.sentAt.Add(earlyReply)
	case r.up == nil:
		return after(r.sentAt, r.limits.FirstByte)
	case r.up.finished():
		return after(r.up.endedAt, r.limits.FirstByte)
	}
	return after(time.Now(), r.limits.FirstByte)
}

// head holds the fields that decide the framing of a reply.
type head struct {
	status  int
	minor   byte  // of the HTTP version: '0' or '1'
	length  int64 // of the body; -1: not given
	chunked bool
	close   bool // "Connection: close"
	stay    bool // "Connection: keep-alive"
	// lasts is how long an idle connection may be used, by "Keep-Alive:
	// timeout="; below zero: not given.
	lasts    time.Duration
	encoding string // of the body, as the first "Content-Encoding" has it
}

// keepAlive reports whether the backend leaves the connection open. A reply
// with two framings is read by the stronger one, but a backend that sends such
// a thing is not trusted with another request.
func (h *head) keepAlive() bool {
	if h.close || h.chunked && h.length >= 0 {
		return false
	}
	return h.minor == '1' || h.stay
}

// parseHead checks every line of a head. Lines may end in LF alone; folded
// lines, space around names and control characters are refused, because others
// read them in different ways.
func parseHead(text []byte) (head, error) {
	h := head{length: -1, lasts: -1}
	line, rest := cutLine(text)
	if !h.parseStatus(line) {
		return h, flaw("malformed status line")
	}
	for n := 0; ; n++ {
		if line, rest = cutLine(rest); len(line) == 0 {
			break
		}
		if n == maxFields {
			return h, errTooManyFields
		}
		colon := bytes.IndexByte(line, ':')
		if colon < 0 || !wire.IsToken(line[:colon]) {
			return h, flaw("malformed field name")
		}
		value := wire.TrimBlanks(line[colon+1:])
		if !wire.IsText(value) {
			return h, flaw("malformed field value")
		}
		if err := h.field(line[:colon], value); err != nil {
			return h, err
		}
	}
	if h.chunked && h.minor == '0' {
		return h, flaw("chunked reply in HTTP/1.0")
	}
	return h, nil
}

// parseStatus parses "HTTP/1.x NNN[ reason]".
func (h *head) parseStatus(line []byte) bool {
	const version = "HTTP/1."
	if len(line) < len("HTTP/1.1 200") || string(line[:len(version)]) != version || line[8] != ' ' {
		return false
	}
	if len(line) > 12 && line[12] != ' ' || !wire.IsText(line) {
		return false
	}
	h.minor = line[7]
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return false
		}
		h.status = 10*h.status + int(c-'0')
	}
	return h.status >= 100 && (h.minor == '0' || h.minor == '1')
}

func (h *head) field(name, value []byte) error {
	switch {
	case wire.IsNamed(name, "connection"):
		h.connection(string(value))
	case wire.IsNamed(name, "keep-alive"):
		h.keepAliveFor(string(value))
	case wire.IsNamed(name, "content-length"):
		n, ok := wire.ParseLength(value)
		if !ok || h.length >= 0 && h.length != n {
			return flaw("malformed or conflicting content length")
		}
		h.length = n
	case h.encoding == "" && wire.IsNamed(name, "content-encoding"):
		h.encoding = ownText(value)
	case wire.IsNamed(name, "transfer-encoding"):
		if h.chunked || !wire.IsNamed(value, "chunked") {
			return flaw("unknown transfer encoding")
		}
		h.chunked = true
	}
	return nil
}

func (h *head) connection(value string) {
	for option := range strings.SplitSeq(value, ",") {
		option = wire.TrimBlanks(option)
		h.close = h.close || strings.EqualFold(option, "close")
		h.stay = h.stay || strings.EqualFold(option, "keep-alive")
	}
}

// maxKeepAlive bounds how long a connection is kept, whatever the backend says.
const maxKeepAlive = 2 * time.Minute

// keepAliveFor reads how long the backend leaves an idle connection open. It is
// used for a second less, or half of the time where that is short: a request
// must have arrived before the backend closes.
func (h *head) keepAliveFor(value string) {
	for option := range strings.SplitSeq(value, ",") {
		name, seconds, _ := strings.Cut(option, "=")
		if !strings.EqualFold(wire.TrimBlanks(name), "timeout") {
			continue
		}
		if n, ok := wire.ParseLength(wire.TrimBlanks(seconds)); ok {
			said := time.Duration(min(n, int64(maxKeepAlive/time.Second))) * time.Second
			h.lasts = max(said-time.Second, said/2)
		}
	}
}

// cutLine returns the first line of a head without its end, and the lines after it.
func cutLine(text []byte) (line, rest []byte) {
	line = text
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		line, rest = text[:end], text[end+1:]
	}
	if last := len(line) - 1; last >= 0 && line[last] == '\r' {
		line = line[:last]
	}
	return line, rest
}
