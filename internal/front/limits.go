package front

import "time"

// What follows holds for the connections that net/http serves, too: package web sees to
// that, so that clients find no difference.

const (
	// BaseAllowance is how long a body may take to arrive, and a reply to be read, beside
	// a second for every BytesPerSecond bytes. That is enough for slow links, and closes
	// connections that are kept open by a few bytes now and then.
	BaseAllowance = 30 * time.Second
	// BytesPerSecond is the least speed of a transfer that lasts.
	BytesPerSecond = 64 << 10
	// ProbeAgain is when a client that may have left is probed a second time, because a
	// proxy between the gateway and the client may consume the first probe.
	ProbeAgain = 50 * time.Millisecond
	// Interim is the reply that probes a client before the head of its reply.
	Interim = "HTTP/1.1 100 Continue\r\n\r\n"
)

// Why a request is refused that another server could take for a different one. The first
// two are about the end of its body, the others about its head.
const (
	TwoLengths     = "The request has both Content-Length and Transfer-Encoding."
	ChunkedHTTP10  = "The request has Transfer-Encoding, which HTTP/1.0 does not know."
	BareLineFeed   = "The request is not valid HTTP: a line ends without a carriage return."
	RepeatedLength = "The request is not valid HTTP: it has two lengths."
)

// Allowance returns how long the transfer of so many bytes may take.
func Allowance(bytes int64) time.Duration {
	return BaseAllowance + time.Duration(bytes/BytesPerSecond)*time.Second
}
