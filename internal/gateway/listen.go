package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// AddressInUseError says that another program listens on the address.
type AddressInUseError struct{ Address string }

func (e *AddressInUseError) Error() string {
	return e.Address + " is in use by another program; stop it, or choose another address with --listen (port 0 picks a free one)"
}

// UnsafeError says that a gateway without security would be open to other
// machines by accident.
type UnsafeError struct{ Listen string }

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("refusing to listen on %s without security: anyone who reaches it could use and change everything. "+
		"Set security.enabled: true with tokens and keys, or listen on 127.0.0.1, or accept the risk with security.allow-open: true", e.Listen)
}

// CheckListen returns an *UnsafeError for a configuration that New refuses to
// listen with.
func CheckListen(doc *config.Document) error {
	if doc.Security.Enabled || doc.Security.AllowOpen || IsLoopback(doc.Server.Listen) {
		return nil
	}
	return &UnsafeError{doc.Server.Listen}
}

func listenOn(address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &AddressInUseError{address}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return listener, nil
}

// IsLoopback tells whether only this machine reaches an address.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
