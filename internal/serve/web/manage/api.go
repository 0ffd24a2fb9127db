// Package manage is the management API: the operations under /api that read and
// change the configuration while the gateway runs, and the statuses of their
// errors.
package manage

import (
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
)

// API answers the management operations.
type API struct {
	options Options
}

// Options name the parts of the gateway that the API works on.
type Options struct {
	Control *control.Control
	Current *routing.Current
	// Credentials are the API keys and management tokens.
	Credentials *access.Credentials
	// Sessions are the sessions of browsers, nil where security is off.
	Sessions *sessions.Sessions
	// PublicURL decides the names of cookies.
	PublicURL web.PublicURL
	Ledger    *quota.Ledger
	// Budgets returns how much of every budget is used.
	Budgets func() []budget.Use
	// EditLedger changes the ledger.
	EditLedger func(quota.Edit)
	// Explain adds to an explanation the part of wings in it.
	Explain func(*explain.Explanation, survey.Subject)
	// Residency loads models and puts them to sleep.
	Residency *residency.Keeper
	// Client reaches the backends.
	Client *transport.Client
	// TrustedProxies may name the client's address.
	TrustedProxies []netip.Prefix
	Log            *slog.Logger

	// isOffline says that no gateway runs, and that every operation is allowed.
	isOffline bool
}

// New returns the management API.
func New(options Options) *API { return &API{options} }

// Offline answers the operations on keys and tokens while no gateway runs. The caller can
// write the data directory and therefore needs no token.
func Offline(credentials *access.Credentials, who access.Identity, trail web.Trail) http.Handler {
	a := &API{options: Options{Credentials: credentials, isOffline: true}}
	mux := http.NewServeMux()
	for _, route := range a.surface(a.fail).Routes("", append(a.keys(), a.tokens()...)) {
		mux.HandleFunc(route.Pattern, web.Ungated(route, who, trail))
	}
	return mux
}

// table returns the table in force.
func (a *API) table() *routing.Table { return a.options.Current.Load() }

// surface returns the properties that all operations have in common, apart from how they
// fail.
func (a *API) surface(fail func(http.ResponseWriter, *http.Request, error)) *web.Surface {
	return &web.Surface{
		Error: web.Fault{}, Enveloped: true, Fail: fail,
		Decode: func(c *web.Call, to any) (err error) {
			c.Given, err = config.DecodeJSON(c.Content, to)
			return err
		},
		Missing: func(name string, code say.Code) error { return web.BadInput(name, code) },
		Write:   func(w http.ResponseWriter, c *web.Call, value any) { web.Succeed(w, c.Status, c.Message, value) },
	}
}

// changeView is the data of a reply to a change.
type changeView struct {
	InstanceID string `json:"instanceId,omitzero"`
	// Version is the version in force.
	Version int            `json:"version"`
	Changed bool           `json:"changed"`
	Summary string         `json:"summary,omitzero"`
	Said    []say.Sentence `json:"said,omitzero" doc:"The summary as codes and values."`
	DryRun  bool           `json:"dryRun,omitzero"`
	// Changes are the differences that a dry run found.
	Changes []control.Difference `json:"changes,omitzero"`
	// Shares are the effects of a dry run of an instance on the instances of its model.
	Shares []shareChange `json:"shares,omitzero" doc:"By weight, of the model's enabled instances; in dry runs."`

	before int
}

func viewOf(result control.Result, isDry bool) changeView {
	view := changeView{
		Version: result.Version, Changed: result.Changed, Summary: result.Summary, Said: result.Said, DryRun: isDry,
		before: result.Before,
	}
	if isDry {
		view.Changes = result.Differences
	}
	return view
}

// Tell describes the outcome of the change. A dry run, and a change that changed nothing,
// have other messages than the one in the table.
func (v changeView) Tell(c *web.Call) {
	c.Change.Summary = v.Summary
	switch {
	case v.DryRun && v.Changed:
		c.Message = "Dry run: this would be changed; nothing was."
	case v.DryRun:
		c.Message = "Dry run: nothing would change."
	case !v.Changed:
		c.Status, c.Message = http.StatusOK, "Nothing changed."
	}
	if !v.DryRun {
		c.Change.Before, c.Change.After = v.before, v.Version
	}
}
