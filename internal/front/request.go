package front

import (
	"net/http"
	"net/url"
	"strings"
)

// exchange is what a handler is given for one request, beside the request itself and the
// headers. It is made in one piece and never used again.
type exchange struct {
	request  *http.Request
	ctx      requestContext
	body     body
	response response
	url      url.URL
	values   [16]string // of most headers
}

// newExchange returns what the handler gets for the request whose head has come, or why
// the request is refused.
func (c *conn) newExchange(text []byte) (*exchange, Refusal) {
	x := &exchange{ctx: requestContext{Context: c.server.options.Base, calling: &c.server.serving}}
	r := c.server.blank.WithContext(&x.ctx) // which copies it
	x.request, r.URL = r, &x.url
	h := head{known: &c.server.known, request: r, values: x.values[:0]}
	if !h.parse(text) {
		return nil, h.refusal
	}
	r.RemoteAddr, r.TLS = c.remote, c.tls
	x.body = body{conn: c, left: max(0, r.ContentLength), isChunked: r.ContentLength < 0, ended: r.ContentLength == 0, continues: h.continues}
	r.Body = http.NoBody
	if !x.body.ended {
		r.Body = &x.body
	}
	x.response = response{
		conn: c, header: make(http.Header), isHTTP10: r.ProtoMinor == 0, isHead: r.Method == http.MethodHead, close: r.Close,
	}
	return x, Refusal{}
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
func (k *knownTexts) name(text []byte) string {
	if name, ok := k.names[string(text)]; ok {
		return name
	}
	return http.CanonicalHeaderKey(string(text))
}

// value returns a text without memory of the head.
func (k *knownTexts) value(text []byte) string {
	const longest = 40 // of those that are known
	if len(text) <= longest {
		if value, ok := k.values[string(text)]; ok {
			return value
		}
	}
	return string(text)
}
