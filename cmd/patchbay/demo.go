package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

func newDemo(env []string, stderr io.Writer) *cobra.Command {
	flags := &settingFlags{env: env}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the gateway with simulated backends: no model, key or network needed",
		Long: `Runs the gateway in front of simulated backends that answer over real HTTP on
loopback. Besides demo-chat there are models that misbehave, to see what the
gateway makes of it: demo-slow, demo-flaky (every third call fails), demo-cut
(streams break midway), demo-hang and demo-down.

Nothing is kept: the data directory is a temporary one unless you name one.`,
		Example: `  patchbay demo
  patchbay demo --listen 127.0.0.1:0`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runDemo(flags, stderr) },
	}
	flags.register(cmd)
	return cmd
}

func runDemo(flags *settingFlags, stderr io.Writer) error {
	if flags.dataDir == "" {
		dir, err := os.MkdirTemp("", "patchbay-demo-")
		if err != nil {
			return &exitError{exitFailed, err}
		}
		defer func() { _ = os.RemoveAll(dir) }()
		flags.dataDir = dir
	}
	demo := config.Default()
	backends, err := addDemo(demo)
	defer func() {
		for _, b := range backends {
			b.Close()
		}
	}()
	if err != nil {
		return &exitError{exitFailed, err}
	}
	flags.extend = func(doc *config.Document) {
		for serviceType, service := range doc.Services {
			service.Instances = append(service.Instances, demo.Services[serviceType].Clone().Instances...)
			doc.Services[serviceType] = service
		}
	}
	loaded, err := flags.loadFirst()
	if err != nil {
		return err
	}
	log := newLog(stderr, loaded.Document.Log)
	return runGateway(flags, loaded, log, func(g *gateway) { _, _ = io.WriteString(stderr, welcome(g)) })
}

// addDemo starts the simulated backends and adds them to the configuration as
// ordinary instances.
func addDemo(doc *config.Document) ([]*simulator.Backend, error) {
	var started []*simulator.Backend
	chat := doc.Services[schema.Chat]
	add := func(b *simulator.Backend, models ...string) {
		for _, model := range models {
			settings := backend.DefaultSettings()
			settings.Name, settings.BaseURL = model, b.URL()
			chat.Instances = append(chat.Instances, settings)
		}
	}
	for _, name := range []string{"A", "B"} {
		b, err := simulator.Start(simulator.Demo(name, simulator.DemoSlowStart))
		if err != nil {
			return started, err
		}
		started = append(started, b)
		add(b, simulator.DemoChat)
	}
	add(started[0], simulator.DemoSlow, simulator.DemoFlaky, simulator.DemoCut, simulator.DemoHang, simulator.DemoDown)
	doc.Services[schema.Chat] = chat
	return started, nil
}

// welcome tells a person what is there and gives one command that works.
func welcome(g *gateway) string {
	base := "http://" + g.address()
	return fmt.Sprintf(`patchbay %s  demo: simulated backends, nothing leaves this machine

  API base  %s/v1        (any API key works)
  Models    %s/v1/models
  Health    %s/actuator/health

Try:
  curl %s/v1/chat/completions -d '{"model":"demo-chat","messages":[{"role":"user","content":"hi"}]}'

Ctrl-C stops
`, version, base, base, base, base)
}
