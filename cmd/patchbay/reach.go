package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// ownURL returns the base URL at which this machine reaches a gateway that listens on
// an address.
func ownURL(server config.Server, listen string) string {
	if server.TLS.Enabled() {
		return "https://" + dialable(listen)
	}
	return "http://" + dialable(listen)
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
		host = "127.0.0.1" // who listens on [::] has both
	}
	return net.JoinHostPort(host, port)
}

// ownGateway is the gateway on this machine with this configuration. Its certificate is
// for the names by which others know it, and nothing secret is sent, so it is not
// verified.
func ownGateway(server config.Server) reachable {
	return reachable{ownURL(server, server.Listen), dialable(server.Listen), &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
}
