package discover

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
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

// Direct returns a Send for programs without a gateway.
func Direct(client *transport.Client) Send {
	return func(ctx context.Context, serviceType schema.ServiceType, settings backend.Settings,
		post string) (int, []byte, error) {
		service := config.DefaultService()
		service.Instances = []backend.Settings{settings}
		doc := config.Default()
		doc.Services = map[schema.ServiceType]config.Service{serviceType: service}
		if problems := doc.ValidateServices(kinds.Check); len(problems) > 0 {
			at := problems[0].Path
			return 0, nil, fmt.Errorf("%w: %s %s", ErrRefused, at[strings.LastIndexByte(at, '.')+1:],
				problems[0].Said)
		}
		table, err := routing.Compile(doc, nil, nil)
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return SendTo(ctx, client, table.Service(serviceType).Instance(settings.ID()), post)
	}
}
