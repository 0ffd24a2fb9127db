package front

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// newRequest returns the request whose head was read, as net/http would have read it.
// Each of its texts is a copy: an id or a name that is kept for longer than the request
// must not keep the whole head in memory.
func (c *conn) newRequest(ctx context.Context) *http.Request {
	h := &c.head
	target := strings.Clone(h.target)
	path, query, _ := strings.Cut(target, "?")
	r := &http.Request{
		Method: strings.Clone(h.method), URL: &url.URL{Path: path, RawQuery: query}, RequestURI: target, Host: strings.Clone(h.host),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h.header(), ContentLength: h.length, Body: c.body, Close: h.close,
		RemoteAddr: c.remote, TLS: c.tls,
	}
	return r.WithContext(ctx)
}

// header returns the fields of a head.
func (h *head) header() http.Header {
	header := make(http.Header, len(h.fields))
	values := make([]string, 0, len(h.fields))
	for _, f := range h.fields {
		if f.name == "Host" {
			continue
		}
		name, value := strings.Clone(f.name), strings.Clone(f.value)
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
