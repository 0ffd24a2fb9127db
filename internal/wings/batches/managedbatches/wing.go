// Package managedbatches is the wing of files and batches: it opens them for a gateway, and
// lets operators see, cancel and delete the files and batches of all owners.
package managedbatches

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/batching"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// A gateway holds some memory for each file or batch that it keeps. All of it together may
// take a part of limits.memory. One part in batchPart of that is for batches.
const (
	memoryOfOne = 512
	memoryPart  = 16
	batchPart   = 5
	// leastAhead and mostAhead bound the memory for lines of batches that wait to run, which
	// is a part of limits.memory as well.
	leastAhead, mostAhead = 4 << 20, 64 << 20
)

// work is the files and batches of a gateway, with the settings that can change while it runs.
type work struct {
	core     *wing.Core
	engine   *batches.Engine // nil where batches are off
	files    *files.Store
	runner   *batching.Runner
	settings atomic.Pointer[batches.Settings]
	bounds   atomic.Pointer[files.Settings]
	closes   []func() // closes the opened stores, the last one last
}

// New returns the wing of files and batches.
func New(core *wing.Core) *wing.Wing {
	b := &work{core: core}
	b.set(core.Document)
	w := &wing.Wing{Kept: kept(), Routes: b.routes, Set: b.set, Close: b.close, Families: families[:]}
	w.Open = func() error {
		if !core.Document.Batches.Enabled {
			return nil
		}
		if err := b.open(); err != nil {
			return err
		}
		w.Doing, w.Run, w.Halt, w.Serve, w.State, w.Health = "running batches", b.engine.Run, b.engine.Halt,
			b.runner.Use, b.state, b.health
		return nil
	}
	return w
}

// set changes how large files and batches may be.
func (b *work) set(doc *config.Document) {
	settings, bounds := doc.Batches, doc.Files
	b.settings.Store(&settings)
	b.bounds.Store(&bounds)
}

// isShared reports whether gateways share their configuration, and so their files and batches.
func (b *work) isShared() bool { return b.core.Document.Store.Config != "" }

// known returns how many files and batches this gateway may keep in mind.
func (b *work) known() int {
	if b.isShared() {
		return math.MaxInt
	}
	return int(b.core.Memory.Limit() / memoryPart / memoryOfOne)
}

// fileSettings returns the settings of files, within the bounds of memory.
func (b *work) fileSettings() files.Settings {
	s := *b.bounds.Load()
	known := b.known()
	s.MaxFilesInAll = max(min(s.MaxFilesInAll, known-known/batchPart), 1)
	return s
}

// batchSettings returns the settings of batches, within the bounds of memory.
func (b *work) batchSettings() batches.Settings {
	s := *b.settings.Load()
	s.MaxKeptInAll = max(min(s.MaxKeptInAll, b.known()/batchPart), 1)
	return s
}

// open opens the files and batches.
func (b *work) open() error {
	doc, core := b.core.Document, b.core
	keys, err := doc.Security.MasterKeys()
	if err != nil {
		return err
	}
	path := func(name string) string { return store.Path(name, doc.Server.DataDir, doc.Files.Folder) }
	docs, end, err := pgdocuments.Open(doc.Store.Config, path(descriptions), core.Log)
	if err != nil {
		return fmt.Errorf("files.folder: %w", err)
	}
	b.closes = append(b.closes, end)
	leases := docs
	if !b.isShared() {
		leases = documents.NewMemory() // none outlives a gateway that is alone
	}
	if keys != nil {
		docs = documents.NewSigned(docs, keys, core.Log)
	}
	b.files, err = files.Open(files.Options{
		Documents: docs, Folder: path(contents), Keys: keys, Settings: b.fileSettings, Log: core.Log,
		IsShared: b.isShared(),
	})
	if err != nil {
		return fmt.Errorf("files.folder: %w", err)
	}
	b.runner = batching.NewRunner(core.Unified, core.Keys, core.Requests)
	b.engine = batches.New(batches.Options{
		Documents: docs, Leases: leases, Files: b.files, Folder: path(answers), Keys: keys,
		Settings:    b.batchSettings,
		LongestLine: b.longestLine, Retention: func() time.Duration { return b.bounds.Load().Retention.Std() },
		Ahead:     func() int64 { return min(max(core.Memory.Limit()/memoryPart, leastAhead), mostAhead) },
		IsRemoved: func(owner files.Owner) bool { return core.Credentials.IsRemoved(owner.Key, owner.Issue) },
		Runner:    b.runner, Log: core.Log, IsShared: b.isShared(),
	})
	return nil
}

func (b *work) close() {
	for len(b.closes) > 0 {
		last := len(b.closes) - 1
		b.closes[last]()
		b.closes = b.closes[:last]
	}
}

func (b *work) longestLine() int64 { return int64(b.core.Current.Load().Limits.JSONBody) }

// routes returns the endpoints of clients and the operations of operators.
func (b *work) routes() []web.Route {
	clients := batching.New(batching.Options{
		Engine: b.engine, Files: b.files, Keys: b.core.Keys, TrustedProxies: b.core.Document.Server.TrustedProxies,
		LongestLine: b.longestLine,
		LargestFile: func() int64 { return int64(b.bounds.Load().MaxSize) },
		MaxLines:    func() int { return b.settings.Load().MaxLines }, Log: b.core.Log,
	})
	return append(clients.Routes(), web.Group("Batches", readBatches, writeBatches, nil,
		append(b.managed(), b.inside()...))...)
}

// state adds the batches to the state for a scrape.
func (b *work) state(to *metrics.State, now time.Time) {
	s, disk := b.engine.Stats(now), b.files.Disk()
	to.Count("model_router_batches", int64(s.Open))
	to.Count("model_router_batch_lines_running", int64(s.Running))
	to.Count("model_router_batch_lines_total", int64(s.Ended.Done), "completed")
	to.Count("model_router_batch_lines_total", int64(s.Ended.Failed), "failed")
	to.Value("model_router_batch_stalled_seconds", s.Stalled.Seconds())
	to.Flag("model_router_files_healthy", !disk.IsFull())
}

// filesDetails say how much space there is for files and batches, and why it is too little.
type filesDetails struct {
	actuator.Dependency

	Total   int64 `json:"total"`
	Free    int64 `json:"free"`
	Reserve int64 `json:"reserve"`
}

// health is degraded while uploads are refused because the disk is full, or the files of all
// callers take as much as they may.
func (b *work) health(to map[string]actuator.Component) {
	disk := b.files.Disk()
	details := filesDetails{actuator.Dependency{Failures: disk.Refused}, disk.Total, disk.Free, disk.Reserve}
	if disk.IsFull() {
		details.Reason = "there is no more space than is reserved (files.reserve)"
		if !disk.Since.IsZero() {
			details.Since, details.Reason = web.Time(disk.Since), actuator.Shorten(disk.Reason)
		}
	}
	to["files"] = actuator.Component{IsDegraded: disk.IsFull(), Details: details}
}

// families are the metrics of batches and their files.
var families = [...]metrics.Family{
	{
		Name: "model_router_batches", Dotted: "model.router.batches", Kind: metrics.KindGauge,
		Category: metrics.CategoryCustom,
		Help:     "Batches that have not ended; only where batches are on, as all families of batches.",
	},
	{
		Name: "model_router_batch_lines_running", Dotted: "model.router.batch.lines.running", Kind: metrics.KindGauge,
		Category: metrics.CategoryCustom, Unit: "lines",
		Help: "Lines of batches that this gateway runs now.",
	},
	{
		Name: "model_router_batch_lines_total", Dotted: "model.router.batch.lines.total", Kind: metrics.KindCounter,
		Category: metrics.CategoryCustom, Unit: "lines", Labels: []string{"outcome"},
		Help: "Lines of batches that this gateway has run, by their end: completed or failed.",
	},
	{
		Name: "model_router_batch_stalled_seconds", Dotted: "model.router.batch.stalled", Kind: metrics.KindGauge,
		Category: metrics.CategoryCustom, Unit: "seconds",
		Help: "The longest time for which a batch with lines to run has ended none.",
	},
	{
		Name: "model_router_files_healthy", Dotted: "model.router.files.healthy", Kind: metrics.KindGauge,
		Category: metrics.CategoryCustom,
		Help: "1 while there is space for files and results of batches, 0 while the disk has no more than is " +
			"reserved, or the files of all take as much as they may.",
	},
}
