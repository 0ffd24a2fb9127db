// Package manage is the management API: the operations under /api that read and
// change the configuration while the gateway runs, and the statuses of their
// errors.
package manage

import (
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// API answers the management operations.
type API struct{ options Options }

// Options are what the API works on.
type Options struct {
	Control *control.Control
	Current *routing.Current
	Keys    *access.Keyring
	Ledger  *quota.Ledger
	// TrustedProxies may name the client's address.
	TrustedProxies []netip.Prefix
	Log            *slog.Logger
}

// New returns the management API.
func New(options Options) *API { return &API{options} }

// table returns the table in force.
func (a *API) table() *routing.Table { return a.options.Current.Load() }

// changed answers a change of the configuration.
func (a *API) changed(w http.ResponseWriter, status int, message string, view changeView) {
	record := web.RecordOf(w)
	record.Change, record.DryRun = view.Summary, view.DryRun
	if !view.DryRun {
		record.Before, record.After = view.before, view.Version
	}
	switch {
	case view.DryRun && view.Changed:
		status, message = http.StatusOK, "Dry run: this would be changed; nothing was."
	case view.DryRun:
		status, message = http.StatusOK, "Dry run: nothing would change."
	case !view.Changed:
		status, message = http.StatusOK, "Nothing changed."
	}
	web.Succeed(w, status, message, view)
}

// changeView is the data of a reply to a change.
type changeView struct {
	InstanceID string `json:"instanceId,omitzero"`
	// Version is the version in force.
	Version int    `json:"version"`
	Changed bool   `json:"changed"`
	Summary string `json:"summary,omitzero"`
	DryRun  bool   `json:"dryRun,omitzero"`
	// Changes are what a dry run found.
	Changes []control.Difference `json:"changes,omitzero"`

	before int
}

func viewOf(result control.Result, change control.Change) changeView {
	view := changeView{Version: result.Version, Changed: result.Changed, Summary: result.Summary, DryRun: change.DryRun, before: result.Before}
	if change.DryRun {
		view.Changes = result.Differences
	}
	return view
}
