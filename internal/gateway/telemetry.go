package gateway

import (
	"context"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/telemetry"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
	"github.com/patchbay-ai/patchbay/internal/wings/callsearch/callfile"
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

// openCallFile prepares to keep calls on disk, if that is wanted. Calls that were kept before
// are left alone otherwise.
func (g *Gateway) openCallFile(opened *cleanups) error {
	settings := g.Document.Monitoring.CallsFile
	if !settings.Enabled {
		return nil
	}
	keys, err := seal.New(g.Document.Security.MasterKey, g.Document.Security.PreviousMasterKey)
	if err != nil {
		return err
	}
	file, last, err := callfile.Open(callfile.Options{
		Dir: g.Store.Data().Path(""), Settings: settings, Keys: keys,
		IsFull: func() bool {
			disk := files.DiskOf(g.Store.Data().Path(""), g.Document.Files)
			return disk.IsFull()
		},
		Fault: func(operation, text string) { g.Recorder.NoteFault("calls-file", operation, text) }, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.callFile = file
	opened.add(file.Close)
	g.Recorder.ArchiveTo(file, last)
	return nil
}

// closeTelemetry ends it, after the last trace was sent.
func (g *Gateway) closeTelemetry(ctx context.Context) {
	if g.traces == nil {
		return
	}
	if err := g.traces.Close(ctx); err != nil {
		g.log.Warn("closing the connection to the collector of traces", "error", err)
	}
}
