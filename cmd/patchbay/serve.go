package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/logs"
	v1 "github.com/patchbay-ai/patchbay/internal/web/v1"
)

func newServe(env []string, stderr io.Writer) *cobra.Command {
	flags := &settingFlags{env: env}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Runs the gateway until it gets SIGTERM or SIGINT; running requests then have
server.shutdown-grace to end, and a second signal ends the program at once.
SIGHUP reads the configuration file again, and so does a change of the file.

Every setting can also come from the environment: quota.fail-open is
PATCHBAY_QUOTA_FAIL_OPEN. --set wins over the environment, the environment over
the file.`,
		Example: `  patchbay serve
  patchbay serve --config patchbay.yaml --listen 127.0.0.1:9000
  patchbay serve --set 'services.chat.instances=[{name: llama3, base-url: "http://127.0.0.1:8000"}]'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := flags.loadFirst()
			if err != nil {
				return err
			}
			log := newLog(stderr, loaded.Document.Log)
			if path := flags.path(); path != "" {
				log.Info("configuration read", "file", path)
			}
			return runGateway(flags, loaded, log, func(g *gateway) {
				log.Info("listening", "address", "http://"+g.address(), "version", g.control.Version())
			})
		},
	}
	flags.register(cmd)
	return cmd
}

// newLog returns the program's log: for people if standard error is a terminal,
// unless the configuration says otherwise.
func newLog(stderr io.Writer, settings config.Log) *slog.Logger {
	format := logs.JSON
	switch settings.Format {
	case config.FormatText:
		format = logs.Text
	case config.FormatAuto:
		if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			format = logs.Text
		}
	}
	var level slog.Level
	_ = level.UnmarshalText([]byte(settings.Level)) // the names are the same, and were checked
	return logs.New(stderr, format, level)
}

// runGateway runs a gateway until a signal stops it.
func runGateway(flags *settingFlags, loaded *config.Loaded, log *slog.Logger, ready func(*gateway)) error {
	for _, warning := range loaded.Warnings {
		log.Warn(warning)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	g, err := assemble(loaded.Document, log, v1.Options{})
	if err != nil {
		return err
	}
	g.ops.Describe(loaded.Origins, flags.env)
	if loaded.Document.Security.AllowOpen && !loaded.Document.Security.Enabled {
		log.Warn("security.allow-open is set: anyone who reaches this address can use and change everything")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	reload := func() { g.reload(flags) }
	if path := flags.path(); path != "" {
		background.Go(func() {
			if err := control.Watch(ctx, path, flags.seen, reload); err != nil {
				log.Warn("the configuration file is not watched; send SIGHUP after a change", "error", err)
			}
		})
	}
	g.serve()
	ready(g)
	for {
		select {
		case err := <-g.served:
			g.served <- err
			g.stop(ctx)
			return &exitError{exitFailed, fmt.Errorf("the listener failed: %w", err)}
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				reload()
				continue
			}
			log.Info("stopping", "signal", sig.String(), "grace", g.doc.Server.ShutdownGrace.String())
			return g.stopUnless(ctx, signals)
		}
	}
}

// stopUnless stops the gateway with grace, unless a second signal comes.
func (g *gateway) stopUnless(ctx context.Context, signals <-chan os.Signal) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		g.stop(ctx)
	}()
	for {
		select {
		case <-stopped:
			g.log.Info("stopped")
			return nil
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				return &exitError{exitFailed, fmt.Errorf("stopped at once by a second %s", sig)}
			}
		}
	}
}

// reload reads the configuration file again. A bad file changes nothing.
func (g *gateway) reload(flags *settingFlags) {
	if flags.blank() {
		// Most likely somebody is writing it; who wants nothing can say so.
		g.log.Warn("the configuration file is empty; the running configuration stays")
		return
	}
	loaded, err := flags.load()
	if err != nil {
		g.log.Error("the configuration file has mistakes; the running configuration stays", "error", err)
		return
	}
	changed, err := g.control.Reload(loaded.Document)
	switch {
	case err != nil:
		g.log.Error("the configuration was not taken; the running one stays", "error", err)
	case changed:
		g.log.Info("configuration reloaded", "version", g.control.Version())
	default:
		g.log.Info("configuration read again; nothing changed", "version", g.control.Version())
	}
	g.ledger.Reload(loaded.Document.Quota)
	if parts := needRestart(g.doc, loaded.Document); len(parts) > 0 {
		g.log.Warn("these settings changed and take effect at the next start", "settings", parts)
	}
}

// needRestart names the sections of the configuration that changed and are read
// at start only.
func needRestart(running, next *config.Document) []string {
	return slices.DeleteFunc(running.Differences(next), func(section string) bool {
		return section == "services" || section == "limits" || section == "quota" && running.Quota.SameUntilRestart(next.Quota)
	})
}
