package outgoing

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// ErrForbidden means that an address belongs to the machine's own network link or
// to a cloud's metadata service, which hands out credentials to any caller.
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

// AddressFault returns the fault of an address of a server of others, if it has one. It does not repeat it.
func AddressFault(address string) say.Sentence {
	parsed, err := url.Parse(address)
	switch {
	case err != nil:
		return say.New("field.url")
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return say.New("field.url_scheme")
	case parsed.User != nil:
		return say.New("field.url_name")
	case parsed.Hostname() == "":
		return say.New("field.url_host")
	case ForbiddenHost(parsed.Hostname()):
		return say.New("field.url_local")
	case parsed.Fragment != "":
		return say.New("field.url_fragment")
	}
	return say.Sentence{}
}

// ForbiddenHost reports whether the host of a URL is a forbidden address in any of
// its spellings or the name of one. Names that only resolve to one are found out
// when they are dialled.
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

// Forbidden reports whether nothing may be sent to an address.
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
		[16]byte{0: 0xfd, 3: 0x42, 15: 0x42},                    // fd00:42::42, Scaleway
		[16]byte{0: 0xfd, 1: 0x20, 3: 0xce, 14: 0x02, 15: 0x54}: // fd20:ce::254, Google Cloud
		return true
	}
	return slices.ContainsFunc(innerAddrs(bytes), Forbidden)
}

// innerAddrs returns the IPv4 addresses to which an IPv6 address may lead: through a
// translator or a tunnel, or as an old form of writing them. A translator may have a
// prefix of its network, which nobody can know here.
func innerAddrs(b [16]byte) []netip.Addr {
	v4 := func(b0, b1, b2, b3 byte) netip.Addr { return netip.AddrFrom4([4]byte{b0, b1, b2, b3}) }
	last := v4(b[12], b[13], b[14], b[15])
	switch {
	case [12]byte(b[:12]) == [12]byte{}, // ::a.b.c.d, the old compatible form
		[12]byte(b[:12]) == [12]byte{8: 0xff, 9: 0xff},              // ::ffff:0:a.b.c.d, translated (RFC 2765)
		[12]byte(b[:12]) == [12]byte{1: 0x64, 2: 0xff, 3: 0x9b},     // 64:ff9b::/96, NAT64 (RFC 6052)
		b[10] == 0x5e && b[11] == 0xfe && b[9] == 0 && b[8]&^2 == 0: // ISATAP (RFC 5214), in any network
		return []netip.Addr{last}
	case [6]byte(b[:6]) == [6]byte{1: 0x64, 2: 0xff, 3: 0x9b, 5: 1}:
		// 64:ff9b:1::/48, NAT64 of a network (RFC 8215): the address follows a prefix of
		// 48, 56, 64 or 96 bits, and skips byte 8 (RFC 6052).
		return []netip.Addr{v4(b[6], b[7], b[9], b[10]), v4(b[7], b[9], b[10], b[11]), v4(b[9], b[10], b[11], b[12]),
			last}
	case b[0] == 0x20 && b[1] == 0x02: // 6to4 (RFC 3056)
		return []netip.Addr{v4(b[2], b[3], b[4], b[5])}
	case [4]byte(b[:4]) == [4]byte{0x20, 0x01}: // Teredo (RFC 4380): its server, and the client with all bits inverted
		return []netip.Addr{v4(b[4], b[5], b[6], b[7]), v4(^b[12], ^b[13], ^b[14], ^b[15])}
	}
	return nil
}

// parseLoosely reads an IPv4 address as the C library does: one to four numbers,
// decimal, octal or hexadecimal. The last one fills the remaining bytes.
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
