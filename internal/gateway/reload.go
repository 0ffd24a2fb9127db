package gateway

import (
	"context"
	"errors"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
)

// ErrEmptyFile says that the configuration file is empty. Most likely somebody
// is writing it, so a reload changes nothing.
var ErrEmptyFile = errors.New("the file is empty; the running configuration stays")

// Reload reads the configuration again and puts it in force, except for the settings that
// only a start can change. A configuration that cannot be read changes nothing.
func (g *Gateway) Reload(ctx context.Context, load func() (*config.Document, error)) {
	if g.certificates != nil {
		g.certificates.Reload()
	}
	doc, err := load()
	if errors.Is(err, ErrEmptyFile) {
		g.file.read(err.Error())
		g.log.Warn("the configuration file is empty; the running configuration stays")
		return
	}
	if err != nil {
		g.file.read(err.Error())
		g.log.Error("the configuration file has mistakes; the running configuration stays", "error", err)
		return
	}
	for _, w := range g.wings {
		w.Read(doc)
	}
	changed, err := g.Control.Reload(ctx, doc)
	switch {
	case errors.Is(err, control.ErrUnavailable):
		// Only the shared settings wait for the others.
		g.log.Warn("the services and limits of the configuration file wait for the database of the shared "+
			"configuration", "error", err)
	case err != nil:
		g.file.read(err.Error())
		g.log.Error("the configuration was not taken; the running one stays", "error", err)
		return
	case !changed: // else control has logged the change
		g.log.Info("configuration read again; nothing changed", "version", g.Control.Version())
	}
	g.file.read("")
	g.Ledger.Reload(doc.Quota)
	g.useLedger()
	doc = g.set(doc)
	g.Memory.SetLimit(int64(doc.Limits.Memory))
	g.Uploads.SetLimit(doc.Limits.UploadSpace())
	if parts := g.Document.NeedRestart(doc); len(parts) > 0 {
		g.log.Warn("these settings changed and take effect at the next start", "settings", parts)
	}
}
