package gateway

import (
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/batching"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/keeping"
)

// batchWork is the files and batches of the gateway, with the settings that can change while
// it runs.
type batchWork struct {
	engine   *batches.Engine // nil where batches are off
	files    *files.Store
	runner   *batching.Runner
	settings atomic.Pointer[batches.Settings]
	bounds   atomic.Pointer[files.Settings]
	close    func()
	// known returns how many files and batches this gateway may keep in mind.
	known func() int
}

// What this gateway knows of a file or a batch that it keeps takes some memory, and all of it
// together may take a part of limits.memory. One part in batchPart of that is for batches.
const (
	memoryOfOne = 512
	memoryPart  = 16
	batchPart   = 5
	// leastAhead and mostAhead bound the memory for lines of batches that wait to run, which
	// is a part of limits.memory as well.
	leastAhead, mostAhead = 4 << 20, 64 << 20
)

// fileSettings returns the settings of files, within what memory allows.
func (b *batchWork) fileSettings() files.Settings {
	s := *b.bounds.Load()
	known := b.known()
	s.MaxFilesInAll = max(min(s.MaxFilesInAll, known-known/batchPart), 1)
	return s
}

// batchSettings returns the settings of batches, within what memory allows.
func (b *batchWork) batchSettings() batches.Settings {
	s := *b.settings.Load()
	s.MaxKeptInAll = max(min(s.MaxKeptInAll, b.known()/batchPart), 1)
	return s
}

// set changes how large files and batches may be.
func (b *batchWork) set(doc *config.Document) {
	settings, bounds := doc.Batches, doc.Files
	b.settings.Store(&settings)
	b.bounds.Store(&bounds)
}

// openBatches opens the files and batches, if they are on. Gateways that share their
// configuration share them too.
func (g *Gateway) openBatches(unified *v1.API, opened *cleanups) error {
	doc := g.Document
	b := &batchWork{close: func() {}}
	b.set(doc)
	g.batches = b
	if !doc.Batches.Enabled {
		return nil
	}
	keys, err := seal.New(doc.Security.MasterKey, doc.Security.PreviousMasterKey)
	if err != nil {
		return err
	}
	folder := doc.Files.Folder
	if folder == "" {
		folder = filepath.Join(doc.Server.DataDir, "batches")
	}
	isShared := doc.Store.Config != ""
	b.known = func() int { return math.MaxInt }
	if !isShared {
		b.known = func() int { return int(g.Memory.Limit() / memoryPart / memoryOfOne) }
	}
	docs, leases, err := b.openDocuments(doc, folder, g.log)
	if err != nil {
		return err
	}
	opened.add(b.close)
	if keys != nil {
		signed := documents.NewSigned(docs, documents.SignedOptions{
			Keys: keys, Takeovers: g.Takeovers, WritesBefore: doc.Security.AcceptUnsigned, Kinds: append(files.Kinds(), keeping.Kinds()...), Log: g.log,
		})
		opened.add(signed.Close)
		docs = signed
		closeDocuments := b.close
		b.close = func() { signed.Close(); closeDocuments() }
	}
	b.files, err = files.Open(files.Options{
		Documents: docs, Folder: filepath.Join(folder, "contents"), Keys: keys, Settings: b.fileSettings, Log: g.log, IsShared: isShared, ReadableBefore: doc.Security.AcceptUnsigned,
	})
	if err != nil {
		return fmt.Errorf("files.folder: %w", err)
	}
	b.runner = batching.NewRunner(unified, g.Keys, g.Requests)
	b.engine = batches.New(batches.Options{
		Documents: docs, Leases: leases, Files: b.files, Folder: filepath.Join(folder, "answers"), Keys: keys,
		Settings:    b.batchSettings,
		LongestLine: g.longestLine, Retention: func() time.Duration { return b.bounds.Load().Retention.Std() },
		Ahead:     func() int64 { return min(max(g.Memory.Limit()/memoryPart, leastAhead), mostAhead) },
		IsRemoved: func(owner files.Owner) bool { return g.credentials.IsRemoved(owner.Key, owner.Issue) },
		Runner:    b.runner, Log: g.log, IsShared: isShared,
	})
	return nil
}

// openDocuments opens where batches are described and leased. A gateway that is alone keeps
// no leases beyond its own life.
func (b *batchWork) openDocuments(doc *config.Document, folder string, log *slog.Logger) (docs, leases documents.Store, err error) {
	if doc.Store.Config == "" {
		local, err := documents.OpenDir(filepath.Join(folder, "documents"), log)
		if err != nil {
			return nil, nil, fmt.Errorf("files.folder: %w", err)
		}
		return local, documents.NewMemory(), nil
	}
	shared, err := pgdocuments.New(doc.Store.Config)
	if err != nil {
		return nil, nil, err
	}
	b.close = shared.Close
	return shared, shared, nil
}

func (g *Gateway) longestLine() int64 { return int64(g.Current.Load().Limits.JSONBody) }

// all returns the batches of all owners, nil where they are off.
func (b *batchWork) all() manage.Batches {
	if b.engine == nil {
		return nil
	}
	return b.engine
}

// allFiles returns the files of all owners, nil where they are off.
func (b *batchWork) allFiles() manage.Files {
	if b.files == nil {
		return nil
	}
	return b.files
}

// batchesView returns what the gateway does for batches, nil where they are off.
func (g *Gateway) batchesView(now time.Time) *metrics.BatchesView {
	if g.batches == nil || g.batches.engine == nil {
		return nil
	}
	s := g.batches.engine.Stats(now)
	disk := g.filesDisk()
	return &metrics.BatchesView{IsFull: disk.IsFull(), Open: s.Open, Running: s.Running, Completed: int64(s.Ended.Done), Failed: int64(s.Ended.Failed), Stalled: s.Stalled}
}

// filesDisk returns the disk with files and batches, nil where they are off.
func (g *Gateway) filesDisk() *files.Disk {
	if g.batches == nil || g.batches.engine == nil {
		return nil
	}
	disk := g.batches.files.Disk()
	return &disk
}

// batchDoors returns the endpoints of files and batches.
func (g *Gateway) batchDoors() *batching.API {
	b := g.batches
	return batching.New(batching.Options{
		Engine: b.engine, Files: b.files, Keys: g.Keys, TrustedProxies: g.Document.Server.TrustedProxies, LongestLine: g.longestLine,
		LargestFile: func() int64 { return int64(b.bounds.Load().MaxSize) }, MaxLines: func() int { return b.settings.Load().MaxLines }, Log: g.log,
	})
}
