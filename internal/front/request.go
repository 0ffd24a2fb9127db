package front

import (
	"net/http"
	"net/url"
)

// requestOf returns a request with this head, as net/http would have read it. Its
// URL is in memory that is used again.
func requestOf(h *head, at *url.URL) http.Request {
	*at = url.URL{Path: h.path, RawQuery: h.query}
	return http.Request{
		Method:        h.method,
		URL:           at,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		ContentLength: h.length,
		Close:         h.close,
		Host:          h.host,
		RequestURI:    h.target,
	}
}

// fillHeader makes the header of a request from the fields of its head. The map and
// the values are used again for the next request.
func (c *conn) fillHeader() {
	if cap(c.values) < len(c.head.fields) {
		c.values = make([]string, 0, max(16, len(c.head.fields)))
	}
	c.values = c.values[:0]
	for _, f := range c.head.fields {
		if f.name == "Host" {
			continue
		}
		if given := c.header[f.name]; given != nil {
			c.header[f.name] = append(given, f.value)
			continue
		}
		n := len(c.values)
		c.values = append(c.values, f.value)
		c.header[f.name] = c.values[n : n+1 : n+1]
	}
}
