package gateway

import (
	"context"
	"log/slog"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/control/files"
	"github.com/patchbay-ai/patchbay/internal/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/routing"
)

// openControl opens the configuration in the data directory, or the one that is
// shared with other gateways.
func openControl(store *files.Store, doc *config.Document, current *routing.Current, log *slog.Logger) (*control.Control, error) {
	if doc.Store.Config == "" {
		return control.Open(store, doc, current, log)
	}
	shared, err := pglog.New(doc.Store.Config)
	if err != nil {
		return nil, err
	}
	return control.OpenShared(context.Background(), store, doc, current, log, shared)
}
