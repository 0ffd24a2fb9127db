package gateway

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/quota/redisstore"
	"github.com/patchbay-ai/patchbay/internal/quota/sqlstore"
)

// newLedger returns the quota ledger with its journal and its stores, none of
// which is opened before the ledger is on.
func newLedger(doc *config.Document, log *slog.Logger) *quota.Ledger {
	return quota.New(doc.Quota, quota.Options{
		Dir: filepath.Join(doc.Server.DataDir, quota.JournalDir),
		OpenSnapshots: func(ctx context.Context) (quota.Snapshots, error) {
			store, err := sqlstore.Open(ctx, doc.Store.URL, doc.Server.DataDir)
			if err != nil {
				return nil, err
			}
			return store, nil
		},
		OpenCounter: func(ctx context.Context) (quota.Counter, error) {
			store, err := redisstore.Open(ctx, doc.Redis.URL, doc.Quota.Distributed.KeyPrefix)
			if err != nil {
				return nil, err
			}
			return store, nil
		},
		Log: log,
	})
}

// closeLedger writes what was counted. What cannot be written in time stays in
// the journal for the next start.
func (g *Gateway) closeLedger() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.Ledger.Close(ctx); err != nil {
		g.log.Warn("the quota ledger was not written whole; the next start does it", "error", err)
	}
}
