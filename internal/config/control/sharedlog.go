package control

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// sharedLog is the log of versions in the database that gateways share, as this gateway
// uses it. Control.mu guards it, except that joined, following and Listen need no lock.
type sharedLog struct {
	versions.SealedShared

	values *Values
	// joined reports whether this gateway has ever read the log.
	joined atomic.Bool
	// following reports whether the database can be read.
	following condition.Condition
}

// newSharedLog returns a shared log that is guarded by a mutex, which its values take.
func newSharedLog(shared Shared, keys *seal.Keys, mu *sync.Mutex, log *slog.Logger) *sharedLog {
	if keys == nil {
		log.Warn("the keys of backends are stored as plain text in the database of the shared configuration; set " +
			"security.master-key to encrypt them")
	}
	sealed := versions.NewSealedShared(shared, keys)
	return &sharedLog{SealedShared: sealed, values: newValues(sealed, keys, mu, log)}
}

// logTransaction is a transaction on the shared log, with the head that the log had when
// it began, or has since the commit.
type logTransaction struct {
	Transaction

	head Head
}

func newLogTransaction(ctx context.Context, shared Shared, write bool) (*logTransaction, error) {
	tx, err := shared.Begin(ctx, write)
	if err != nil {
		return nil, err
	}
	head, err := tx.Head()
	if err != nil {
		tx.End()
		return nil, err
	}
	return &logTransaction{Transaction: tx, head: head}, nil
}

// refuse logs why a change could not be written to the shared log, and returns
// ErrUnavailable, which does not say why.
func refuse(log *slog.Logger, err error) error {
	log.Warn("a change was refused: the shared configuration cannot be written", "error", err)
	return ErrUnavailable
}
