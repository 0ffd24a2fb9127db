package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
)

// ErrForbidden means that an address belongs to the machine's own network link
// or to a cloud's metadata service, which hands out credentials to whoever asks.
var ErrForbidden = errors.New("link-local and cloud metadata addresses are not allowed")

// RefuseMetadata is an Options.Control that lets no connection through to a
// forbidden address, whatever name led there.
func RefuseMetadata(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: not an address", ErrForbidden)
	}
	if Forbidden(to.Addr()) {
		return ErrForbidden
	}
	return nil
}

// ForbiddenHost tells whether a host, as it stands in a URL, is a forbidden
// address in any of its spellings or the name of one. Names that only lead to
// one are found out when they are dialled.
func ForbiddenHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
	switch host {
	case "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal":
		return true
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return Forbidden(addr)
	}
	addr, ok := parseLoosely(host)
	return ok && Forbidden(addr)
}

// Forbidden tells whether nothing may be sent to an address.
func Forbidden(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	if addr.IsLinkLocalUnicast() {
		return true
	}
	if addr.Is4() {
		switch addr.As4() {
		case [4]byte{100, 100, 100, 200}, [4]byte{168, 63, 129, 16}, [4]byte{192, 0, 0, 192}:
			return true
		}
		return false
	}
	bytes := addr.As16()
	switch bytes {
	case [16]byte{0: 0xfd, 2: 0x0e, 3: 0xc2, 14: 0x02, 15: 0x54}, // fd00:ec2::254, Amazon EC2
		[16]byte{0: 0xfd, 2: 0x0e, 3: 0xc2, 15: 0x23},           // fd00:ec2::23, Amazon EKS
		[16]byte{0: 0xfd, 1: 0x20, 3: 0xce, 14: 0x02, 15: 0x54}: // fd20:ce::254, Google Cloud
		return true
	}
	inner, ok := innerAddr(bytes)
	return ok && Forbidden(inner)
}

// innerAddr returns the IPv4 address that an IPv6 address leads to: by 6to4,
// NAT64, or as the old compatible form.
func innerAddr(b [16]byte) (netip.Addr, bool) {
	switch {
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case [12]byte(b[:12]) == [12]byte{0x00, 0x64, 0xff, 0x9b}, [12]byte(b[:12]) == [12]byte{}:
		return netip.AddrFrom4([4]byte(b[12:])), true
	}
	return netip.Addr{}, false
}

// parseLoosely reads an IPv4 address as the C library does: one to four numbers,
// decimal, octal or hexadecimal, of which the last fills what is left.
func parseLoosely(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > net.IPv4len {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		number, err := strconv.ParseUint(part, 0, 32)
		if err != nil || strings.Contains(part, "_") {
			return netip.Addr{}, false
		}
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (net.IPv4len - i)
		}
		if number >= 1<<bits {
			return netip.Addr{}, false
		}
		value = value<<bits | number
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}
