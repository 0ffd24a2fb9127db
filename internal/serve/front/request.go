package front

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

// exchange holds everything a handler gets for one request, beside the headers. It is made in one
// piece and never used again.
type exchange struct {
	request  http.Request
	ctx      requestContext
	body     body
	response response
	url      url.URL
	values   [7]string // of headers, where there are so few
}

// newExchange parses a head and returns the exchange for its handler, or the reason to refuse the
// request.
func (c *conn) newExchange(text []byte) (*exchange, Refusal) {
	x := &exchange{ctx: requestContext{Context: c.server.options.Base, calling: &c.server.serving}}
	x.request = *c.server.blank.WithContext(&x.ctx)
	r := &x.request
	r.URL = &x.url
	h := head{known: &c.server.known, request: r, values: x.values[:0]}
	if !h.parse(text) {
		return nil, h.refusal
	}
	r.RemoteAddr, r.TLS = c.remote, c.tls
	x.body = body{conn: c, left: max(0, r.ContentLength), isChunked: r.ContentLength < 0, ended: r.ContentLength == 0,
		continues: h.continues}
	r.Body = http.NoBody
	if !x.body.ended {
		r.Body = &x.body
	}
	x.response = response{
		conn: c, header: make(http.Header), isHTTP10: r.ProtoMinor == 0, isHead: r.Method == http.MethodHead,
		close: r.Close,
	}
	return x, Refusal{}
}

// knownTexts are texts that occur in many heads. They need not be copied.
type knownTexts struct {
	names  map[string]string // names of fields by how clients write them
	values map[string]string // other texts
}

func newKnownTexts() knownTexts {
	k := knownTexts{make(map[string]string), make(map[string]string)}
	for _, name := range [...]string{
		"Accept", "Accept-Encoding", "Accept-Language", "Anthropic-Beta", "Anthropic-Version", "Authorization",
		"Cache-Control", "Connection",
		"Content-Length", "Content-Type", "Cookie", "Forwarded", "Host", "Idempotency-Key", "Origin", "Referer",
		"Traceparent", "Tracestate",
		"User-Agent", "X-Api-Key", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip",
		"X-Request-Id",
		"X-Stainless-Arch", "X-Stainless-Async", "X-Stainless-Helper-Method", "X-Stainless-Lang", "X-Stainless-Os",
		"X-Stainless-Package-Version",
		"X-Stainless-Read-Timeout", "X-Stainless-Retry-Count", "X-Stainless-Runtime", "X-Stainless-Runtime-Version",
		"X-Stainless-Timeout",
	} {
		k.names[name], k.names[strings.ToLower(name)] = name, name
	}
	for _, value := range [...]string{
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "/v1/chat/completions", "/v1/completions",
		"/v1/embeddings", "/v1/messages",
		"/v1/models", "/v1/rerank", "/v1/responses", "*/*", "application/json", "application/json, text/event-stream",
		"text/event-stream",
		"close", "keep-alive", "gzip", "gzip, deflate", "gzip, deflate, br", "gzip, deflate, br, zstd", "identity",
		"no-cache", "2023-06-01",
		"false", "true", "0", "600", "python", "js", "node", "Linux", "MacOS", "x64", "arm64", "CPython",
	} {
		k.values[value] = value
	}
	return k
}

// value returns a text without memory of the head.
func (k *knownTexts) value(text []byte) string {
	const longest = 40 // longest known text
	if len(text) <= longest {
		if value, ok := k.values[string(text)]; ok {
			return value
		}
	}
	return string(text)
}

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

// head parses the head of one request into the request for the handler. It accepts the same heads
// as net/http, or fewer; differences_test.go has the table of differences. Each text of the
// request is a copy, or well known: an id or a name that is kept for longer than the request must
// not keep the whole head in memory.
type head struct {
	known   *knownTexts
	request *http.Request
	values  []string // room for the values of fields
	refusal Refusal  // the first one; its status is 0 if there is none

	lengths, encodings, hosts int
	close, keepAlive          bool // from the fields named Connection
	continues                 bool // the client waits for a go-ahead before it sends the body
}

// parse reads a head that is complete, with the empty line at its end. False means that
// the request is refused.
func (h *head) parse(text []byte) bool {
	line, rest := h.line(text)
	fields := max(0, bytes.Count(rest, []byte("\n"))-1)
	h.request.Header = make(http.Header, fields)
	if fields > cap(h.values) {
		h.values = make([]string, 0, fields)
	}
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

// line returns the first line of a text without its end, and the text behind it.
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
			h.refuse(http.StatusHTTPVersionNotSupported,
				"This address speaks HTTP/1.1; the request has another version.")
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

// isPlainTarget reports whether a target is a path, perhaps with a query, and nothing in it needs
// an escape.
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
	name, isKnown := h.known.names[string(line[:colon])]
	if !isKnown {
		if !wire.IsToken(line[:colon]) {
			h.malformed("the name of a field has a space or another character that is not allowed")
			return
		}
		name = http.CanonicalHeaderKey(string(line[:colon]))
	}
	value := wire.TrimBlanks(line[colon+1:])
	if !wire.IsText(value) {
		h.malformed("the value of a field has a control character")
		return
	}
	h.add(name, h.known.value(value))
}

// add adds a field, and interprets the fields about the connection and the body.
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
			if hasElement(names, "Transfer-Encoding") || hasElement(names, "Content-Length") ||
				hasElement(names, "Trailer") {
				h.malformed("a trailer must not have this name")
			}
		}
		delete(r.Header, "Trailer") // trailers are read, and left out
	}
	if pragma := r.Header["Pragma"]; len(pragma) > 0 && pragma[0] == "no-cache" && r.Header["Cache-Control"] == nil {
		r.Header["Cache-Control"] = []string{"no-cache"} // the same thing in HTTP/1.0
	}
	h.continues = h.continues && !isHTTP10 && r.ContentLength != 0
}

// hasElement reports whether a list that is separated by commas has an element.
func hasElement(list, element string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(wire.TrimBlanks(one), element) {
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

// requestContext is the context of one request. It ends in three cases: the client leaves
// (context.Canceled), the context of all requests ends (it then has the same cause), or the
// request has been answered. Once it has ended it stays so: package context panics where a
// context that has ended has no error. Watching it costs little: see AfterFunc.
type requestContext struct {
	context.Context                 // of all requests
	calling         *sync.WaitGroup // the functions called when the context ends

	ended atomic.Bool
	// stopped has ended with the cause of Stop; nil unless that was called.
	stopped atomic.Pointer[context.Context]
	mu      sync.Mutex
	done    chan struct{} // made when it is asked for
	// first is the first function given to AfterFunc, others holds further ones.
	first  watch
	others []watch
	last   int // the number of the watch that was added last
}

// watch is a function that is called when the context ends; number 0 is none.
type watch struct {
	number int
	call   func()
}

// Done returns a channel that is closed when the request has ended.
func (r *requestContext) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.ended.Load() {
			close(r.done)
		}
	}
	return r.done
}

// Err returns context.Canceled once the context has ended.
func (r *requestContext) Err() error {
	if r.ended.Load() {
		return context.Canceled
	}
	return nil
}

// Stop ends the context with a cause, which context.Cause returns from then on. The client is
// still there and is answered.
func (r *requestContext) Stop(cause error) {
	stopped, cancel := context.WithCancelCause(r.Context)
	cancel(cause)
	if !r.ended.Load() && r.stopped.CompareAndSwap(nil, &stopped) {
		r.cancel()
	}
}

// Value returns the value of the context of all requests. Package context finds the cause by it.
func (r *requestContext) Value(key any) any {
	if stopped := r.stopped.Load(); stopped != nil {
		return (*stopped).Value(key)
	}
	return r.Context.Value(key)
}

// AfterFunc calls f in a goroutine of its own when the context ends, unless the
// function that it returns is called before. Package context uses it instead of a
// goroutine that waits for Done.
func (r *requestContext) AfterFunc(f func()) (stop func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended.Load() {
		r.calling.Go(f)
		return func() bool { return false }
	}
	r.last++
	added := watch{r.last, f}
	if r.first.number == 0 {
		r.first = added
	} else {
		r.others = append(r.others, added)
	}
	return func() bool { return r.forget(added.number) }
}

// forget takes back a watch, and reports whether it was still there.
func (r *requestContext) forget(number int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.number == number {
		r.first = watch{}
		return true
	}
	before := len(r.others)
	r.others = slices.DeleteFunc(r.others, func(w watch) bool { return w.number == number })
	return len(r.others) < before
}

// cancel ends the context.
func (r *requestContext) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended.Swap(true) {
		return
	}
	if r.done != nil {
		close(r.done)
	}
	if r.first.call != nil {
		r.calling.Go(r.first.call)
	}
	for _, w := range r.others {
		r.calling.Go(w.call)
	}
	r.first, r.others = watch{}, nil
}
