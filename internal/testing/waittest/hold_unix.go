//go:build unix

package waittest

import (
	"net/netip"
	"syscall"
	"testing"
)

// hold binds a socket to an address of IPv4 without listening, and returns the address. A
// client that connects there is refused, and the system gives the port to no other
// program.
func hold(t testing.TB, address string) string {
	t.Helper()
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	// A child that another test starts meanwhile must not keep the socket.
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	// Connections of the listener before may linger, and a listener may come back.
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	ipv4, ok := bound.(*syscall.SockaddrInet4)
	if !ok {
		t.Fatalf("%s is bound to %T", address, bound)
	}
	return netip.AddrPortFrom(at.Addr(), uint16(ipv4.Port)).String()
}
