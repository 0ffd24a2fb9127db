// Package wing is the seam between the gateway and its wings: the parts of the core that a
// wing may use, and the contributions that it may make. The core knows no wing by its name.
package wing

import (
	"context"
	"log/slog"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet/redisfleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/problems"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Core is the gateway as wings see it. Parts that are made later than a wing are nil at
// first; all of them are set when Wing.Open is called, and nothing replaces them.
type Core struct {
	Document  *config.Document // as it was at the start
	ID        string           // identifies this gateway among others
	Log       *slog.Logger
	Store     *files.Store      // the data directory
	Control   *control.Control  // changes the configuration
	Current   *routing.Current  // holds the table in force
	Transport *transport.Client // reaches the backends
	Ledger    *quota.Ledger
	Fleet     *fleet.Fleet         // the state of the backends, for choosing one
	Exchange  *redisfleet.Exchange // news that gateways exchange about it
	Residency *residency.Keeper    // loads models for requests and puts them to sleep
	Shared    *tally.Pool          // the counts that gateways share in Redis
	Cluster   *cluster.Watch       // the gateways that share the configuration
	Recorder  *calls.Recorder      // counts requests and keeps the latest calls
	Problems  *problems.Keeper     // what is wrong now
	Memory    *memory.Watch
	Uploads   *memory.Room // the space on disk for uploads
	Requests  *proxy.Proxy // sends requests to backends
	Unified   *v1.API      // the unified API
	// IsDiskShort reports whether the rest of the disk is reserved for more important writes.
	IsDiskShort func() bool
	// Budgets returns how much of every budget is used.
	Budgets func() []budget.Use
	// NewBook returns a book of runs with a ledger of its own, which has a journal in a folder.
	NewBook func(folder string, runs *budget.Runs) *budget.Book
	// Runs visits the runs of agents that are under way; nil where nobody governs them.
	Runs func(visit func(Run))
	// Credentials are the API keys and management tokens.
	Credentials *access.Credentials
	// Sessions are the sessions of browsers, nil where security is off.
	Sessions *sessions.Sessions
	// SignIns counts the sign-ins to management.
	SignIns *access.SignIns
	// Keys decides which keys are good. Where security is off, it accepts every caller.
	Keys access.Callers
}

// Run is an agent's run, as other wings than the one that governs it see it.
type Run struct {
	// ID is the public id, Owner the account that the run belongs to, such as key/ID, and Cost
	// the money that it has cost.
	ID, Owner string
	Cost      prices.Amount
	// Loop names the rule about loops that the run breaks since LoopsSince, empty if none.
	Loop       string
	LoopsSince time.Time
}

// Wing is a feature that the core does without. A function that is nil does nothing.
type Wing struct {
	// Kept declares what the wing stores, also for a gateway that never opens.
	Kept []store.Kept
	// Routes returns the endpoints of the wing. It is also called for a gateway that never
	// opens, to describe it.
	Routes func() []web.Route
	// Session returns the person to whom a session belongs, by the text in the cookie of a
	// browser. known is false for the text of another kind of session; the error says why a known
	// one is no longer good.
	Session func(text string, now time.Time) (who access.Identity, known bool, err error)
	// Read completes a configuration before it is compiled: the one of the start, and later ones
	// that are read again.
	Read func(*config.Document)
	// Open opens stores and connects the wing with the core, before the first request.
	Open func() error
	// Step returns the step between admission and routing, nil where the configuration has it
	// off.
	Step func(*config.Document) account.Step
	// Explain adds the wing to the explanation of a request's way.
	Explain func(*explain.Explanation, survey.Subject)
	// Set puts the settings of a configuration in force that was read again.
	Set func(*config.Document)
	// Run works beside the requests until its context ends; Doing describes that in logs.
	Run   func(context.Context)
	Doing string
	// Serve is called before the first request with the handler of each port that serves the
	// unified API.
	Serve func(*web.Shell)
	// Families are the metrics whose series State adds.
	Families []metrics.Family
	// State adds the wing to the state of the gateway for a scrape of the metrics.
	State func(to *metrics.State, now time.Time)
	// Health adds components to the health of the gateway.
	Health func(to map[string]actuator.Component)
	// Trail records the operations of management; nil where the wing records none. Open sets it.
	Trail web.Trail
	// Halt begins no further work, because the gateway stops.
	Halt func()
	// Close releases everything that Open opened. It is also called where Open failed.
	Close func()
}

// New makes a wing. It neither reads nor opens anything.
type New func(*Core) *Wing

// Make makes wings. Functions that a wing leaves out do nothing, but for Run and Session, which stay nil.
func Make(core *Core, list ...New) []*Wing {
	wings := make([]*Wing, len(list))
	for i, create := range list {
		w := create(core)
		wings[i] = w
		if w.Routes == nil {
			w.Routes = func() []web.Route { return nil }
		}
		if w.Read == nil {
			w.Read = func(*config.Document) {}
		}
		if w.Open == nil {
			w.Open = func() error { return nil }
		}
		if w.Step == nil {
			w.Step = func(*config.Document) account.Step { return nil }
		}
		if w.Explain == nil {
			w.Explain = func(*explain.Explanation, survey.Subject) {}
		}
		if w.Set == nil {
			w.Set = func(*config.Document) {}
		}
		if w.Serve == nil {
			w.Serve = func(*web.Shell) {}
		}
		if w.State == nil {
			w.State = func(*metrics.State, time.Time) {}
		}
		if w.Health == nil {
			w.Health = func(map[string]actuator.Component) {}
		}
		for _, end := range []*func(){&w.Halt, &w.Close} {
			if *end == nil {
				*end = func() {}
			}
		}
	}
	return wings
}
