package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// pause is the time between two attempts of a Lazy to connect.
const pause = time.Second

var (
	errClosed       = errors.New("the connection to Redis is closed")
	errNotConnected = errors.New("there is no connection to Redis")
)

// Lazy is a connection that is made at its first use, for stores that a gateway can start
// and work without.
type Lazy struct {
	address string

	mu     sync.Mutex
	client rueidis.Client // nil until it is connected
	tried  time.Time      // when the last attempt to connect failed
	closed bool
}

// NewLazy returns a connection to an address that is not made yet.
func NewLazy(address string) *Lazy { return &Lazy{address: address} }

// Connect returns the connection. It tries to connect at most once a second. Errors never
// contain the address, which may hold a password.
func (l *Lazy) Connect(ctx context.Context) (rueidis.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errClosed
	case l.client != nil:
		return l.client, nil
	case time.Since(l.tried) < pause:
		return nil, errNotConnected
	}
	client, err := Connect(ctx, l.address)
	if err != nil {
		l.tried = time.Now()
		return nil, err
	}
	l.client = client
	return client, nil
}

// Close closes the connection for good.
func (l *Lazy) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.client != nil {
		l.client.Close()
	}
}
