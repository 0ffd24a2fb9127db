package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

// A call is unsent until the backend has it: where nobody answers the door, the caller
// leaves before it is opened, or the call cannot be written. One that was read and broke off
// is not.
func TestUnsentIsWhatNoBackendGot(t *testing.T) {
	var backend sync.WaitGroup
	defer backend.Wait()
	gone, leave := context.WithCancel(t.Context())
	for name, test := range map[string]struct {
		ctx    context.Context
		dial   func(context.Context) (net.Conn, error)
		method string
		want   bool
	}{
		"refused": {t.Context(), func(context.Context) (net.Conn, error) { return nil, errors.New("refused") }, "POST", true},
		"the caller leaves": {gone, func(ctx context.Context) (net.Conn, error) {
			leave()
			<-ctx.Done()
			return nil, ctx.Err()
		}, "POST", true},
		"no valid call": {t.Context(), nil, "PO ST", true},
		"read and broken off": {t.Context(), func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			backend.Go(func() {
				_, _ = io.ReadFull(there, make([]byte, 10))
				_ = there.Close()
			})
			return here, nil
		}, "POST", false},
	} {
		t.Run(name, func(t *testing.T) {
			client := New(Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return test.dial(ctx) }})
			defer client.Close()
			to, err := ParseOrigin("http://backend.test")
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Send(test.ctx, &to, &wire.Call{Method: test.method, Path: "/"}, Timeouts{})
			if err == nil || Unsent(err) != test.want {
				t.Errorf("%v: unsent %v", err, Unsent(err))
			}
		})
	}
	if Unsent(nil) || Unsent(io.EOF) {
		t.Error("what is no failure of a call is unsent")
	}
}
