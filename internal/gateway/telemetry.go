package gateway

import (
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
	exporter, err := telemetry.Open(settings, g.build.Version, g.Recorder.Captured)
	if err != nil {
		return err
	}
	g.traces = exporter
	opened.add(exporter.Close)
	g.Recorder.Export(exporter.Export)
	g.Recorder.TraceNew(settings.Sample)
	return nil
}
