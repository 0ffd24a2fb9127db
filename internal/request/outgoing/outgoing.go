// Package outgoing makes the clients of all calls but those to backends (package transport), with
// one policy, which docs/configuration.md describes: redirects are errors, addresses are checked when
// they are dialed, calls and answers are bounded, and the proxies of the environment are used.
package outgoing

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

const (
	// Largest bounds the answers of servers of others, and all heads.
	Largest = 1 << 20
	// connectTime bounds name resolution and connecting, and the TLS handshake after it.
	connectTime = 5 * time.Second
)

// Options are what differs between clients. The zero value is for servers of others.
type Options struct {
	// Timeout bounds a call up to the end of its answer; 0 leaves that to the context of the call.
	Timeout time.Duration
	// TLS is how servers are verified; nil means by the authorities of the system.
	TLS *tls.Config
	// Idle bounds the unused connections to a server, which are kept for a minute; with 0 each call
	// has a connection of its own.
	Idle int
	// Own means a gateway or a process that the operator runs: it may have any address, is never
	// reached through a proxy, and its answers may be of any length.
	Own bool
	// Dial replaces the network for a client with Own.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client calls servers. Libraries get the http.Client in it, whose errors hold the whole URL.
type Client struct{ http.Client }

// New returns a client.
func New(o Options) *Client {
	reach := &http.Transport{
		DialContext: o.Dial, TLSClientConfig: o.TLS, TLSHandshakeTimeout: connectTime, ForceAttemptHTTP2: true,
		DisableCompression: true, MaxResponseHeaderBytes: Largest,
		DisableKeepAlives: o.Idle == 0, MaxIdleConnsPerHost: o.Idle, IdleConnTimeout: time.Minute,
	}
	if !o.Own {
		reach.DialContext = Dialer().DialContext
		reach.Proxy = func(r *http.Request) (*url.URL, error) { return Proxy(r.URL) }
	}
	return &Client{http.Client{Timeout: o.Timeout, Transport: carrier{reach, o.Own}}}
}

// Proxy returns the proxy of the environment through which an address is reached, nil for none. Only
// the proxy is dialed then, so the address is checked here.
func Proxy(to *url.URL) (*url.URL, error) {
	if ForbiddenHost(to.Hostname()) {
		return nil, ErrForbidden
	}
	return httpproxy.FromEnvironment().ProxyFunc()(to)
}

// Dialer returns the dialer of calls to servers of others.
func Dialer() *net.Dialer { return &net.Dialer{Timeout: connectTime, Control: RefuseMetadata} }

// carrier applies the policy to answers.
type carrier struct {
	*http.Transport
	isOwn bool
}

// RoundTrip sends a request. A redirect is a *StatusError.
func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 3 {
		_ = response.Body.Close()
		return nil, &StatusError{response.StatusCode, placeOf(response)}
	}
	if !c.isOwn {
		response.Body = http.MaxBytesReader(nil, response.Body, Largest)
	}
	return response, nil
}

// Do sends a request. Its errors do not hold the path and the query of the URL, which may be secret.
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "patchbay")
	}
	response, err := c.Client.Do(r)
	if failed, is := errors.AsType[*url.Error](err); is {
		return nil, failed.Err
	}
	return response, err
}

// Send posts a body. An answer with another status than 2xx is a *StatusError.
func (c *Client) Send(ctx context.Context, to, mediaType string, body []byte, header map[string]string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address is malformed") // which may be secret
	}
	request.Header.Set("Content-Type", mediaType)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	return c.succeed(request, nil)
}

// Check gets a URL, without the answer. One with another status than 2xx is a *StatusError.
func (c *Client) Check(ctx context.Context, to string) error {
	return c.succeed(http.NewRequestWithContext(ctx, http.MethodGet, to, http.NoBody))
}

func (c *Client) succeed(r *http.Request, err error) error {
	if err != nil {
		return err
	}
	response, err := c.Do(r)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode/100 != 2 {
		return &StatusError{Status: response.StatusCode}
	}
	return nil
}

// StatusError is the status of a redirect, and of an answer that Send and Check do not accept.
type StatusError struct {
	Status int
	// To is scheme and host of the address to which a redirect leads: its path and query may be secret.
	To string
}

// Said returns the error as a sentence.
func (e *StatusError) Said() say.Sentence {
	if e.To == "" {
		return say.New("cause.status", "status", e.Status)
	}
	return say.New("cause.redirect", "status", e.Status, "to", e.To)
}

// Error returns the text of the sentence.
func (e *StatusError) Error() string { return e.Said().String() }

// placeOf returns where a redirect leads.
func placeOf(r *http.Response) string {
	to, err := r.Location()
	if err != nil {
		return "?"
	}
	return to.Scheme + "://" + to.Host
}

// Trust returns how servers are verified: by the certificates of a file, or by those of the system if
// the file has no name.
func Trust(file string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return config, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, say.Error("issuer.ca_empty")
	}
	return config, nil
}
