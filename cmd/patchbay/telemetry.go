package main

import (
	"context"

	"github.com/patchbay-ai/patchbay/internal/telemetry"
)

// openTelemetry begins to send traces, if that is wanted.
func (g *gateway) openTelemetry() error {
	settings := g.doc.Telemetry
	if !settings.Enabled {
		return nil
	}
	exporter, err := telemetry.Open(context.Background(), settings, version)
	if err != nil {
		return err
	}
	g.traces = exporter
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
