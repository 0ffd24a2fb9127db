// Package gateway assembles the program from its parts and runs it: it decides the order
// of opening, the routes, the effect of a reload, and how the gateway stops.
package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/see/telemetry"
	"github.com/patchbay-ai/patchbay/internal/serve/live"
	"github.com/patchbay-ai/patchbay/internal/serve/problems"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
	"github.com/patchbay-ai/patchbay/internal/serve/web/monitor"
	"github.com/patchbay-ai/patchbay/internal/serve/web/openapi"
	"github.com/patchbay-ai/patchbay/internal/serve/web/pages"
	"github.com/patchbay-ai/patchbay/internal/serve/web/peers"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// Gateway is the running program: New assembles it, Start serves, Stop ends it.
type Gateway struct {
	Parts

	log   *slog.Logger
	build actuator.Build
	// isDemo, more, moreWings and steps are Options.Demo, Options.Routes, Options.Wings and
	// Options.Steps.
	isDemo       bool
	more         []web.Route
	moreWings    []wing.New
	steps        []account.Step
	file         configFile
	book         *budget.Book                // nil where no key is known
	runsBook     atomic.Pointer[budget.Book] // of the runs of agents; nil where nobody governs them
	closeBook    func()
	attempts     *access.Attempts     // counts the wrong keys and tokens
	traces       *telemetry.Exporter  // nil when no traces are sent
	pusher       *telemetry.Pusher    // nil when no metrics are sent
	certificates *listen.Certificates // nil without encryption
	shell        *web.Shell
	// base is the context of all requests, and abort ends the requests that still run
	// when the grace period is over.
	base  context.Context
	abort context.CancelCauseFunc
	// served is closed when a port has stopped, for the reason in failure.
	served  chan struct{}
	failure error
	stopped sync.Once
	serving sync.WaitGroup // of the ports
	// background has the goroutines that run beside the requests until quit.
	background sync.WaitGroup
	quit       context.CancelFunc
	// sharing exchanges with other gateways until endSharing, after everything else.
	sharing    sync.WaitGroup
	endSharing context.CancelFunc
	checker    *backend.Checker
	finder     *discover.Finder
	sizes      *backend.SizeWatcher
	feed       *live.Feed // the events that people who watch the gateway see
	history    *live.Archive
	close      sync.Once
	wings      []*wing.Wing
	pages      *pages.Pages
	// setting guards read, the configuration as it was last read, and is held while the wings
	// get their settings.
	setting sync.Mutex
	read    *config.Document
	// usingLedger is held from the check whether the ledger is on until requests follow
	// it.
	usingLedger sync.Mutex
	patience    waiting.Patience // of the start
}

// Parts are the components of a gateway. New sets them, and nothing replaces them.
type Parts struct {
	wing.Core

	Actuator *actuator.API
	Routes   []web.Route // everything that is served
	Ports    []*Port     // where it is served
}

// Options are the choices that the configuration does not make.
type Options struct {
	// Build is the version that the gateway reports.
	Build actuator.Build
	// FromFile says that the configuration comes from a file: health and metrics then
	// report how reading it went.
	FromFile bool
	// Demo says that the backends are simulated, and Routes are served in addition to the
	// routes that every gateway has.
	Demo   bool
	Routes []web.Route
	// Steps run between admission and routing, before the steps of the configuration.
	Steps []account.Step
	// Wings are wings beside the ones that every gateway has.
	Wings []wing.New
	// AnswerTokens is how many tokens an answer without a limit is taken to have at most; 0 learns
	// it from earlier answers.
	AnswerTokens int64
	// KeepAlive is the time between two comments in a silent stream; 0 means the default
	// of the unified API.
	KeepAlive time.Duration
	// Patience is how long the start waits for stores that do not answer; 0 means 3 seconds.
	Patience time.Duration
}

// New assembles a gateway from a configuration and opens its listener. It
// answers no request before Start. The error is a *listen.InUseError or an
// *UnsafeError where one of these is the reason.
func New(doc *config.Document, log *slog.Logger, options Options) (_ *Gateway, err error) {
	if err := CheckListen(doc); err != nil {
		return nil, err
	}
	var opened cleanups
	defer func() {
		if err != nil {
			opened.run()
		}
	}()
	g := &Gateway{
		Parts: Parts{Core: wing.Core{Document: doc, Log: log, Current: new(routing.Current),
			SignIns: new(access.SignIns)}},
		log: log, build: options.Build, isDemo: options.Demo, more: options.Routes,
		moreWings: options.Wings, steps: options.Steps,
		served: make(chan struct{}), closeBook: func() {},
		patience: waiting.Patience{Total: cmp.Or(options.Patience, 3*time.Second)},
	}
	if options.FromFile {
		g.file.begin()
	}
	if err = g.listen(&opened); err != nil {
		return nil, err
	}
	if err = g.open(&opened); err != nil {
		return nil, err
	}
	if err = g.wire(options, &opened); err != nil {
		return nil, err
	}
	return g, nil
}

// open opens the gateway's stores and connections.
func (g *Gateway) open(opened *cleanups) (err error) {
	keys, err := g.Document.Security.MasterKeys()
	if err != nil {
		return err
	}
	if g.Store, err = files.Open(g.Document.Server.DataDir, keys); err != nil {
		return err
	}
	opened.add(func() { _ = g.Store.Close() })
	if g.ID, err = IDOf(g.Store.Data()); err != nil {
		return err
	}
	g.NewBook, g.IsDiskShort = g.newBookOf, g.isDiskShort
	g.wings = newWings(&g.Core, g.moreWings...)
	if g.Cluster, err = g.newCluster(time.Now()); err != nil {
		return err
	}
	g.Shared = g.newShared()
	opened.add(g.Shared.Close)
	g.Current.Share(g.Shared)
	if err = g.openFleet(); err != nil {
		return err
	}
	g.Current.Follow(g.Fleet)
	g.Transport = transport.New(transport.Options{})
	opened.add(g.Transport.Close)
	g.openResidency()
	for _, w := range g.wings {
		w.Read(g.Document)
	}
	if g.Credentials, err = access.OpenCredentials(g.Store.Data(), g.Document.Security.Settings, g.log,
		g.sharedLimits()); err != nil {
		return err
	}
	g.patience.Wait(context.Background(), func(ctx context.Context) {
		g.Control, err = openControl(ctx, g.Store, g.Document, g.Current, g.log, g.Credentials)
	})
	if err != nil {
		return err
	}
	opened.add(g.Control.Close)
	g.Control.FollowTerms(g.Credentials.SetTerms)
	g.read = g.Document.Clone()
	inForce, _ := g.Control.Document()
	g.Document.TakeManaged(inForce.Managed())
	g.shareCredentials()
	if g.knowsKeys() {
		g.book = g.newBook()
		g.closeBook = sync.OnceFunc(func() { writeLast(g.log, "what was spent of the budgets", g.book.Close) })
		opened.add(g.closeBook)
		g.Credentials.SetBook(g.book)
	}
	if err = g.openSessions(opened); err != nil {
		return err
	}
	g.attempts = access.NewAttempts(time.Now())
	g.Keys, g.Budgets = g.keys(), g.book.Uses
	g.Credentials.Warn()
	g.Recorder = calls.NewRecorder(g.Document.Monitoring.Settings)
	var families []metrics.Family
	for _, w := range g.wings {
		families = append(families, w.Families...)
	}
	g.Problems = problems.New(g.Recorder, g.Current, g.Budgets)
	g.Actuator, err = actuator.New(actuator.Options{
		Current: g.Current, Recorder: g.Recorder, Levels: logs.LevelsOf(g.log), Document: g.Document,
		Ledger:       func() quota.Stats { return g.Ledger.Stats() },
		Budgets:      g.book.Uses,
		BudgetLedger: g.book.Stats,
		Shared:       g.Shared.Stats,
		Exchange:     g.Exchange.Stats,
		Models:       g.Residency.States,
		State: func(to *metrics.State, now time.Time) {
			g.SignIns.State(to)
			for _, w := range g.wings {
				w.State(to, now)
			}
		},
		Families: families,
		Components: func(to map[string]actuator.Component) {
			for _, w := range g.wings {
				w.Health(to)
			}
		},
		Cluster:      g.Cluster.View,
		Config:       g.sources,
		Ready:        g.ready,
		Build:        g.build,
		Demo:         g.isDemo,
		LinesDropped: logs.Dropped(g.log),
		Panics:       logs.Panics(g.log),
	})
	if err != nil {
		return err
	}
	return g.openTelemetry(opened)
}

// openHistory opens the history for the console, and restores what it has.
func (g *Gateway) openHistory(sampler *live.Sampler) error {
	keys, err := g.Document.Security.MasterKeys()
	if err != nil {
		return err
	}
	g.history, err = live.OpenArchive(live.ArchiveOptions{
		Dir: g.Store.Data().Path(""), Settings: g.Document.Monitoring.History, Keys: keys, Sampler: sampler,
		IsFull: g.IsDiskShort, Flush: g.Recorder.Flush,
		Fault: func(operation, text string) { g.Recorder.NoteFault("history", operation, text) },
	}, time.Now())
	return err
}

// isDiskShort reports whether the rest of the disk is reserved for more important writes.
func (g *Gateway) isDiskShort() bool {
	space, err := durable.SpaceOf(g.Store.Data().Path(""))
	return err == nil && space.IsShort(cmp.Or(g.Document.ReservedSpace(), space.Reserve()))
}

// wire connects the parts that answer requests with the opened stores.
func (g *Gateway) wire(options Options, opened *cleanups) error {
	g.warnOfMissingCredentials()
	if g.Document.Security.ShowsSpending() {
		g.log.Warn("security is on and the metrics are open: anyone who reaches this address can read which keys "+
			"there are and what they spend; "+
			"set security.metrics: token and give scrapers a management token of the role VIEWER",
			"address", strings.Join(g.metricsAddresses(), ", "))
	}
	g.nameProxies(transport.EnvironmentProxies())
	g.Memory = memory.New(int64(g.Document.Limits.Memory))
	g.Credentials.SetMemory(g.Memory.Limit)
	g.Uploads = memory.NewRoom(g.Document.Limits.UploadSpace())
	g.checker = g.newChecker()
	g.sizes = g.newSizeWatcher()
	g.finder = discover.NewFinder(discover.FinderOptions{Current: g.Current, Client: g.Transport,
		Rebuild: g.Control.Rebuild, Log: g.log})
	g.Ledger = newLedger(g.Document, g.Shared, g.log)
	opened.add(g.closeLedger)
	requests := proxy.New(g.Current, g.Transport)
	g.Requests = requests
	requests.AssumeAnswers(options.AnswerTokens)
	requests.SetRecorder(g.Recorder)
	g.useLedger()
	requests.SetBodies(g.Memory.Bodies())
	requests.SetLog(g.log)
	requests.CommentAfter(options.KeepAlive)
	api := v1.New(requests, g.Current, v1.Options{
		Keys:           g.Keys,
		TrustedProxies: g.Document.Server.TrustedProxies, Memory: g.Memory, Uploads: g.Uploads,
		Recorder: g.Recorder, Log: g.log,
	})
	g.Unified = api
	for _, w := range g.wings {
		opened.add(func() { w.Close() }) // Open may replace it
		if err := w.Open(); err != nil {
			return err
		}
	}
	g.useSteps(g.Document)
	g.Control.FollowManaged(func() { g.set(nil) })
	management := manage.New(manage.Options{
		Control: g.Control, Current: g.Current, Credentials: g.Credentials, Sessions: g.Sessions, Ledger: g.Ledger,
		Budgets:    g.book.Uses,
		EditLedger: g.editLedger,
		Explain: func(view *explain.Explanation, asked survey.Subject) {
			for _, w := range g.wings {
				w.Explain(view, asked)
			}
		},
		Residency: g.Residency, Client: g.Transport, TrustedProxies: g.Document.Server.TrustedProxies, Log: g.log,
		PublicURL: web.PublicURL(g.Document.Server.PublicURL),
	})
	var err error
	if g.pages, err = g.newPages(); err != nil {
		return err
	}
	monitoring := monitor.New(monitor.Options{Recorder: g.Recorder, Problems: g.Problems, Current: g.Current,
		Version: g.Control.Version, Budgets: g.Budgets, Currency: g.currency})
	g.feed = monitoring.Feed()
	if err := g.openHistory(monitoring.Sampler()); err != nil {
		return err
	}
	g.feed.Observe(g.Current, g.Recorder, g.Control.Version)
	g.describe(surfaces{api, g.wings, management, g.Actuator, openapi.NewPages(), monitoring, g.pages,
		peers.New(g.Cluster.View)})
	g.shell = web.NewShell(nil, web.Options{
		Log: g.log, AccessLog: g.Document.Log.Access, AccessSample: g.Document.Log.AccessSample,
		AccessFields: g.Document.Log.AccessFields, Recorder: g.Recorder,
		Origins: g.Document.Server.CORSOrigins, KeysNeeded: g.Keys.Needed, Fail: fail,
	})
	g.base, g.abort = context.WithCancelCause(context.Background())
	for _, port := range g.Ports {
		shell := g.shell.With(g.newRouterOf(port))
		var handler http.Handler = shell
		if port.serves == onlyOllama {
			handler = v1.AtOllamaRoot(handler)
		}
		port.prepare(g.base, handler, g.log)
		if port.serves != onlyManagement {
			for _, w := range g.wings {
				w.Serve(shell)
			}
		}
	}
	return nil
}

// trail returns where operations of management are recorded, nil if no wing records them.
func (g *Gateway) trail() web.Trail {
	for _, w := range g.wings {
		if w.Trail != nil {
			return w.Trail
		}
	}
	return nil
}

// currency returns the currency of the prices in force.
func (g *Gateway) currency() string {
	doc, _ := g.Control.Document()
	return doc.Prices.Currency
}

// set puts the settings of wings in force: those of a configuration that was read again, nil for
// the one before, with the sections that management has changed. It returns that configuration.
func (g *Gateway) set(read *config.Document) *config.Document {
	g.setting.Lock()
	defer g.setting.Unlock()
	if read != nil {
		g.read = read
	}
	doc := g.read.Clone()
	inForce, _ := g.Control.Document()
	doc.TakeManaged(inForce.Managed())
	for _, w := range g.wings {
		w.Set(doc)
	}
	g.useSteps(doc)
	return doc
}

// useSteps puts the steps that are on between admission and routing.
func (g *Gateway) useSteps(doc *config.Document) {
	steps := slices.Clone(g.steps)
	for _, w := range g.wings {
		if step := w.Step(doc); step != nil {
			steps = append(steps, step)
		}
	}
	g.Requests.Use(steps...)
}

// newChecker returns the health checker of the instances in the table in force.
func (g *Gateway) newChecker() *backend.Checker {
	return backend.NewChecker(backend.CheckerOptions{
		Source:   g.instances,
		Settings: g.healthOf,
		Health:   func(i *backend.Instance) *backend.Health { return &i.Health },
		Client:   g.Transport,
		Log:      g.log,
	})
}

func (g *Gateway) instances() []*backend.Instance { return g.Current.Load().Instances() }

// healthOf returns the settings of the health checks of an instance.
func (g *Gateway) healthOf(i *backend.Instance) backend.HealthSettings {
	if service := g.Current.Load().Service(i.Service); service != nil {
		return service.Policy.HealthCheck
	}
	return backend.HealthSettings{}
}

// newSizeWatcher returns the watcher of the sizes of models.
func (g *Gateway) newSizeWatcher() *backend.SizeWatcher {
	return &backend.SizeWatcher{
		Source: g.instances, Settings: g.healthOf, Client: g.Transport, Log: g.log,
		Changed: func() { g.Current.Load().NoteSizes() },
	}
}
