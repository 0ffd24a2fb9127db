package transport

import (
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/wire"
)

// appendHead appends the head of the request and returns it with the length of
// the body. A call that would not be one unambiguous HTTP/1.1 request is
// refused, so that no text of a caller can smuggle a second one.
func appendHead(b []byte, to *Origin, call *wire.Call) ([]byte, int, error) {
	if err := validate(to, call); err != nil {
		return b, 0, &Error{Step: "write", Addr: to.addr, class: ErrInvalidCall, cause: err}
	}
	b = append(b, call.Method...)
	b = append(b, ' ')
	b = append(b, to.prefix...)
	b = append(b, call.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, to.host...)
	// Replies must come uncompressed: the gateway reads usage in them and
	// must not inflate what a backend packed.
	b = append(b, "\r\nAccept-Encoding: identity\r\n"...)
	if to.proxyAuth != "" {
		b = append(b, "Proxy-Authorization: "...)
		b = append(b, to.proxyAuth...)
		b = append(b, "\r\n"...)
	}
	if to.via().MaxIdle < 0 {
		b = append(b, "Connection: close\r\n"...)
	}
	agent := false
	for i := range call.Header {
		h := &call.Header[i]
		b = append(b, h.Name...)
		b = append(b, ": "...)
		b = append(b, h.Value...)
		b = append(b, "\r\n"...)
		agent = agent || equalFold(h.Name, "user-agent")
	}
	if !agent {
		b = append(b, "User-Agent: patchbay\r\n"...)
	}
	length := call.Length()
	if length > 0 || takesBody(call.Method) {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(length), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...), length, nil
}

func takesBody(method string) bool {
	return method == "POST" || method == "PUT" || method == "PATCH"
}

func validate(to *Origin, call *wire.Call) error {
	if to.addr == "" {
		return flaw("no origin")
	}
	if u := call.Upload; u != nil && (u.Open == nil || u.Length < 0 || len(call.Body) > 0) {
		return flaw("malformed upload")
	}
	if !wire.IsToken(call.Method) {
		return flaw("malformed method")
	}
	if !strings.HasPrefix(call.Path, "/") || !wire.IsVisible(call.Path) || strings.Contains(call.Path, "#") {
		return flaw("malformed path")
	}
	for i := range call.Header {
		h := &call.Header[i]
		if !wire.IsToken(h.Name) {
			return flaw("malformed field name")
		}
		if !wire.IsText(h.Value) {
			return flaw("malformed field value")
		}
		if isOurs(h.Name) {
			return flaw("call sets a field that the transport owns")
		}
	}
	return nil
}

// isOurs names the fields that decide where a message goes and where it ends.
func isOurs(name string) bool {
	switch len(name) {
	case 4:
		return equalFold(name, "host")
	case 7:
		return equalFold(name, "upgrade") || equalFold(name, "trailer")
	case 10:
		return equalFold(name, "connection") || equalFold(name, "keep-alive")
	case 14:
		return equalFold(name, "content-length")
	case 15:
		return equalFold(name, "accept-encoding")
	case 17:
		return equalFold(name, "transfer-encoding")
	}
	return false
}

// equalFold compares with a lower-case ASCII name.
func equalFold(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
