package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestOpeningEndsWithItsContext: a store that cannot be dialled, or that takes
// connections and never answers, holds nobody up, and nothing runs on for it. The
// bubble of synctest fails where a goroutine is left.
func TestOpeningEndsWithItsContext(t *testing.T) {
	deaf := func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		return ours, nil
	}
	away := func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialer.Timeout)
		defer cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, test := range []struct {
		address string
		dial    dialFunc
	}{
		{"redis://a", deaf},
		{"redis+cluster://a,b", deaf},
		{"redis+sentinel://a,b/main", deaf},
		{"redis://a", away},
		{"redis+cluster://a,b", away},
		{"redis+sentinel://a,b/main", away},
	} {
		synctest.Test(t, func(t *testing.T) {
			option, err := parse(test.address)
			if err != nil {
				t.Fatal(err)
			}
			option.DialCtxFn = test.dial
			const patience = connectTime / 4
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(patience, cancel)
			began := time.Now()
			client, err := newClient(ctx, option)
			if took := time.Since(began); client != nil || !errors.Is(err, context.Canceled) || took != patience {
				t.Errorf("%s: %v after %v", test.address, err, took)
			}
			<-time.After(time.Minute) // the client library delays what it does by itself
		})
	}
}
