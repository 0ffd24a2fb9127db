package front

import "net/url"

// fillRequest makes the request of the head that was read, as net/http would have read
// it. Its memory is used again for the next request.
func (c *conn) fillRequest() {
	h, r := &c.head, c.received
	c.url = url.URL{Path: h.path, RawQuery: h.query}
	r.Method, r.URL, r.RequestURI, r.Host = h.method, &c.url, h.target, h.host
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Header, r.ContentLength, r.Body, r.Close = c.header, h.length, &c.body, h.close
	r.RemoteAddr, r.TLS = c.remote, c.tls
	// What the handler of an earlier request may have set.
	r.Form, r.PostForm, r.MultipartForm, r.Trailer, r.Pattern = nil, nil, nil, nil, ""
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
