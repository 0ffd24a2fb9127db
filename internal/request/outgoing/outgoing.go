// Package outgoing makes the clients of requests to other servers. None of them follows a redirect: the
// headers of a request may be secret, and they are meant for the server that the operator named.
package outgoing

import (
	"errors"
	"net/http"
	"net/url"
	"time"
)

// Client returns a client that returns a redirect as the answer. A timeout of 0 is none.
func Client(over http.RoundTripper, timeout time.Duration) *http.Client {
	return &http.Client{Transport: over, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

var errRedirect = errors.New("the server redirects, which is not followed")

// Proxy returns the proxy of the environment for a request, and an error for a request that follows a
// redirect. It is the hook of libraries that make their clients themselves.
func Proxy(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errRedirect
	}
	return http.ProxyFromEnvironment(r)
}
