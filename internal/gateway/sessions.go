package gateway

import (
	"context"
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
)

// openSessions opens the list of the sessions of browsers: in the data directory or, where
// gateways share their configuration, beside that in PostgreSQL. Without security there is none.
func (g *Gateway) openSessions(opened *cleanups) error {
	security, isShared := g.Document.Security, g.Document.Store.Config != ""
	if !security.Enabled {
		return nil
	}
	keys, err := security.MasterKeys()
	if err != nil {
		return err
	}
	docs, end, err := pgdocuments.Open(g.Document.Store.Config, g.Store.Data().Path(sessions.Folder), g.log)
	if err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	opened.add(end)
	if keys != nil {
		docs = documents.NewSigned(docs, keys, g.log)
	}
	g.patience.Wait(context.Background(), func(ctx context.Context) {
		g.Sessions, err = sessions.Open(ctx, sessions.Options{Documents: docs, IsShared: isShared,
			Life: security.Session.Life(), Log: g.log})
	})
	return err
}
