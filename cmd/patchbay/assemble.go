package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/control"
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
	"github.com/patchbay-ai/patchbay/internal/web/openapi"
	v1 "github.com/patchbay-ai/patchbay/internal/web/v1"
)

// gateway is the running program: everything is wired here, once.
type gateway struct {
	doc     *config.Document
	log     *slog.Logger
	store   *control.Store
	control *control.Control
	file    configFile
	current *routing.Current
	client  *transport.Client
	ledger  *quota.Ledger
	ops     *actuator.API
	// credentials are the API keys and management tokens, and attempts counts
	// the wrong ones.
	credentials *access.Credentials
	attempts    *access.Attempts
	// recorder counts what happens and remembers the latest calls.
	recorder *calls.Recorder
	traces   *telemetry.Exporter // nil when no traces are sent
	pusher   *telemetry.Pusher   // nil when no metrics are
	routes   []web.Route
	shell    *web.Shell
	server   *http.Server
	// abort ends the requests that are still running when the grace is over.
	abort    context.CancelCauseFunc
	listener net.Listener
	// served is closed when the server has stopped, for the reason in failure.
	served  chan struct{}
	failure error
	// background is what runs beside the requests until quit.
	background sync.WaitGroup
	quit       context.CancelFunc
	checker    *backend.Checker
	memory     *memory.Watch
	close      sync.Once
}

// assemble wires a gateway from a configuration and opens its listener. Nothing
// is answered before serve. The options are those of the unified API that the
// configuration does not decide.
func assemble(doc *config.Document, log *slog.Logger, options v1.Options) (_ *gateway, err error) {
	if err := mayListen(doc); err != nil {
		return nil, err
	}
	var opened closers
	defer func() {
		if err != nil {
			opened.run()
		}
	}()
	g := &gateway{doc: doc, log: log, current: new(routing.Current), served: make(chan struct{})}
	if g.listener, err = listen(doc.Server.Listen); err != nil {
		return nil, err
	}
	opened.add(func() { _ = g.listener.Close() })
	if err = g.open(&opened); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	if err := g.wire(options, &opened); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	return g, nil
}

// open opens what the gateway keeps and what it is connected to.
func (g *gateway) open(opened *closers) (err error) {
	if g.store, err = control.OpenStore(g.doc.Server.DataDir); err != nil {
		return err
	}
	opened.add(func() { _ = g.store.Close() })
	if g.control, err = openControl(g.store, g.doc, g.current, g.log); err != nil {
		return err
	}
	opened.add(g.control.Close)
	if g.credentials, err = access.OpenCredentials(g.store.Data(), g.doc.Security, g.log); err != nil {
		return err
	}
	g.attempts = access.NewAttempts(time.Now())
	g.shareCredentials()
	g.client = transport.New(transport.Options{Control: transport.RefuseMetadata})
	opened.add(g.client.Close)
	g.recorder = calls.NewRecorder(g.doc.Monitoring)
	g.ops, err = actuator.New(actuator.Options{
		Current: g.current, Recorder: g.recorder, Levels: logs.LevelsOf(g.log), Document: g.doc,
		Ledger: func() quota.Stats { return g.ledger.Stats() },
		Config: g.sources,
		Ready:  g.ready,
		Build:  buildOf(debug.ReadBuildInfo()),
	})
	if err != nil {
		return err
	}
	return g.openTelemetry(opened)
}

// wire connects the parts that answer requests with what was opened.
func (g *gateway) wire(options v1.Options, opened *closers) error {
	g.warnIfOpen()
	options.Keys, options.Attempts = g.credentials, g.attempts
	g.nameProxies(transport.EnvironmentProxies())
	options.Recorder = g.recorder
	options.TrustedProxies = g.doc.Server.TrustedProxies
	g.memory = memory.New(int64(g.doc.Limits.Memory))
	options.Memory = g.memory
	g.checker = g.newChecker()
	g.ledger = newLedger(g.doc, g.log)
	opened.add(g.closeLedger)
	requests := proxy.New(g.current, g.client)
	requests.Record(g.recorder)
	requests.Count(g.ledger)
	api := v1.New(requests, g.current, options)
	management := manage.New(manage.Options{
		Control: g.control, Current: g.current, Credentials: g.credentials, Ledger: g.ledger, TrustedProxies: g.doc.Server.TrustedProxies, Log: g.log,
	})
	router, err := g.newSurface(surfaces{api, management, g.ops, openapi.NewPages(), manage.NewMonitoring(g.recorder, g.current)})
	if err != nil {
		return err
	}
	g.shell = web.NewShell(router, web.Options{
		Log: g.log, AccessLog: g.doc.Log.Access, AccessSample: g.doc.Log.AccessSample, Recorder: g.recorder,
		Origins: g.doc.Server.CORSOrigins, Fail: fail,
	})
	g.server = g.newServer()
	return nil
}

// warnIfOpen says that security alone shuts nobody out of the unified API.
func (g *gateway) warnIfOpen() {
	if g.doc.Security.Enabled && g.credentials.Known() && g.credentials.Guard() == nil && !isLoopback(g.doc.Server.Listen) {
		g.log.Warn("security is on and there is no key: anyone who reaches this address can use /v1; set security.keys, or issue a key with patchbay keys create",
			"address", g.doc.Server.Listen)
	}
}

// newSurface puts all that answers behind the gate.
func (g *gateway) newSurface(s surfaces) (*web.Router, error) {
	settings := g.doc.Security
	if settings.Enabled && g.credentials.Known() && g.credentials.Roster().Empty() {
		g.log.Warn("security is on and there is no management token: nobody can use the management API; " +
			"set security.tokens, or issue one with patchbay tokens issue while the gateway is stopped")
	}
	hosts := settings.AllowedHosts
	if host, _, err := net.SplitHostPort(g.doc.Server.Listen); err == nil {
		hosts = append([]string{host}, hosts...)
	}
	gate := web.NewGate(web.GateOptions{
		Roster:         g.credentials.Roster,
		Attempts:       g.attempts,
		Ready:          g.readiness(),
		NotReady:       notReady,
		AllowOpen:      settings.AllowOpen,
		Loopback:       isLoopback(g.doc.Server.Listen),
		Hosts:          hosts,
		TrustedProxies: g.doc.Server.TrustedProxies,
		Version:        g.control.Version,
		Log:            g.log,
	})
	g.routes = s.routes()
	if err := s.docs.Describe(version, g.routes); err != nil {
		return nil, fmt.Errorf("the OpenAPI document: %w", err)
	}
	return newRouter(g.routes, gate), nil
}

// newChecker returns the health checker of the instances in the table in force.
func (g *gateway) newChecker() *backend.Checker {
	return backend.NewChecker(backend.CheckerOptions{
		Source: func() []*backend.Instance { return g.current.Load().Instances() },
		Settings: func(i *backend.Instance) backend.HealthSettings {
			if service := g.current.Load().Service(i.Service); service != nil {
				return service.Policy.HealthCheck
			}
			return backend.HealthSettings{}
		},
		Health: func(i *backend.Instance) *backend.Health { return &i.Health },
		Client: g.client,
		Log:    g.log,
	})
}

// newServer sets every limit that the HTTP server leaves open by default.
func (g *gateway) newServer() *http.Server {
	base, abort := context.WithCancelCause(context.Background())
	g.abort = abort
	return &http.Server{
		Handler: g.shell,
		// A head that takes longer is an attack or a dead line.
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

// serve answers requests until stop.
func (g *gateway) serve() {
	ctx, quit := context.WithCancel(context.Background())
	g.quit = quit
	g.background.Go(func() { g.checker.Run(ctx) })
	g.background.Go(func() { g.memory.Run(ctx) })
	g.background.Go(func() { g.control.Follow(ctx) })
	g.background.Go(func() { g.recorder.Run(ctx) })
	if g.pusher != nil {
		g.background.Go(func() { g.pusher.Run(ctx) })
	}
	go func() {
		defer close(g.served)
		g.failure = g.server.Serve(web.Listener{Listener: g.listener})
	}()
}

// address returns where the gateway listens.
func (g *gateway) address() string { return g.listener.Addr().String() }

// stop lets running requests end for as long as the grace lasts, then ends
// them, and closes everything. The listener stays open while the requests run
// that it found, so that probes see that the gateway is leaving.
func (g *gateway) stop(ctx context.Context) {
	g.close.Do(func() {
		g.ops.Drain()
		g.recorder.EndStreams()
		grace, cancel := context.WithTimeout(ctx, g.doc.Server.ShutdownGrace.Std())
		defer cancel()
		if g.shell.Drain(grace, func() { _ = g.listener.Close() }) != nil {
			g.abort(web.ErrStopping)
		}
		// What is left has its answer or its error; this is the time to write it.
		last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancelLast()
		_ = g.server.Shutdown(last)
		_ = g.server.Close()
		<-g.served
		g.abort(web.ErrStopping)
		g.quit()
		g.background.Wait()
		g.closeTelemetry(last)
		g.client.Close()
		g.closeLedger()
		if err := g.store.Close(); err != nil {
			g.log.Error("closing the store", "error", err)
		}
	})
}

// listen opens the listener; a port in use has an exit code of its own.
func listen(address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &exitError{exitPort, fmt.Errorf("%s is in use by another program; stop it, or choose another address with --listen (port 0 picks a free one)", address)}
	}
	if err != nil {
		return nil, &exitError{exitFailed, fmt.Errorf("cannot listen on %s: %w", address, err)}
	}
	return listener, nil
}

// mayListen refuses to be open to other machines by accident.
func mayListen(doc *config.Document) error {
	if doc.Security.Enabled || doc.Security.AllowOpen || isLoopback(doc.Server.Listen) {
		return nil
	}
	return &exitError{exitConfig, fmt.Errorf("refusing to listen on %s without security: anyone who reaches it could use and change everything. "+
		"Set security.enabled: true with tokens and keys, or listen on 127.0.0.1, or accept the risk with security.allow-open: true", doc.Server.Listen)}
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
