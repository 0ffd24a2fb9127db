package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"

	listening "github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// reachable is a gateway that can be asked.
type reachable struct {
	base, shown string // its URL, and its name in messages
	options     outgoing.Options
}

// gatewayAddress returns the gateway to ask: the one that is given, or the one on this
// machine at one of its addresses.
func gatewayAddress(flags *settingFlags, given string, addresses func(config.Server) []string) (reachable, error) {
	if given = flags.gatewayURL(given); given == "" {
		loaded, err := flags.load()
		if err != nil {
			return reachable{}, err
		}
		return ownPlace(loaded.Document.Server, addresses(loaded.Document.Server)), nil
	}
	parsed, err := url.Parse(given)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return reachable{}, errors.New("--url, or PATCHBAY_URL: want an address such as http://127.0.0.1:8080")
	}
	base := strings.TrimSuffix(given, "/")
	return reachable{base, base, outgoing.Options{Own: true}}, nil
}

// gatewayURL returns the address of the gateway to ask, given that of --url: that one, else
// PATCHBAY_URL. It is empty where other flags describe the gateway.
func (f *settingFlags) gatewayURL(given string) string {
	if given != "" || f.file != "" || f.listen != "" || f.dataDir != "" || len(f.set) > 0 {
		return given
	}
	return variable(f.env, "PATCHBAY_URL")
}

// ownURL returns the base URL for requests from this machine to a gateway that listens on
// an address.
func ownURL(server config.Server, listen string) string {
	if _, isSocket := listening.SocketPath(listen); isSocket {
		return listen
	}
	if server.TLS.Enabled() {
		return "https://" + dialable(listen)
	}
	return "http://" + dialable(listen)
}

// managementAddresses returns where management is served.
func managementAddresses(server config.Server) []string {
	if len(server.ManagementListen) > 0 {
		return server.ManagementListen
	}
	return server.Listen
}

// howToAsk returns how verbs ask the gateway with this configuration.
func howToAsk(server config.Server) string {
	for _, address := range managementAddresses(server) {
		if _, isSocket := listening.SocketPath(address); !isSocket {
			return ": the gateway runs, so ask it: --url " + ownURL(server, address)
		}
	}
	return ": the gateway runs; add a port to server.management-listen, because --url takes no socket"
}

// dialable turns an address to listen on into one to connect to: a wildcard is
// reached over loopback.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.IsUnspecified() {
		host = "127.0.0.1" // a listener on [::] has both
	}
	return net.JoinHostPort(host, port)
}

// ownGateway is the gateway on this machine with this configuration. Its certificate
// names it as others know it, and nothing secret is sent, so it is not verified.
func ownGateway(server config.Server) reachable { return ownPlace(server, managementAddresses(server)) }

// ownPlace is the gateway on this machine at one of its addresses.
func ownPlace(server config.Server, addresses []string) reachable {
	for _, address := range addresses {
		// A socket asks for no certificate; a port may ask for one.
		if path, isSocket := listening.SocketPath(address); isSocket {
			return reachable{"http://localhost", address, outgoing.Options{
				Own: true,
				Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", path)
				},
			}}
		}
	}
	return reachable{ownURL(server, addresses[0]), dialable(addresses[0]), outgoing.Options{
		Own: true,
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, //nolint:gosec // see above
		},
	}}
}
