// Package gateway assembles the program from its parts and runs it: it decides
// what is opened in which order, which routes there are, what a reload changes,
// and how the gateway stops.
package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/console"
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/control/files"
	"github.com/patchbay-ai/patchbay/internal/front"
	"github.com/patchbay-ai/patchbay/internal/live"
	"github.com/patchbay-ai/patchbay/internal/logs"
	"github.com/patchbay-ai/patchbay/internal/memory"
	"github.com/patchbay-ai/patchbay/internal/proxy"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/telemetry"
	"github.com/patchbay-ai/patchbay/internal/transport"
	"github.com/patchbay-ai/patchbay/internal/web"
	"github.com/patchbay-ai/patchbay/internal/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/web/manage"
	"github.com/patchbay-ai/patchbay/internal/web/monitor"
	"github.com/patchbay-ai/patchbay/internal/web/openapi"
	"github.com/patchbay-ai/patchbay/internal/web/pages"
	v1 "github.com/patchbay-ai/patchbay/internal/web/v1"
)

// Gateway is the running program: New assembles it, Start serves, Stop ends it.
type Gateway struct {
	Parts

	log   *slog.Logger
	build actuator.Build
	file  configFile
	// credentials are the API keys and management tokens, and attempts counts
	// the wrong ones.
	credentials *access.Credentials
	attempts    *access.Attempts
	traces      *telemetry.Exporter // nil when no traces are sent
	pusher      *telemetry.Pusher   // nil when no metrics are sent
	shell       *web.Shell
	front       *front.Server
	// abort ends the requests that still run when the grace period is over.
	abort context.CancelCauseFunc
	// served is closed when the server has stopped, for the reason in failure.
	served  chan struct{}
	failure error
	// background is what runs beside the requests until quit.
	background sync.WaitGroup
	quit       context.CancelFunc
	checker    *backend.Checker
	feed       *live.Feed // what people who watch the gateway see
	close      sync.Once
}

// Parts are what a gateway consists of. New sets them, and nothing replaces them.
type Parts struct {
	Document  *config.Document  // as it was at the start
	Store     *files.Store      // the data directory
	Control   *control.Control  // changes the configuration
	Current   *routing.Current  // holds the table in force
	Transport *transport.Client // reaches the backends
	Ledger    *quota.Ledger
	Recorder  *calls.Recorder // counts requests and keeps the latest calls
	Memory    *memory.Watch
	Actuator  *actuator.API
	Routes    []web.Route // everything that is served
	Listener  net.Listener
	Server    *http.Server // serves what the front does not
}

// Options are what the configuration does not decide.
type Options struct {
	// Build is the version that the gateway reports.
	Build actuator.Build
	// FromFile says that the configuration comes from a file: health and metrics
	// then tell how reading it went.
	FromFile bool
	// KeepAlive is the time between two comments in a stream in which nothing
	// happens; 0 means the default of the unified API.
	KeepAlive time.Duration
	// NetHTTP lets net/http serve everything, which otherwise serves what the front
	// does not. Clients see no difference.
	NetHTTP bool
}

// New assembles a gateway from a configuration and opens its listener. It
// answers no request before Start. The error is an *AddressInUseError or an
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
	g := &Gateway{Parts: Parts{Document: doc, Current: new(routing.Current)}, log: log, build: options.Build, served: make(chan struct{})}
	if options.FromFile {
		g.file.begin()
	}
	if g.Listener, err = listen(doc.Server.Listen); err != nil {
		return nil, err
	}
	opened.add(func() { _ = g.Listener.Close() })
	if err = g.open(&opened); err != nil {
		return nil, err
	}
	if err = g.wire(options, &opened); err != nil {
		return nil, err
	}
	return g, nil
}

// open opens what the gateway keeps and what it is connected to.
func (g *Gateway) open(opened *cleanups) (err error) {
	if g.Store, err = files.Open(g.Document.Server.DataDir); err != nil {
		return err
	}
	opened.add(func() { _ = g.Store.Close() })
	if g.Control, err = openControl(g.Store, g.Document, g.Current, g.log); err != nil {
		return err
	}
	opened.add(g.Control.Close)
	if g.credentials, err = access.OpenCredentials(g.Store.Data(), g.Document.Security, g.log); err != nil {
		return err
	}
	g.attempts = access.NewAttempts(time.Now())
	g.shareCredentials()
	g.Transport = transport.New(transport.Options{Control: transport.RefuseMetadata})
	opened.add(g.Transport.Close)
	g.Recorder = calls.NewRecorder(g.Document.Monitoring)
	g.Actuator, err = actuator.New(actuator.Options{
		Current: g.Current, Recorder: g.Recorder, Levels: logs.LevelsOf(g.log), Document: g.Document,
		Ledger:       func() quota.Stats { return g.Ledger.Stats() },
		Config:       g.sources,
		Ready:        g.ready,
		Build:        g.build,
		LinesDropped: logs.Dropped(g.log),
	})
	if err != nil {
		return err
	}
	return g.openTelemetry(opened)
}

// wire connects the parts that answer requests with what was opened.
func (g *Gateway) wire(options Options, opened *cleanups) error {
	g.warnIfOpen()
	g.nameProxies(transport.EnvironmentProxies())
	g.Memory = memory.New(int64(g.Document.Limits.Memory))
	g.checker = g.newChecker()
	g.Ledger = newLedger(g.Document, g.log)
	opened.add(g.closeLedger)
	requests := proxy.New(g.Current, g.Transport)
	requests.SetRecorder(g.Recorder)
	requests.SetLedger(g.Ledger)
	requests.CommentAfter(options.KeepAlive)
	api := v1.New(requests, g.Current, v1.Options{
		Keys: g.credentials, Attempts: g.attempts,
		TrustedProxies: g.Document.Server.TrustedProxies, Memory: g.Memory,
	})
	management := manage.New(manage.Options{
		Control: g.Control, Current: g.Current, Credentials: g.credentials, Ledger: g.Ledger, Client: g.Transport, TrustedProxies: g.Document.Server.TrustedProxies, Log: g.log,
	})
	consolePages, err := g.newPages()
	if err != nil {
		return err
	}
	monitoring := monitor.New(g.Recorder, g.Current, g.Control.Version)
	g.feed = monitoring.Feed()
	g.feed.Observe(g.Current, g.Recorder, g.Control.Version)
	router := g.newSurface(surfaces{api, management, g.Actuator, openapi.NewPages(), monitoring, consolePages})
	g.shell = web.NewShell(router, web.Options{
		Log: g.log, AccessLog: g.Document.Log.Access, AccessSample: g.Document.Log.AccessSample, Recorder: g.Recorder,
		Origins: g.Document.Server.CORSOrigins, Fail: fail,
	})
	g.Server = g.newServer()
	g.front = g.newFront(options.NetHTTP)
	return nil
}

// warnIfOpen warns where security is on and the unified API is open all the same.
func (g *Gateway) warnIfOpen() {
	if g.Document.Security.Enabled && g.credentials.Known() && g.credentials.Guard() == nil && !IsLoopback(g.Document.Server.Listen) {
		g.log.Warn("security is on and there is no key: anyone who reaches this address can use /v1; set security.keys, or issue a key with patchbay keys create",
			"address", g.Document.Server.Listen)
	}
}

// newPages returns the pages of the console.
func (g *Gateway) newPages() (*pages.Pages, error) {
	files, err := console.Files()
	if err != nil {
		return nil, fmt.Errorf("the console: %w", err)
	}
	return pages.New(files, g.build.Version, v1.NotFound)
}

// newSurface puts all that answers behind the gate.
func (g *Gateway) newSurface(s surfaces) *web.Router {
	settings := g.Document.Security
	if settings.Enabled && g.credentials.Known() && g.credentials.Roster().Empty() {
		g.log.Warn("security is on and there is no management token: nobody can use the management API; " +
			"set security.tokens, or issue one with patchbay tokens issue while the gateway is stopped")
	}
	hosts := settings.AllowedHosts
	if host, _, err := net.SplitHostPort(g.Document.Server.Listen); err == nil {
		hosts = append([]string{host}, hosts...)
	}
	gate := web.NewGate(web.GateOptions{
		Roster:         g.credentials.Roster,
		Attempts:       g.attempts,
		Ready:          g.readiness(),
		NotReady:       notReady,
		AllowOpen:      settings.AllowOpen,
		Loopback:       IsLoopback(g.Document.Server.Listen),
		Hosts:          hosts,
		TrustedProxies: g.Document.Server.TrustedProxies,
		Version:        g.Control.Version,
		Log:            g.log,
	})
	g.Routes = s.routes()
	s.docs.Describe(g.build.Version, g.Routes)
	return newRouter(g.Routes, gate)
}

// newChecker returns the health checker of the instances in the table in force.
func (g *Gateway) newChecker() *backend.Checker {
	return backend.NewChecker(backend.CheckerOptions{
		Source: func() []*backend.Instance { return g.Current.Load().Instances() },
		Settings: func(i *backend.Instance) backend.HealthSettings {
			if service := g.Current.Load().Service(i.Service); service != nil {
				return service.Policy.HealthCheck
			}
			return backend.HealthSettings{}
		},
		Health: func(i *backend.Instance) *backend.Health { return &i.Health },
		Client: g.Transport,
		Log:    g.log,
	})
}

// newServer returns the HTTP server, with the limits that are off by default.
func (g *Gateway) newServer() *http.Server {
	base, abort := context.WithCancelCause(context.Background())
	g.abort = abort
	return &http.Server{
		Handler: g.shell,
		// A head that takes longer is an attack or a dead connection.
		ReadHeaderTimeout: 15 * time.Second,
		// No ReadTimeout and no WriteTimeout: both count from the start of a
		// request and would cut long streams. web.Conn waits for bodies and for
		// readers, and not for ever.
		IdleTimeout:    120 * time.Second,
		MaxHeaderBytes: web.MaxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		BaseContext:    func(net.Listener) context.Context { return base },
		ConnContext:    web.ConnContext,
		ConnState:      web.ConnState,
	}
}

// Start begins to answer requests, until Stop.
func (g *Gateway) Start() {
	ctx, quit := context.WithCancel(context.Background())
	g.quit = quit
	g.background.Go(func() { g.checker.Run(ctx) })
	g.background.Go(func() { g.Memory.Run(ctx) })
	g.background.Go(func() { g.Control.Follow(ctx) })
	g.background.Go(func() { g.Recorder.Run(ctx) })
	g.background.Go(func() { g.feed.Run(ctx) })
	if g.pusher != nil {
		g.background.Go(func() { g.pusher.Run(ctx) })
	}
	g.front.Start(g.Listener)
	go func() {
		defer close(g.served)
		g.failure = g.front.Serve()
	}()
}

// Done returns a channel that is closed when the gateway no longer serves; Err
// then says why.
func (g *Gateway) Done() <-chan struct{} { return g.served }

// Err returns why the listener failed, once Done is closed.
func (g *Gateway) Err() error { return g.failure }

// Address returns where the gateway listens.
func (g *Gateway) Address() string { return g.Listener.Addr().String() }

// Stop waits for the running requests until ctx ends, then aborts them, and closes
// everything. The listener stays open until the requests that ran at the beginning have
// ended, so that probes see that the gateway is not ready.
func (g *Gateway) Stop(ctx context.Context) {
	g.close.Do(func() {
		g.Actuator.Drain()
		g.Recorder.EndStreams()
		g.feed.Close()
		grace, cancel := context.WithTimeout(ctx, g.Document.Server.ShutdownGrace.Std())
		defer cancel()
		if g.shell.Drain(grace, func() { _ = g.Listener.Close() }) != nil {
			g.abort(web.ErrStopping)
		}
		// What is left has its answer or its error; this is the time to write it.
		last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancelLast()
		_ = g.Listener.Close()
		_ = g.front.Shutdown(last)
		g.front.Close()
		<-g.served
		g.abort(web.ErrStopping)
		g.quit()
		g.background.Wait()
		g.closeTelemetry(last)
		g.Transport.Close()
		g.closeLedger()
		if err := g.Store.Close(); err != nil {
			g.log.Error("closing the store", "error", err)
		}
	})
}
