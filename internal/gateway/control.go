package gateway

import (
	"context"
	"log/slog"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// openControl opens the configuration in the data directory, or the one that is shared
// with other gateways.
func openControl(ctx context.Context, store *files.Store, doc *config.Document, current *routing.Current,
	log *slog.Logger, credentials *access.Credentials) (*control.Control, error) {
	opening := control.Opening{Store: store, Document: doc, Current: current, Log: log}
	if doc.Store.Config != "" {
		shared, err := pglog.New(doc.Store.Config, credentials.MasterKeys())
		if err != nil {
			return nil, err
		}
		opening.Shared = shared
	}
	return opening.Open(ctx)
}
