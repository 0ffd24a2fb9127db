package gateway

import (
	"log/slog"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
	"github.com/patchbay-ai/patchbay/internal/serve/web/monitor"
	"github.com/patchbay-ai/patchbay/internal/serve/web/openapi"
	"github.com/patchbay-ai/patchbay/internal/serve/web/pages"
	"github.com/patchbay-ai/patchbay/internal/serve/web/peers"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// OpenAPI returns the document that a gateway serves as /openapi.json, for readers
// without a running gateway. more are routes beside its own.
func OpenAPI(version string, more []web.Route) ([]byte, error) {
	settings := config.Default()
	operations, err := actuator.New(actuator.Options{Document: settings,
		Recorder: calls.NewRecorder(settings.Monitoring.Settings)})
	if err != nil {
		return nil, err
	}
	// The other parts only list their routes.
	all := surfaces{new(v1.API), closedWings(settings), new(manage.API), operations, openapi.NewPages(),
		new(monitor.API), new(pages.Pages), new(peers.API)}
	return openapi.Document(version, all.routes(more))
}

// closedWings returns the wings of a gateway that never opens.
func closedWings(settings *config.Document) []*wing.Wing {
	return newWings(&wing.Core{Document: settings, Current: new(routing.Current),
		Log: slog.New(slog.DiscardHandler), Unified: new(v1.API)})
}
