package front

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/wire"
)

// Refusal says why a request is not served.
type Refusal struct {
	Status int
	// Framing says that another server could take the request for a different one,
	// because the end of its body is not clear.
	Framing bool
	Message string
}

// Why a request is refused that another server could take for a different one.
const (
	twoLengths     = "The request has both Content-Length and Transfer-Encoding."
	chunkedHTTP10  = "The request has Transfer-Encoding, which HTTP/1.0 does not know."
	bareLineFeed   = "The request is not valid HTTP: a line ends without a carriage return."
	repeatedLength = "The request is not valid HTTP: it has two lengths."
)

// head parses the head of one request into the request that the handler gets. It reads
// what net/http would read, or is stricter; differences_test.go has the table of where it
// is. Each text of the request is a copy, or well known: an id or a name that is kept for
// longer than the request must not keep the whole head in memory.
type head struct {
	known   *knownTexts
	request *http.Request
	values  []string // room for the values of fields
	refusal Refusal  // the first one; its status is 0 if there is none

	lengths, encodings, hosts int
	close, keepAlive          bool // what the fields named Connection say
	continues                 bool // the client waits for a go-ahead before it sends the body
}

// parse reads a head that is complete, with the empty line at its end. False means that
// the request is refused.
func (h *head) parse(text []byte) bool {
	line, rest := h.line(text)
	h.request.Header = make(http.Header, max(0, bytes.Count(rest, []byte("\n"))-1))
	h.requestLine(line)
	for {
		if line, rest = h.line(rest); len(line) == 0 {
			break
		}
		h.field(line)
	}
	if h.encodings > 0 && (h.lengths > 0 || h.request.ProtoMinor == 0) {
		h.refusal = Refusal{Status: http.StatusBadRequest, Framing: true, Message: twoLengths}
		if h.lengths == 0 {
			h.refusal.Message = chunkedHTTP10
		}
	}
	if h.refusal.Status == 0 {
		h.conclude()
	}
	return h.refusal.Status == 0
}

// line returns the first line of a text without its end, and what follows it.
func (h *head) line(text []byte) (line, rest []byte) {
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		return nil, nil
	}
	line, rest = text[:end], text[end+1:]
	if end == 0 || line[end-1] != '\r' {
		h.refuse(http.StatusBadRequest, bareLineFeed)
		return line, rest
	}
	return line[:end-1], rest
}

// refuse notes why the request is not served. The first reason counts.
func (h *head) refuse(status int, message string) {
	if h.refusal.Status == 0 {
		h.refusal = Refusal{Status: status, Message: message}
	}
}

// malformed refuses the request because of something that is not valid.
func (h *head) malformed(what string) {
	h.refuse(http.StatusBadRequest, "The request is not valid HTTP: "+what+".")
}

// requestLine reads the first line.
func (h *head) requestLine(line []byte) {
	r := h.request
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, version, _ := bytes.Cut(rest, []byte(" "))
	switch string(version) {
	case "HTTP/1.1":
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	case "HTTP/1.0":
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0
	default:
		if len(version) == len("HTTP/1.1") && bytes.HasPrefix(version, []byte("HTTP/")) && version[6] == '.' {
			h.refuse(http.StatusHTTPVersionNotSupported, "This address speaks HTTP/1.1; the request has another version.")
		}
		h.malformed("its first line is not METHOD TARGET HTTP/1.1")
		return
	}
	if !wire.IsToken(method) {
		h.malformed("its method has a character that is not allowed")
		return
	}
	r.Method, r.RequestURI = h.known.value(method), h.known.value(target)
	h.target()
}

// target reads the target of the request.
func (h *head) target() {
	r := h.request
	if isPlainTarget(r.RequestURI) {
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(r.RequestURI, "?")
		return
	}
	text := r.RequestURI
	isAuthority := r.Method == http.MethodConnect && !strings.HasPrefix(text, "/")
	if isAuthority {
		text = "http://" + text // which has no meaning, and is taken away again
	}
	parsed, err := url.ParseRequestURI(text)
	if err != nil {
		h.malformed("its target is not valid")
		return
	}
	if r.URL = parsed; isAuthority {
		r.URL.Scheme = ""
	}
}

// isPlainTarget reports whether a target is a path, perhaps with a query, in which nothing
// needs an escape.
func isPlainTarget(target string) bool {
	if target == "" || target[0] != '/' {
		return false
	}
	for i := range len(target) {
		switch c := target[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '-' <= c && c <= ';', c == '_':
		case c == '?':
			query := target[i+1:]
			return query != "" && wire.IsVisible(query)
		default:
			return false
		}
	}
	return true
}

// field reads one field.
func (h *head) field(line []byte) {
	colon := bytes.IndexByte(line, ':')
	switch {
	case line[0] == ' ' || line[0] == '\t':
		h.malformed("a field goes on in the next line")
		return
	case colon < 0:
		h.malformed("a line of its head has no colon")
		return
	}
	name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
	if !wire.IsToken(name) {
		h.malformed("the name of a field has a space or another character that is not allowed")
		return
	}
	if !wire.IsText(value) {
		h.malformed("the value of a field has a control character")
		return
	}
	h.add(h.known.name(name), h.known.value(value))
}

// add adds a field, and looks at those that are about the connection and the body.
func (h *head) add(name, value string) {
	r := h.request
	switch name {
	case "Host":
		if h.hosts++; h.hosts > 1 {
			h.malformed("it has two hosts")
		} else if !isHost(value) {
			h.malformed("its host has a character that is not allowed")
		}
		r.Host = value
		return
	case "Connection":
		h.close = h.close || hasElement(value, "close")
		h.keepAlive = h.keepAlive || hasElement(value, "keep-alive")
	case "Content-Length":
		var ok bool
		if r.ContentLength, ok = wire.ParseLength(value); !ok {
			h.malformed("its length is not a number")
		}
		if h.lengths++; h.lengths > 1 {
			h.refuse(http.StatusBadRequest, repeatedLength)
		}
	case "Transfer-Encoding":
		if h.encodings++; h.encodings > 1 || !strings.EqualFold(value, "chunked") {
			h.refuse(http.StatusNotImplemented, "The only Transfer-Encoding of a request is chunked, once.")
		}
		return
	case "Expect":
		if h.continues = hasElement(value, "100-continue"); !h.continues && value != "" {
			h.refuse(http.StatusExpectationFailed, "The only expectation of a request is 100-continue.")
		}
	}
	if given := r.Header[name]; given != nil {
		r.Header[name] = append(given, value)
		return
	}
	n := len(h.values)
	h.values = append(h.values, value)
	r.Header[name] = h.values[n : n+1 : n+1]
}

// conclude completes a request from all of its fields.
func (h *head) conclude() {
	r := h.request
	isHTTP10 := r.ProtoMinor == 0
	if h.hosts == 0 && !isHTTP10 && r.Method != http.MethodConnect {
		h.malformed("it has no host")
	}
	if r.URL.Host != "" { // an absolute target
		r.Host = r.URL.Host
	}
	r.Close = h.close || isHTTP10 && !h.keepAlive
	if h.encodings > 0 {
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
		for _, names := range r.Header["Trailer"] {
			if hasElement(names, "Transfer-Encoding") || hasElement(names, "Content-Length") || hasElement(names, "Trailer") {
				h.malformed("a trailer must not have this name")
			}
		}
		delete(r.Header, "Trailer") // trailers are read, and left out
	}
	if pragma := r.Header["Pragma"]; len(pragma) > 0 && pragma[0] == "no-cache" && r.Header["Cache-Control"] == nil {
		r.Header["Cache-Control"] = []string{"no-cache"} // which is what HTTP/1.0 had for it
	}
	h.continues = h.continues && !isHTTP10 && r.ContentLength != 0
}

// hasElement reports whether a list that is separated by commas has an element.
func hasElement(list, element string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(one, " \t"), element) {
			return true
		}
	}
	return false
}

// isHost reports whether a text has only the characters of a host with a port.
func isHost(text string) bool {
	for i := range len(text) {
		c := text[i]
		isLetter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !isLetter && (c < '$' || c > ';' || c == '/') && strings.IndexByte("!=[]_~", c) < 0 {
			return false
		}
	}
	return true
}
