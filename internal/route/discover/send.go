package discover

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// CallOf returns the call of a Send: of the path of an instance, with its headers and its
// credential.
func CallOf(ctx context.Context, instance *backend.Instance, post string) (*wire.Call, error) {
	method := http.MethodGet
	if post != "" {
		method = http.MethodPost
	}
	return backend.NewCall(ctx, instance.Target, method, instance.Target.Path, post)
}

// SendTo calls the path of an instance as a Send does. The error says why the backend could
// not be asked, without its address.
func SendTo(
	ctx context.Context, client *transport.Client, instance *backend.Instance, post string,
) (status int, body []byte, err error) {
	call, err := CallOf(ctx, instance, post)
	if err != nil {
		return 0, nil, err
	}
	response, err := client.Send(ctx, &instance.Origin, call,
		transport.Timeouts{Connect: 5 * time.Second, FirstByte: 10 * time.Second, Idle: 10 * time.Second})
	if err != nil {
		return 0, nil, reachError(err)
	}
	defer func() { _ = response.Close() }()
	body, err = io.ReadAll(io.LimitReader(response, MaxList))
	if err != nil && response.Status == http.StatusOK {
		return 0, nil, reachError(err)
	}
	return response.Status, body, nil
}

// reachError says why a backend could not be asked, without its address.
func reachError(err error) error {
	if cause := transport.CauseOf(err).Said(); cause.Is() {
		return say.Error("discover.unreached", "cause", cause)
	}
	return say.Error("discover.unasked")
}
