package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/filewatch"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/notify"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
)

func newServe(env []string, stderr io.Writer) *cobra.Command {
	flags := &settingFlags{env: env}
	cmd := &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Run the gateway",
		Long: `Runs the gateway until it gets SIGTERM or SIGINT; running requests then have
server.shutdown-grace to end, and a second signal, a second or more after the
first, ends the program at once.
SIGHUP reads the configuration file again, and so does a change of the file.

Every setting can also come from the environment: quota.fail-open is
PATCHBAY_QUOTA_FAIL_OPEN. --set wins over the environment, the environment over
the file.`,
		Example: `  patchbay serve
  patchbay serve patchbay.yaml --listen 127.0.0.1:9000
  patchbay serve --set 'services.chat.instances=[{name: llama3, base-url: "http://127.0.0.1:8000"}]'`,
		Args: flags.takeFile,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := flags.loadFirst()
			if err != nil {
				return err
			}
			log, end := newLog(stderr, loaded.Document.Log, env)
			defer end()
			if path := flags.path(); path != "" {
				log.Info("configuration read", "file", path)
			}
			return runGateway(flags, loaded, log, introduce, nil)
		},
	}
	flags.register(cmd)
	return cmd
}

// newLog returns the program's log, for people if standard error is a terminal, unless
// the configuration says otherwise, and a function to call when the program ends. On a
// terminal every line is written at once.
func newLog(stderr io.Writer, settings logs.Settings, env []string) (log *slog.Logger, end func()) {
	_, isTerminal := terminalOf(stderr)
	format := formatOf(settings.Format, isTerminal, env)
	var level slog.Level
	_ = level.UnmarshalText([]byte(settings.Level.String())) // the names are the same, and were checked
	if isTerminal {
		return logs.New(stderr, format, level), func() {}
	}
	log, batch := logs.NewBatched(stderr, format, level)
	return log, batch.Close
}

// formatOf returns the format of log lines. They are coloured only on a terminal, and
// not where the environment forbids it.
func formatOf(wanted logs.LogFormat, isTerminal bool, env []string) logs.Format {
	switch {
	case wanted == logs.FormatJSON || wanted == logs.FormatAuto && !isTerminal:
		return logs.JSON
	case isTerminal && mayColour(env):
		return logs.Coloured
	}
	return logs.Text
}

// terminalOf returns the terminal behind a writer, if there is one.
func terminalOf(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// mayColour reports whether the environment allows colours on a terminal.
func mayColour(env []string) bool {
	return variable(env, "NO_COLOR") == "" && variable(env, "TERM") != "dumb"
}

// introduce logs where the gateway listens and, while no models are served, the reason or
// the next step.
func introduce(g *gateway.Gateway, log *slog.Logger) {
	base, management := ownURL(g.Document.Server, g.Address()), ownURL(g.Document.Server, g.ManagementAddress())
	data, err := filepath.Abs(g.Document.Server.DataDir)
	if err != nil {
		data = g.Document.Server.DataDir
	}
	where := []any{"address", base, "version", g.Control.Version(), "docs", management + "/docs/api", "data", data}
	if dialable(g.Address()) != g.Address() {
		where = append(where, "listen", g.Address())
	}
	if len(g.Ports) > 1 {
		var all []string
		for _, port := range g.Ports {
			all = append(all, port.Listener.Addr().String())
		}
		where = append(where, "all", all)
	}
	log.Info("listening", where...)
	if len(g.Current.Load().Instances()) > 0 {
		return
	}
	if n := finding(g); n > 0 {
		log.Info("no models have been found yet: they are asked for at the backends, and this log says what each of "+
			"them lists", "instances", n)
		return
	}
	header := ""
	if g.Document.Security.Enabled {
		header = ` -H "Authorization: Bearer $TOKEN"`
	}
	log.Info("no instances are configured: add them as services.chat.instances in the configuration, or one with: " +
		"curl " +
		shellWord(management+"/api/config/instance/add/chat") + header +
		` -d '{"name":"llama3","baseUrl":"http://127.0.0.1:11434","adapter":"ollama"}'`)
}

// finding returns the number of instances that get their models from discovery.
func finding(g *gateway.Gateway) int {
	n := 0
	doc, _ := g.Control.Document()
	for _, service := range doc.Services {
		for i := range service.Instances {
			if service.Instances[i].Models.Given() && service.Instances[i].Enabled {
				n++
			}
		}
	}
	return n
}

// show has the operations and the requests of a gateway with simulated backends.
type show interface {
	Routes() []web.Route
	Run(ctx context.Context, base string)
}

// runGateway runs a gateway until a signal stops it. The show is nil where the backends are
// real.
func runGateway(flags *settingFlags, loaded *config.Loaded, log *slog.Logger,
	ready func(*gateway.Gateway, *slog.Logger), show show) error {
	for _, warning := range loaded.Warnings {
		log.Warn(warning)
	}
	signals := make(chan os.Signal, 4)
	// The signals stay with the program until its end: a further one that arrives
	// meanwhile must not kill it and so change its exit code.
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	path := flags.path()
	options := gateway.Options{Build: buildOf(debug.ReadBuildInfo()), FromFile: path != "", Demo: show != nil}
	if show != nil {
		options.Routes = show.Routes()
	}
	g, err := gateway.New(loaded.Document, log, options)
	if err != nil {
		return startFailure(err)
	}
	g.Actuator.Describe(loaded.Origins, flags.env)
	if loaded.Document.Security.AllowOpen && !loaded.Document.Security.Enabled {
		log.Warn("security.allow-open is set: anyone who reaches this address can use and change everything")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	reload := func() {
		logs.Contain(log, "reading the configuration again", func() { g.Reload(ctx, flags.loadAgain) })
	}
	if path != "" {
		background.Go(func() {
			if err := filewatch.Watch(ctx, path, flags.seen, reload); err != nil {
				log.Warn("the configuration file is not watched; send SIGHUP after a change", "error", err)
			}
		})
	}
	g.Start()
	if err := g.Store.Introduce(howToAsk(serverOf(g))); err != nil {
		log.Warn("verbs that find the data directory in use do not learn the gateway's address", "error", err)
	}
	ready(g, log)
	manager := notify.FromEnvironment(func(name string) string { return variable(flags.env, name) }, os.Getpid())
	if err := manager.Ready("listening on " + g.Address()); err != nil {
		log.Warn("the service manager does not know that the gateway is ready", "error", err)
	}
	background.Go(func() {
		if err := manager.Watch(ctx, isAlive(g)); err != nil {
			log.Warn("the service manager gets no signs of life", "error", err)
		}
	})
	traffic, endTraffic := context.WithCancel(ctx)
	defer endTraffic()
	if show != nil {
		background.Go(func() { show.Run(traffic, ownURL(g.Document.Server, g.Address())) })
	}
	for {
		select {
		case <-g.Done():
			g.Stop(ctx)
			return failed(fmt.Errorf("the listener failed: %w", g.Err()))
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				reload()
				continue
			}
			log.Info("stopping", "signal", sig.String(), "delay", g.Document.Server.ShutdownDelay.String(), "grace",
				g.Document.Server.ShutdownGrace.String())
			endTraffic()
			if err := manager.Stopping(); err != nil {
				log.Warn("the service manager does not know that the gateway stops", "error", err)
			}
			return stopWithGrace(ctx, g, log, signals)
		}
	}
}

// serverOf returns the settings of a gateway with the addresses that it really has.
func serverOf(g *gateway.Gateway) config.Server {
	server := g.Document.Server
	server.Listen, server.ManagementListen = []string{g.Address()}, g.ManagementAddresses()
	return server
}

// isAlive returns a check that the gateway answers at its own address. A gateway that
// asks clients for certificates does not answer itself, so the check only tries to
// connect.
func isAlive(g *gateway.Gateway) func(context.Context) bool {
	server := serverOf(g)
	at := ownGateway(server)
	return func(ctx context.Context) bool {
		err := outgoing.New(at.options).Check(ctx, at.base+"/actuator/health/liveness")
		_, hasAnswered := errors.AsType[*outgoing.StatusError](err)
		return err == nil || hasAnswered || server.TLS.ClientCA != "" && ctx.Err() == nil
	}
}

// startFailure gives an error of gateway.New its exit code.
func startFailure(err error) error {
	var unsafe *gateway.UnsafeError
	var inUse *listen.InUseError
	switch {
	case errors.As(err, &unsafe), mark.Refuses(err), errors.Is(err, versions.ErrForged):
		return &exitError{exitConfig, err}
	case errors.As(err, &inUse):
		return &exitError{exitPort, err}
	case errors.Is(err, syscall.ENOSPC):
		err = fmt.Errorf("%w; free some of the disk, or name a directory on another one with --data-dir", err)
	}
	return failed(err)
}

// stopWithGrace stops the gateway when its requests have ended, or at once at a second
// signal.
func stopWithGrace(ctx context.Context, g *gateway.Gateway, log *slog.Logger, signals <-chan os.Signal) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		g.Stop(ctx)
	}()
	if sig := awaitStop(stopped, signals); sig != nil {
		return failed(fmt.Errorf("stopped at once by a second %s", sig))
	}
	log.Info("stopped")
	return nil
}

// repeatedSignal is how long after the first signal a second one is taken for the
// same: timeout(1) and a terminal signal the process and then its whole group.
const repeatedSignal = time.Second

// awaitStop waits until the gateway has stopped or a second signal arrives, and returns
// that signal, or nil.
func awaitStop(stopped <-chan struct{}, signals <-chan os.Signal) os.Signal {
	first := time.Now()
	for {
		select {
		case <-stopped:
			return nil
		case sig := <-signals:
			if sig != syscall.SIGHUP && time.Since(first) >= repeatedSignal {
				return sig
			}
		}
	}
}
