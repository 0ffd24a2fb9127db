package gateway

import (
	"context"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/telemetry"
)

// openTelemetry prepares to send traces and metrics, as far as that is wanted.
func (g *Gateway) openTelemetry(opened *cleanups) error {
	settings := g.Document.Telemetry
	if settings.Metrics {
		pusher, err := telemetry.NewPusher(telemetry.PusherOptions{
			Settings: settings, Version: g.build.Version, Started: g.Recorder.Registry().Started(),
			Gather:   g.Actuator.Exposition().Scrape,
			Interval: func() time.Duration { return g.Recorder.Settings().CollectionInterval.Std() },
			Failed:   func(text string) { g.Recorder.NoteFault("exporter", "metrics", text) },
		})
		if err != nil {
			return err
		}
		g.pusher = pusher
		g.Recorder.Observe(pusher.Note)
		opened.add(pusher.Close)
	}
	if !settings.Enabled {
		return nil
	}
	exporter, err := telemetry.Open(context.Background(), settings, g.build.Version, g.Recorder.Captured)
	if err != nil {
		return err
	}
	g.traces = exporter
	opened.add(func() { g.closeTelemetry(context.Background()) })
	g.Recorder.Export(exporter.Export)
	g.Recorder.TraceNew(settings.Sample)
	return nil
}

// closeTelemetry ends the exports, after the last trace was sent.
func (g *Gateway) closeTelemetry(ctx context.Context) {
	if g.traces == nil {
		return
	}
	if err := g.traces.Close(ctx); err != nil {
		g.log.Warn("closing the connection to the collector of traces", "error", err)
	}
}
