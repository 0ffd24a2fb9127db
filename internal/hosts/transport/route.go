package transport

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unique"

	"golang.org/x/net/http/httpproxy"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// Route says how an origin is reached. The zero value is the plain way.
type Route struct {
	// Proxy is the address of a forward proxy (http or https), with the user and
	// password that it asks for; empty means that there is none.
	Proxy string
	// CA holds the certificates that are trusted in place of the system's, and
	// Certificate and Key are the client's own, all as PEM.
	CA, Certificate, Key string
	// ServerName is the name for which the server's certificate must be valid; empty
	// means the host of the origin.
	ServerName string
	// MaxIdle bounds the idle connections that are kept: 0 means the limit of the
	// client, and below zero each connection serves one call.
	MaxIdle int
}

// Via returns the origin reached by a route. Error texts hold no part of it.
func (o Origin) Via(r Route) (Origin, error) {
	o.route, o.prefix, o.proxyAuth = unique.Handle[Route]{}, "", ""
	if r == (Route{}) {
		return o, nil
	}
	if r.Proxy != "" {
		p, err := parseProxy(r.Proxy)
		if err != nil {
			return Origin{}, err
		}
		if !o.secure {
			o.prefix, o.proxyAuth = o.String(), p.auth
			// Some proxies relay the backend's head and close the connection behind
			// the answer although the head does not say so.
			r.MaxIdle = -1
		}
	}
	if _, err := r.tlsConfig(&tls.Config{}); err != nil {
		return Origin{}, err
	}
	o.route = unique.Make(r)
	return o, nil
}

// Once returns the origin with connections that serve one call each.
func (o Origin) Once() Origin {
	via := o.via()
	via.MaxIdle = -1
	o.route = unique.Make(via)
	return o
}

// via returns the route of a target.
func (t target) via() Route {
	if t.route == (unique.Handle[Route]{}) {
		return Route{}
	}
	return t.route.Value()
}

// tlsConfig derives the TLS settings of a route from those of the client.
func (r Route) tlsConfig(base *tls.Config) (*tls.Config, error) {
	config := base.Clone()
	if r.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(r.CA)) {
			return nil, flaw("the file of authorities holds no certificate (PEM)")
		}
	}
	if r.Certificate != "" || r.Key != "" {
		pair, err := tls.X509KeyPair([]byte(r.Certificate), []byte(r.Key))
		if err != nil {
			return nil, flaw("certificate and key are not a pair (PEM)")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if r.ServerName != "" {
		if !validHost(strings.ToLower(r.ServerName)) {
			return nil, flaw("the server name is not a host name")
		}
		config.ServerName = r.ServerName
	}
	// A session must not be resumed with a server that other authorities vouched for.
	config.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	return config, nil
}

// secured returns the TLS settings for connections to a target.
func (c *Client) secured(to Origin) (*tls.Config, error) {
	config := c.tls
	if via := to.via(); via.CA != "" || via.Certificate != "" || via.ServerName != "" {
		var err error
		if config, err = c.routeConfig(to.route, via); err != nil {
			return nil, err
		}
	}
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName = to.name
	}
	return config, nil
}

// maxRouteConfigs bounds the settings of routes that edits have left behind.
const maxRouteConfigs = 1024

// routeConfig keeps the settings of a route: its sessions can be resumed.
func (c *Client) routeConfig(route unique.Handle[Route], via Route) (*tls.Config, error) {
	c.routesMu.Lock()
	defer c.routesMu.Unlock()
	if known := c.routes[route]; known != nil {
		return known, nil
	}
	config, err := via.tlsConfig(c.tls)
	if err != nil {
		return nil, err
	}
	if len(c.routes) >= maxRouteConfigs {
		clear(c.routes)
	}
	c.routes[route] = config
	return config, nil
}

// proxyAddress is a forward proxy made ready for dialling.
type proxyAddress struct {
	addr, name string
	secure     bool
	auth       string // value of Proxy-Authorization, empty where there is none
}

// parseProxy reads the address of a proxy. Its errors do not repeat it, because it
// may hold a password.
func parseProxy(address string) (proxyAddress, error) {
	u, err := url.Parse(address)
	if err != nil {
		return proxyAddress{}, flaw("the address of the proxy is malformed")
	}
	p := proxyAddress{name: strings.ToLower(u.Hostname()), secure: u.Scheme == "https"}
	port := u.Port()
	switch u.Scheme {
	case "http":
		port = cmp.Or(port, "80")
	case "https":
		port = cmp.Or(port, "443")
	default:
		return proxyAddress{}, flaw("the address of the proxy must begin with http:// or https://")
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 || !validHost(p.name) {
		return proxyAddress{}, flaw("the address of the proxy has no valid host or port")
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return proxyAddress{}, flaw("the address of the proxy must end after host and port")
	}
	if outgoing.ForbiddenHost(p.name) {
		return proxyAddress{}, flaw("the proxy must not be a link-local address or a cloud's metadata service")
	}
	p.addr = net.JoinHostPort(p.name, port)
	if u.User != nil {
		password, _ := u.User.Password()
		p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// CheckProxy returns an error if the address of a proxy cannot be used.
func CheckProxy(address string) error {
	_, err := parseProxy(address)
	return err
}

// MaskedProxy returns the address of a proxy without its credentials.
func MaskedProxy(address string) string {
	if !strings.Contains(address, "://") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return proxyMask
	}
	if u.User != nil {
		return u.Scheme + "://" + proxyMask + "@" + u.Host
	}
	return u.Scheme + "://" + u.Host
}

const proxyMask = "****"

// IsMaskedProxy reports whether MaskedProxy made an address from one with
// credentials.
func IsMaskedProxy(address string) bool { return strings.Contains(address, "://"+proxyMask+"@") }

// Proxies knows the proxies that the environment names.
type Proxies struct {
	find     func(*url.URL) (*url.URL, error)
	settings httpproxy.Config
}

// EnvironmentProxies reads HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in capitals or not.
func EnvironmentProxies() Proxies {
	settings := httpproxy.FromEnvironment()
	return Proxies{settings.ProxyFunc(), *settings}
}

// For returns the proxy through which a base URL is reached, empty for none: hosts
// that NO_PROXY lists, and this machine itself, are never reached through one.
func (p Proxies) For(baseURL string) string {
	if p.find == nil {
		return ""
	}
	u, err := url.Parse(baseURL)
	if err != nil {
		return ""
	}
	proxy, err := p.find(u)
	if err != nil || proxy == nil || CheckProxy(proxy.String()) != nil {
		return ""
	}
	return proxy.String()
}

// Named describes the proxies of the environment for the log: for https and http
// without credentials, each empty where there is none, and the exempt hosts. The
// error says which of them cannot be used.
func (p Proxies) Named() (https, http, exempt string, err error) {
	name := func(variable, address string) string {
		if address == "" {
			return ""
		}
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		if fault := CheckProxy(address); fault != nil {
			err = errors.Join(err, fmt.Errorf("%s is not used: %w", variable, fault))
			return ""
		}
		return MaskedProxy(address)
	}
	return name("HTTPS_PROXY", p.settings.HTTPSProxy), name("HTTP_PROXY", p.settings.HTTPProxy), p.settings.NoProxy, err
}
