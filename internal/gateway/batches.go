package gateway

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/batches"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/documents"
	"github.com/patchbay-ai/patchbay/internal/files"
	"github.com/patchbay-ai/patchbay/internal/seal"
	"github.com/patchbay-ai/patchbay/internal/web/batching"
	v1 "github.com/patchbay-ai/patchbay/internal/web/v1"
)

// batchWork is the files and batches of the gateway, with the settings that can change while
// it runs.
type batchWork struct {
	engine   *batches.Engine // nil where batches are off
	files    *files.Store
	runner   *batching.Runner
	settings atomic.Pointer[batches.Settings]
	bounds   atomic.Pointer[files.Settings]
}

// set changes how large files and batches may be.
func (b *batchWork) set(doc *config.Document) {
	settings, bounds := doc.Batches, doc.Files
	b.settings.Store(&settings)
	b.bounds.Store(&bounds)
}

// errBatchesShared says why a gateway does not start.
var errBatchesShared = errors.New("batches.enabled: gateways that share their configuration (store.config) cannot share batches; turn them off")

// openBatches opens the files and batches, if they are on.
func (g *Gateway) openBatches(unified *v1.API) error {
	doc := g.Document
	b := new(batchWork)
	b.set(doc)
	g.batches = b
	if !doc.Batches.Enabled {
		return nil
	}
	if doc.Store.Config != "" {
		return errBatchesShared
	}
	keys, err := seal.New(doc.Security.MasterKey, doc.Security.PreviousMasterKey)
	if err != nil {
		return err
	}
	folder := doc.Files.Folder
	if folder == "" {
		folder = filepath.Join(doc.Server.DataDir, "batches")
	}
	docs, err := documents.OpenDir(filepath.Join(folder, "documents"), g.log)
	if err != nil {
		return err
	}
	b.files, err = files.Open(files.Options{
		Documents: docs, Folder: filepath.Join(folder, "contents"), Keys: keys, Settings: func() files.Settings { return *b.bounds.Load() }, Log: g.log,
	})
	if err != nil {
		return err
	}
	b.runner = batching.NewRunner(unified, g.keys(), g.Current)
	b.engine = batches.New(batches.Options{
		Documents: docs, Leases: documents.NewMemory(), Files: b.files, Folder: filepath.Join(folder, "answers"), Keys: keys,
		Settings:    func() batches.Settings { return *b.settings.Load() },
		LongestLine: g.longestLine, Retention: func() time.Duration { return b.bounds.Load().Retention.Std() },
		Runner: b.runner, Log: g.log,
	})
	return nil
}

func (g *Gateway) longestLine() int64 { return int64(g.Current.Load().Limits.JSONBody) }

// batchDoors returns the endpoints of files and batches.
func (g *Gateway) batchDoors() *batching.API {
	b := g.batches
	return batching.New(batching.Options{
		Engine: b.engine, Files: b.files, Keys: g.keys(), TrustedProxies: g.Document.Server.TrustedProxies, LongestLine: g.longestLine,
		LargestFile: func() int64 { return int64(b.bounds.Load().MaxSize) }, Log: g.log,
	})
}
