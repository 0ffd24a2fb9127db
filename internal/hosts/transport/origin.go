package transport

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unique"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

// Origin is where calls go: scheme, host and port. It is a comparable value,
// made once by ParseOrigin; the zero Origin refuses every call.
type Origin struct {
	target
	host string // value of the Host field
	name string // a TLS certificate must be valid for it
	// prefix precedes the path, and proxyAuth is sent along, where a proxy passes plain
	// requests on; both are empty elsewhere.
	prefix, proxyAuth string
}

// target is the part of an origin that two calls must share to use the same
// connections.
type target struct {
	addr   string // host:port to dial
	secure bool
	route  unique.Handle[Route] // zero: the plain way
}

// ParseOrigin takes the origin out of a base URL. Only http and https are
// known. The path is checked but not kept: a Call's Path is complete.
// User names, queries and fragments are refused: they have no place in a base
// URL, and a password there would be lost silently.
// Error texts do not repeat the URL.
func ParseOrigin(baseURL string) (Origin, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return Origin{}, flaw("base URL is malformed")
	}
	var port string
	switch u.Scheme {
	case "http":
		port = "80"
	case "https":
		port = "443"
	default:
		return Origin{}, flaw("base URL must start with http:// or https://")
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(baseURL, "#") {
		return Origin{}, flaw("base URL must not hold a user, a query or a fragment")
	}
	name := strings.ToLower(u.Hostname())
	if !validHost(name) {
		return Origin{}, flaw("base URL has no valid host")
	}
	host := bracketed(name)
	if strings.HasSuffix(u.Host, ":") {
		return Origin{}, flaw("base URL has an empty port")
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return Origin{}, flaw("base URL has an invalid port")
		}
		// 080 and 80 are one port and must share their connections.
		if p = strconv.FormatUint(n, 10); p != port {
			host += ":" + p
		}
		port = p
	}
	bare, _, _ := strings.Cut(name, "%")
	return Origin{
		target: target{addr: net.JoinHostPort(name, port), secure: u.Scheme == "https"},
		host:   host,
		name:   bare,
	}, nil
}

// String returns scheme://host[:port].
func (o Origin) String() string {
	if o.secure {
		return "https://" + o.host
	}
	return "http://" + o.host
}

// Addr returns the host:port that is dialled.
func (o Origin) Addr() string { return o.addr }

// bracketed is a host name in the form of URLs; the zone of an address means
// something on this machine only and is left out.
func bracketed(name string) string {
	bare, _, _ := strings.Cut(name, "%")
	if strings.Contains(bare, ":") {
		return "[" + bare + "]"
	}
	return bare
}

// validHost accepts addresses and ASCII host names (underscores are common in
// container networks). Other scripts must be given in their xn-- form.
func validHost(name string) bool {
	if strings.Contains(name, ":") {
		addr, err := netip.ParseAddr(name)
		return err == nil && addr.Is6() && wire.IsVisible(addr.Zone())
	}
	if name == "" || len(name) > 253 {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return name[0] != '.'
}
