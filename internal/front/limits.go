package front

import "time"

const (
	// BaseAllowance is how long a body may take to arrive, and a reply to be read, beside
	// a second for every BytesPerSecond bytes. That is enough for slow links, and closes
	// connections that are kept open by a few bytes now and then.
	BaseAllowance = 30 * time.Second
	// BytesPerSecond is the least speed of a transfer that lasts.
	BytesPerSecond = 64 << 10
	// probeAgain is when a client that may have left is probed a second time, because a
	// proxy between the gateway and the client may consume the first probe.
	probeAgain = 50 * time.Millisecond
	// interim is the reply that probes a client before the head of its reply.
	interim = "HTTP/1.1 100 Continue\r\n\r\n"
)

// Allowance returns how long the transfer of so many bytes may take.
func Allowance(bytes int64) time.Duration {
	return BaseAllowance + time.Duration(bytes/BytesPerSecond)*time.Second
}
