// Package listen opens the addresses of the gateway, and encrypts the connections with
// clients.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

// Addresses are the addresses of the gateway: host:port, or unix:/path for a socket in the
// file system. One may be written without a list.
type Addresses []string

// OneOrMore says that a single value may take the place of a list of one.
func (Addresses) OneOrMore() {}

// unixPrefix begins the address of a socket in the file system.
const unixPrefix = "unix:"

// maxPath is the greatest length of a socket's path on every system, with room for the name
// that it has until it is complete.
const maxPath = 95

// socketMode lets the owner and the group of the socket's file connect.
const socketMode = 0o660

// SocketPath returns the path of the socket that an address names.
func SocketPath(address string) (path string, isSocket bool) {
	return strings.CutPrefix(address, unixPrefix)
}

// IsLoopback reports whether only this machine reaches an address.
func IsLoopback(address string) bool {
	if _, isSocket := SocketPath(address); isSocket {
		return true
	}
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

// Fault describes the fault of an address, and how to correct it; empty means none.
func Fault(address string) string {
	if path, isSocket := SocketPath(address); isSocket {
		return pathFault(path)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.ContainsFunc(host, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) ||
			r == '/'
	}) {
		return fmt.Sprintf("want host:port such as 127.0.0.1:8080, or unix:/path, found %q", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Sprintf("the port must be a number from 0 to 65535, found %q", port)
	}
	return ""
}

func pathFault(path string) string {
	switch {
	case !filepath.IsAbs(path):
		return "want an absolute path, such as unix:/run/patchbay/gateway.sock"
	case len(path) > maxPath:
		return fmt.Sprintf("the path of a socket must not be longer than %d bytes; choose a shorter one", maxPath)
	case strings.ContainsFunc(path, unicode.IsControl):
		return "must not contain control characters"
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return "the directory " + filepath.Dir(path) + " does not exist; create it, and let the gateway write to it"
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return "there is a file that is no socket; remove it, or choose another path"
	}
	return ""
}

// InUseError says that another program listens on an address.
type InUseError struct{ Address string }

func (e *InUseError) Error() string {
	if _, isSocket := SocketPath(e.Address); isSocket {
		return e.Address + " is in use by another program; stop it, or choose another path"
	}
	return e.Address + " is in use by another program; stop it, or choose another address with --listen (port 0 " +
		"picks a free one)"
}

// Open begins to listen on an address. The error is an *InUseError if another process
// listens there.
func Open(ctx context.Context, address string) (net.Listener, error) {
	if path, isSocket := SocketPath(address); isSocket {
		return openSocket(ctx, address, path)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &InUseError{address}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return listener, nil
}

// openSocket begins to listen on a socket in the file system. It makes the socket under another
// name and renames it. Nobody then finds it before it has its mode, and it replaces a socket that
// a killed gateway left behind in a single step.
func openSocket(ctx context.Context, address, path string) (net.Listener, error) {
	if fault := pathFault(path); fault != "" {
		return nil, fmt.Errorf("cannot listen on %s: %s", address, fault)
	}
	if conn, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return nil, &InUseError{address}
	} else if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot listen on %s: the socket that is there cannot be asked whether it is in use: %w",
			address, err)
	}
	made := path + "." + strconv.Itoa(os.Getpid())
	_ = os.Remove(made) // of an earlier process with this number
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", made)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	unlink, ok := listener.(*net.UnixListener)
	if ok {
		unlink.SetUnlinkOnClose(false)
	}
	err = os.Chmod(made, socketMode)
	if err == nil {
		err = os.Rename(made, path)
	}
	var own fs.FileInfo
	if err == nil {
		own, err = os.Lstat(path)
	}
	if err != nil {
		_ = listener.Close()
		_ = os.Remove(made)
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return &socketListener{Listener: listener, path: path, own: own}, nil
}

// socketListener listens on a socket in the file system.
type socketListener struct {
	net.Listener
	path string
	own  fs.FileInfo
}

// Accept waits for the next connection.
func (l *socketListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if socket, ok := conn.(*net.UnixConn); ok {
		return &socketConn{socket}, nil
	}
	return conn, nil
}

// Close removes the file, unless it is another program's by now.
func (l *socketListener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.own) {
		_ = os.Remove(l.path)
	}
	return l.Listener.Close()
}

// Addr returns the address as it is configured.
func (l *socketListener) Addr() net.Addr { return socketAddr(unixPrefix + l.path) }

type socketAddr string

func (socketAddr) Network() string  { return "unix" }
func (a socketAddr) String() string { return string(a) }

// socketConn is a connection over a socket in the file system. Its client is on this
// machine and has no address of its own.
type socketConn struct{ *net.UnixConn }

// RemoteAddr returns the address of this machine.
func (*socketConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
