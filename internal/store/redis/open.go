package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/redis/rueidis"
)

// Connect returns a client that is connected to the Redis at an address. Errors never contain the
// address, which may hold a
// password.
func Connect(ctx context.Context, address string) (rueidis.Client, error) {
	option, err := parse(address)
	if err != nil {
		return nil, err
	}
	return newClient(ctx, option)
}

// newClient returns a client that is connected. The client library takes no
// context for that, but gives up when its connections do, so the end of the context
// closes them.
func newClient(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	o := &opening{ctx: ctx, dial: option.DialCtxFn}
	if o.dial == nil {
		o.dial = dialTCP
	}
	option.DialCtxFn = o.connect
	client, err := rueidis.NewClient(option)
	if late := o.end(); late != nil {
		if err == nil {
			client.Close()
		}
		return nil, late
	}
	if err != nil {
		return nil, err
	}
	return client, nil
}

type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// opening makes the connections of a client. If the caller's context ends before the
// client is ready, its connections are closed.
type opening struct {
	ctx  context.Context
	dial dialFunc

	mu    sync.Mutex
	ended bool
	stops []func() bool // each lets a connection outlive the context
}

// connect makes a connection.
func (o *opening) connect(ctx context.Context, address string, dialer *net.Dialer,
	settings *tls.Config) (net.Conn, error) {
	if o.isEnded() {
		return o.dial(ctx, address, dialer, settings)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.ctx, cancel)()
	conn, err := o.dial(ctx, address, dialer, settings)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.stops = append(o.stops, context.AfterFunc(o.ctx, func() { _ = conn.Close() }))
	}
	return conn, nil
}

func (o *opening) isEnded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// end lets the connections outlive the context. It returns the context's error if
// that has ended before.
func (o *opening) end() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for _, stop := range o.stops {
		stop()
	}
	o.stops = nil
	return o.ctx.Err()
}

// dialTCP does the same as the client library's own dialer.
func dialTCP(ctx context.Context, address string, dialer *net.Dialer, settings *tls.Config) (net.Conn, error) {
	if settings == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}
	secure := tls.Dialer{NetDialer: dialer, Config: settings}
	return secure.DialContext(ctx, "tcp", address)
}
