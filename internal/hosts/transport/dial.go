package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// dial opens a connection within limit (zero: none), name resolution and TLS
// included.
func (c *Client) dial(ctx context.Context, to Origin, limit time.Duration) (*conn, error) {
	nc, socket, err := c.open(ctx, to, limit)
	if err != nil {
		return nil, err
	}
	return newConn(c, to.target, nc, socket), nil
}

// Dial opens a connection that is nobody else's, for a protocol that a call asks for in
// place of HTTP. Limit is as in Timeouts.Connect. A proxy that passes plain requests on one
// by one cannot carry it.
func (c *Client) Dial(ctx context.Context, to *Origin, limit time.Duration) (net.Conn, error) {
	if to.prefix != "" {
		return nil, &Error{Step: stepConnect, Addr: to.addr, class: ErrConnect, cause: errNoTunnel}
	}
	nc, _, err := c.open(ctx, *to, limit)
	return nc, err
}

// errNoTunnel says that there is no way for a connection of its own.
var errNoTunnel = errors.New("the proxy takes plain requests only")

// open opens the connection of dial, and returns it with the socket below it.
func (c *Client) open(ctx context.Context, to Origin, limit time.Duration) (nc, socket net.Conn, err error) {
	bounded := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	nc, socket, err = c.reach(bounded, to)
	if err != nil {
		return nil, nil, connectError(ctx, bounded, to, err)
	}
	if !to.secure {
		return nc, socket, nil
	}
	config, err := c.secured(to)
	if err != nil {
		_ = socket.Close()
		return nil, nil, &Error{Step: stepConnect, Addr: to.addr, class: ErrConnect, cause: err}
	}
	secured := tls.Client(nc, config)
	if err := secured.HandshakeContext(bounded); err != nil {
		_ = socket.Close()
		return nil, nil, connectError(ctx, bounded, to, err)
	}
	return secured, socket, nil
}

// connectError returns the error of a connection that was not made: the caller's context
// has ended, the time for it is over, or it was refused.
func connectError(ctx, bounded context.Context, to Origin, err error) error {
	timeout, ok := errors.AsType[net.Error](err)
	isLate := ok && timeout.Timeout()
	if deadline, ok := ctx.Deadline(); ok && isLate && !time.Now().Before(deadline) {
		<-ctx.Done() // the dialer has a timer of its own for the deadline, which may run first
	}
	if ctx.Err() != nil {
		return ended(ctx, stepConnect, to.addr)
	}
	if bounded.Err() != nil || isLate {
		return &Error{Step: stepConnect, Addr: to.addr, class: ErrConnectTimeout}
	}
	return &Error{Step: stepConnect, Addr: to.addr, class: ErrConnect, cause: err}
}

// secureConfig derives the TLS settings of all connections from those given.
func secureConfig(given *tls.Config) *tls.Config {
	config := given.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	config.NextProtos = []string{"http/1.1"}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	// A request is of no use before it is whole: small first records would
	// only add system calls.
	config.DynamicRecordSizingDisabled = true
	if config.ClientSessionCache == nil {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(sessions)
	}
	return config
}

// sessions is how many TLS sessions are kept for resumption: more than there are
// backends, and little memory (a session is a few KiB).
const sessions = 256
