package main

import (
	"context"
	"time"

	"github.com/patchbay-ai/patchbay/internal/telemetry"
)

// openTelemetry prepares to send traces and metrics, as far as that is wanted.
func (g *gateway) openTelemetry(opened *closers) error {
	settings := g.doc.Telemetry
	if settings.Metrics {
		pusher, err := telemetry.NewPusher(telemetry.PusherOptions{
			Settings: settings, Version: version, Started: g.recorder.Registry().Started(),
			Gather:   g.ops.Exposition().Scrape,
			Interval: func() time.Duration { return g.recorder.Settings().CollectionInterval.Std() },
			Failed:   func(text string) { g.recorder.NoteFault("exporter", "metrics", text) },
		})
		if err != nil {
			return err
		}
		g.pusher = pusher
		opened.add(pusher.Close)
	}
	if !settings.Enabled {
		return nil
	}
	exporter, err := telemetry.Open(context.Background(), settings, version)
	if err != nil {
		return err
	}
	g.traces = exporter
	opened.add(func() { g.closeTelemetry(context.Background()) })
	g.recorder.Export(exporter.Export)
	g.recorder.TraceNew(settings.Sample)
	return nil
}

// closeTelemetry ends it, after the last trace was sent.
func (g *gateway) closeTelemetry(ctx context.Context) {
	if g.traces == nil {
		return
	}
	if err := g.traces.Close(ctx); err != nil {
		g.log.Warn("closing the connection to the collector of traces", "error", err)
	}
}
