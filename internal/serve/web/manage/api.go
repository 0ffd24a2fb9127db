// Package manage is the management API: the operations under /api that read and
// change the configuration while the gateway runs, and the statuses of their
// errors.
package manage

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/say"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache/cachestep"
	"github.com/patchbay-ai/patchbay/internal/wings/spend"
)

// API answers the management operations.
type API struct {
	options Options
	spend   *spend.Reader
}

// Options are what the API works on.
type Options struct {
	Control *control.Control
	Current *routing.Current
	// Credentials are the API keys and management tokens.
	Credentials *access.Credentials
	Ledger      *quota.Ledger
	// Budgets returns how much of every budget is used.
	Budgets func() []budget.Use
	// EditLedger changes the ledger.
	EditLedger func(quota.Edit)
	// Cache is the cache of answers.
	Cache *cachestep.Cache
	// Processes are the model servers that the gateway runs.
	Processes Processes
	// Batches and Files are those of all owners, nil where they are off.
	Batches Batches
	Files   Files
	// Residency loads models and puts them to sleep.
	Residency *residency.Keeper
	// Client reaches the backends.
	Client *transport.Client
	// TrustedProxies may name the client's address.
	TrustedProxies []netip.Prefix
	Log            *slog.Logger
}

// New returns the management API.
func New(options Options) *API { return &API{options, spend.New(options.Ledger, options.Budgets)} }

// table returns the table in force.
func (a *API) table() *routing.Table { return a.options.Current.Load() }

// Operation answers a request, or returns why it cannot.
type Operation func(*Request) (Reply, error)

// Handle returns the HTTP handler of an operation.
func (a *API) Handle(op Operation) http.HandlerFunc { return handler(op, a.fail) }

// HandleQuota is Handle for the operations of the quota ledger, whose errors
// have codes.
func (a *API) HandleQuota(op Operation) http.HandlerFunc { return handler(op, a.failQuota) }

func handler(op Operation, fail func(http.ResponseWriter, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := readRequest(w, r)
		var answer Reply
		if err == nil {
			answer, err = op(q)
		}
		if err != nil {
			fail(w, err)
			return
		}
		change := web.ChangeOf(w)
		change.Summary, change.DryRun = answer.change, q.change.DryRun
		if answer.after != 0 {
			change.Before, change.After = answer.before, answer.after
		}
		if answer.cookie != nil {
			http.SetCookie(w, answer.cookie)
		}
		if answer.version != 0 {
			w.Header().Set("Etag", fmt.Sprintf(`"%d"`, answer.version))
		}
		if answer.document != nil {
			answer.document.write(w)
			return
		}
		if answer.stream != nil {
			web.StreamJSON(w, answer.stream)
			return
		}
		web.Succeed(w, cmp.Or(answer.status, http.StatusOK), answer.message, answer.data)
	}
}

// Reply is the result of a successful operation.
type Reply struct {
	status  int // 200 if 0
	message string
	data    any
	// stream is the whole envelope of a reply that is written piece by piece, in
	// place of message and data.
	stream json.MarshalerTo
	// document is sent in place of the envelope, if it is not nil.
	document *document
	// cookie is set in the browser that asked.
	cookie *http.Cookie
	// version is the version of what a read shows, sent as ETag for a later If-Match.
	version int
	// change says what a write did, and before and after are the versions before and
	// after it, for the audit log.
	change        string
	before, after int
}

// changed returns the reply to a change of the configuration. The message of a dry run,
// and of a change that changed nothing, is another one.
func changed(status int, message string, view changeView) Reply {
	answer := Reply{status: status, message: message, data: view, change: view.Summary}
	switch {
	case view.DryRun && view.Changed:
		answer.status, answer.message = http.StatusOK, "Dry run: this would be changed; nothing was."
	case view.DryRun:
		answer.status, answer.message = http.StatusOK, "Dry run: nothing would change."
	case !view.Changed:
		answer.status, answer.message = http.StatusOK, "Nothing changed."
	}
	if !view.DryRun {
		answer.before, answer.after = view.before, view.Version
	}
	return answer
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
	// Changes are what a dry run found.
	Changes []control.Difference `json:"changes,omitzero"`
	// Shares are what a dry run of an instance means for those of its model.
	Shares []shareChange `json:"shares,omitzero" doc:"Of the instances of the model, by weight among those that are enabled; in dry runs of an instance."`

	before int
}

func viewOf(result control.Result, change control.Change) changeView {
	view := changeView{Version: result.Version, Changed: result.Changed, Summary: result.Summary, Said: result.Said, DryRun: change.DryRun, before: result.Before}
	if change.DryRun {
		view.Changes = result.Differences
	}
	return view
}
