package socket

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// NewWing returns the wing of WebSockets.
func NewWing(core *wing.Core) *wing.Wing {
	doors := New(Options{Log: core.Log})
	return &wing.Wing{
		Routes: doors.Routes,
		Open: func() error {
			doors.options = Options{
				Current: core.Current, Keys: core.Keys, TrustedProxies: core.Document.Server.TrustedProxies,
				Memory: core.Memory, Proxy: core.Requests, Recorder: core.Recorder, Log: core.Log,
			}
			doors.set(core.Document)
			return nil
		},
		Set:      doors.set,
		Serve:    func(shell *web.Shell) { doors.ServeWith(shell) },
		Families: families[:],
		State: func(to *metrics.State, _ time.Time) {
			to.Count("model_router_websockets_open", int64(doors.Count()))
		},
		Halt: doors.Stop,
	}
}

// families are the metrics of this wing.
var families = [...]metrics.Family{
	{
		Name: "model_router_websockets_open", Dotted: "model.router.websockets.open", Kind: metrics.KindGauge,
		Category: metrics.CategoryRequest, Unit: "connections",
		Help: "WebSockets of clients that are open.",
	},
}
