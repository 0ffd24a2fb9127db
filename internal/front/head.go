package front

import (
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/wire"
)

// head is what the head of a request says, in parts of its text. It is used again for the
// next request.
type head struct {
	text   string // the whole head
	method string
	target string // as it was sent
	path   string // of the target, without its query
	query  string
	host   string
	length int64 // of the body
	close  bool  // the client ends the connection with this request
	fields []field
}

// field is one field of a head.
type field struct{ name, value string }

// verdict is what becomes of a request.
type verdict uint8

const (
	serve  verdict = iota // it is answered here
	pass                  // it goes to net/http
	refuse                // it could be read in two ways
)

// maxFields is how many fields the head of a request that is served here has at
// most; real ones have about twenty.
const maxFields = 100

// parsing is the state of parsing one head.
type parsing struct {
	lengths, encodings, hosts int
	minor                     byte // of the HTTP version
	unusual                   bool
	flaw                      string // what the client is told if the head is not valid, else empty
}

// reset forgets what the head said.
func (h *head) reset() {
	clear(h.fields)
	*h = head{fields: h.fields[:0]}
}

// parse reads a head that is complete. What it serves it has understood fully and
// strictly, as net/http would.
func (h *head) parse(text string) (verdict, Refusal) {
	*h = head{text: text, fields: h.fields[:0]}
	p := parsing{}
	line, rest := p.line(text)
	if !h.parseRequestLine(line, &p) {
		return pass, Refusal{} // net/http knows what is wrong with it
	}
	for {
		line, rest = p.line(rest)
		if line == "" {
			break
		}
		h.parseField(line, &p)
	}
	switch {
	case p.encodings > 0 && p.lengths > 0:
		return refuse, Refusal{Status: http.StatusBadRequest, Framing: true, Message: TwoLengths}
	case p.encodings > 0 && p.minor == '0':
		return refuse, Refusal{Status: http.StatusBadRequest, Framing: true, Message: ChunkedHTTP10}
	case p.flaw != "":
		return refuse, Refusal{Status: http.StatusBadRequest, Message: p.flaw}
	case p.unusual, p.encodings > 0, p.hosts != 1, p.minor != '1', len(h.fields) > maxFields:
		return pass, Refusal{}
	}
	return serve, Refusal{}
}

// line returns the first line of a text without its end, and what follows it.
func (p *parsing) line(text string) (line, rest string) {
	end := strings.IndexByte(text, '\n')
	if end < 0 {
		return "", ""
	}
	line, rest = text[:end], text[end+1:]
	if line == "" || line[len(line)-1] != '\r' {
		p.fail(BareLineFeed)
		return line, rest
	}
	return line[:len(line)-1], rest
}

// fail notes why a head is not valid. The first reason counts.
func (p *parsing) fail(flaw string) {
	if p.flaw == "" {
		p.flaw = flaw
	}
}

// parseRequestLine reads the first line of a head. False means that it is not that
// of an ordinary request.
func (h *head) parseRequestLine(line string, p *parsing) bool {
	const version = " HTTP/1."
	space := strings.IndexByte(line, ' ')
	end := len(line) - len(version) - 1
	if space <= 0 || end <= space+1 || line[end:len(line)-1] != version {
		return false
	}
	h.method, h.target, p.minor = line[:space], line[space+1:end], line[len(line)-1]
	if !wire.IsToken(h.method) || h.target[0] != '/' || strings.HasPrefix(h.target, "//") || !wire.IsVisible(h.target) || p.minor != '0' && p.minor != '1' {
		return false
	}
	h.path, h.query, _ = strings.Cut(h.target, "?")
	// Escapes, fragments and empty queries are for net/http to read.
	p.unusual = strings.IndexByte(h.target, '%') >= 0 || strings.IndexByte(h.target, '#') >= 0 || strings.HasSuffix(h.target, "?")
	return true
}

// parseField reads one field.
func (h *head) parseField(line string, p *parsing) {
	if line[0] == ' ' || line[0] == '\t' {
		p.unusual = true // the value of the field before goes on
		return
	}
	colon := strings.IndexByte(line, ':')
	if colon < 0 {
		p.unusual = true // net/http refuses it
		return
	}
	name, value := line[:colon], trimBlanks(line[colon+1:])
	if !wire.IsToken(name) {
		p.fail("The request is not valid HTTP: the name of a field has a space or another character that is not allowed.")
		return
	}
	if !wire.IsText(value) {
		p.fail("The request is not valid HTTP: the value of a field has a control character.")
		return
	}
	h.note(name, value, p)
	if len(h.fields) <= maxFields {
		h.fields = append(h.fields, field{name, value})
	}
}

// note looks at the fields on which the framing of a request depends.
func (h *head) note(name, value string, p *parsing) {
	switch len(name) {
	case len("Host"):
		if strings.EqualFold(name, "Host") {
			p.hosts++
			h.host = value
			p.unusual = p.unusual || !isPlainHost(value)
		}
	case len("Expect"), len("Upgrade"):
		p.unusual = p.unusual || strings.EqualFold(name, "Expect") || strings.EqualFold(name, "Upgrade") ||
			strings.EqualFold(name, "Trailer") || strings.EqualFold(name, "Pragma")
	case len("Connection"):
		if strings.EqualFold(name, "Connection") {
			h.close = h.close || strings.EqualFold(value, "close")
			p.unusual = p.unusual || !strings.EqualFold(value, "close") && !strings.EqualFold(value, "keep-alive")
		}
	case len("Content-Length"):
		if !strings.EqualFold(name, "Content-Length") {
			return
		}
		if p.lengths++; p.lengths > 1 {
			p.fail(RepeatedLength)
		}
		length, ok := wire.ParseLength(value)
		h.length = length
		p.unusual = p.unusual || !ok
	case len("Transfer-Encoding"):
		if strings.EqualFold(name, "Transfer-Encoding") {
			p.encodings++
		}
	}
}

func trimBlanks(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// isPlainHost tells whether s is a name or an address, with or without a port. What
// else a host may be is for net/http to read.
func isPlainHost(s string) bool {
	for i := range len(s) {
		c := s[i]
		isLetter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !isLetter && (c < '-' || c > ':' || c == '/') && c != '_' && c != '[' && c != ']' {
			return false
		}
	}
	return s != ""
}
