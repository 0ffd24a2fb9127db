package front

import (
	"net/http"
	"net/url"
	"strings"
)

// exchange is what a handler is given for one request, beside the request itself and the
// headers. It is made in one piece and never used again.
type exchange struct {
	ctx      requestContext
	body     body
	response response
	url      url.URL
	values   [16]string // of most headers
}

// newExchange returns the exchange of the request whose head was read.
func (c *conn) newExchange() *exchange {
	return &exchange{
		ctx:      requestContext{Context: c.server.base, calling: &c.server.serving},
		body:     body{conn: c, left: c.head.length},
		response: response{conn: c, header: make(http.Header), close: c.head.close},
	}
}

// newRequest returns the request whose head was read, as net/http would have read it.
// Each of its texts is a copy, or well known: an id or a name that is kept for longer than
// the request must not keep the whole head in memory.
func (c *conn) newRequest(x *exchange) *http.Request {
	h, known := &c.head, &c.server.known
	target := known.value(h.target)
	x.url.Path, x.url.RawQuery, _ = strings.Cut(target, "?")
	r := c.server.blank.WithContext(&x.ctx) // which copies it
	r.Method, r.URL, r.RequestURI, r.Host = known.value(h.method), &x.url, target, known.value(h.host)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Header, r.ContentLength, r.Body, r.Close = h.header(known, x.values[:0]), h.length, &x.body, h.close
	r.RemoteAddr, r.TLS = c.remote, c.tls
	return r
}

// header returns the fields of a head. Their values are appended to the given ones.
func (h *head) header(known *knownTexts, values []string) http.Header {
	header := make(http.Header, len(h.fields))
	for _, f := range h.fields {
		name := known.name(f.name)
		if name == "Host" {
			continue
		}
		value := known.value(f.value)
		if given := header[name]; given != nil {
			header[name] = append(given, value)
			continue
		}
		n := len(values)
		values = append(values, value)
		header[name] = values[n : n+1 : n+1]
	}
	return header
}

// knownTexts are texts that are in many heads, so that they need not be copied.
type knownTexts struct {
	names  map[string]string // names of fields by how clients write them
	values map[string]string // other texts
}

func newKnownTexts() knownTexts {
	k := knownTexts{make(map[string]string), make(map[string]string)}
	for _, name := range [...]string{
		"Accept", "Accept-Encoding", "Accept-Language", "Anthropic-Beta", "Anthropic-Version", "Authorization", "Cache-Control", "Connection",
		"Content-Length", "Content-Type", "Cookie", "Forwarded", "Host", "Idempotency-Key", "Origin", "Referer", "Traceparent", "Tracestate",
		"User-Agent", "X-Api-Key", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "X-Request-Id",
		"X-Stainless-Arch", "X-Stainless-Async", "X-Stainless-Helper-Method", "X-Stainless-Lang", "X-Stainless-Os", "X-Stainless-Package-Version",
		"X-Stainless-Read-Timeout", "X-Stainless-Retry-Count", "X-Stainless-Runtime", "X-Stainless-Runtime-Version", "X-Stainless-Timeout",
	} {
		k.names[name], k.names[strings.ToLower(name)] = name, name
	}
	for _, value := range [...]string{
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages",
		"/v1/models", "/v1/rerank", "/v1/responses", "*/*", "application/json", "application/json, text/event-stream", "text/event-stream",
		"close", "keep-alive", "gzip", "gzip, deflate", "gzip, deflate, br", "gzip, deflate, br, zstd", "identity", "no-cache", "2023-06-01",
		"false", "true", "0", "600", "python", "js", "node", "Linux", "MacOS", "x64", "arm64", "CPython",
	} {
		k.values[value] = value
	}
	return k
}

// name returns the name of a field as net/http writes it, without memory of the head.
func (k *knownTexts) name(text string) string {
	if name, ok := k.names[text]; ok {
		return name
	}
	return strings.Clone(http.CanonicalHeaderKey(text))
}

// value returns a text without memory of the head.
func (k *knownTexts) value(text string) string {
	const longest = 40 // of those that are known
	if len(text) <= longest {
		if value, ok := k.values[text]; ok {
			return value
		}
	}
	return strings.Clone(text)
}
