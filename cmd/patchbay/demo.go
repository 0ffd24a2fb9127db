package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/wings/demo"
)

func newDemo(env []string, stderr io.Writer) *cobra.Command {
	flags := &settingFlags{env: env}
	traffic := true
	cmd := &cobra.Command{
		Use:   "demo [FILE]",
		Short: "Run the gateway with simulated backends: no model, key or network needed",
		Long: `Runs the gateway in front of simulated backends that answer over real HTTP on
loopback, for every service type: demo-chat, demo-embedding, demo-rerank,
demo-tts, demo-stt, demo-image and demo-image-edit, and chat in other dialects
as demo-ollama, demo-claude and demo-gemini; demo-responses speaks the Responses
API itself. Some models misbehave, to see what the gateway makes of it: demo-slow,
demo-flaky (every third call fails), demo-cut (streams break midway), demo-hang and
demo-down. Streams of demo-relay break off now and then, and another instance goes
on with them; demo-day and demo-night share the memory of a host that has room for
one of them, and are woken and put to sleep.

Models have prices, three tenants have keys and budgets, and a batch runs, unless the
configuration says something about that itself. Nobody needs a key. A request that
shows one of the demo's is counted for it: sk-demo-acme-shop, sk-demo-acme-support,
sk-demo-globex-app, sk-demo-globex-nightly and sk-demo-initech-lab.

The demo sends a few requests a second to itself, so that charts move; switch that
off with --traffic=false, or while it runs with POST /api/demo/traffic. To see a
circuit breaker open, traffic move and the breaker close, break an instance for
twenty seconds with POST /api/demo/fault.

Nothing is kept: the data directory is a temporary one unless you name one.`,
		Example: `  patchbay demo
  patchbay demo --listen 127.0.0.1:0 --traffic=false
  patchbay demo --set quota.enabled=false --set batches.enabled=false`,
		Args: flags.takeFile,
		RunE: func(*cobra.Command, []string) error { return runDemo(flags, stderr, traffic) },
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&traffic, "traffic", true, "send a few requests a second to the demo itself")
	cmd.Flags().Lookup("data-dir").Usage = "directory for versions and state (default: a temporary one, removed at " +
		"the end)"
	return cmd
}

func runDemo(flags *settingFlags, stderr io.Writer, traffic bool) error {
	simulated := config.Default()
	backends, err := addDemo(simulated)
	defer func() {
		for _, b := range backends {
			b.Close()
		}
	}()
	if err != nil {
		return failed(err)
	}
	flags.extend = func(doc *config.Document) {
		for serviceType, service := range doc.Services {
			service.Instances = append(service.Instances, settings.Clone(simulated.Services[serviceType].Instances)...)
			if service.CircuitBreaker == config.DefaultService().CircuitBreaker {
				service.CircuitBreaker.RecoveryTimeout = demoRecovery
			}
			if serviceType == schema.Chat && service.Residency == (residency.Settings{}) {
				service.Residency = residency.Settings{Enabled: true, SleepAfter: demoSleep}
			}
			if serviceType == schema.Chat && service.Streams == (resume.Settings{}) {
				// The answer continues elsewhere when somebody breaks its instance.
				service.Streams.Resume = resume.Continue
			}
			doc.Services[serviceType] = service
		}
		doc.Written = "" // the backends of the demo are not written anywhere
	}
	hasKeys := false
	flags.more = func(given map[string]string) (set []string) {
		set, hasKeys = demo.Settings(given)
		return set
	}
	loaded, err := flags.loadFirst()
	if err != nil {
		return err
	}
	if _, given := loaded.Origins["server.data-dir"]; !given {
		dir, err := os.MkdirTemp("", "patchbay-demo-")
		if err != nil {
			return failed(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		flags.dataDir, loaded.Document.Server.DataDir = dir, dir // the flag counts when the file is read again
	}
	if _, given := loaded.Origins["log.access"]; !given && traffic {
		loaded.Document.Log.Access = false // the demo's own requests would hide its messages to people
	}
	log, end := newLog(stderr, loaded.Document.Log, flags.env)
	defer end()
	show := demo.New(backends, traffic, hasKeys)
	defer show.Close()
	return runGateway(flags, loaded, log,
		func(g *gateway.Gateway, _ *slog.Logger) { _, _ = io.WriteString(stderr, welcome(g)) }, show)
}

// demoRecovery is the time until a breaker of the demo tries an instance again, unless
// the configuration has settings of breakers: a person watches.
const demoRecovery = schema.Duration(10 * time.Second)

// demoSleep is how long nobody uses a model of the demo before it is put to sleep, unless the
// configuration has settings of residency.
const demoSleep = schema.Duration(30 * time.Second)

// demoInstance is an ordinary instance in front of a simulated backend.
type demoInstance struct {
	backend int // an index into the started backends
	service schema.ServiceType
	model   string
	adapter string // empty means the one of the service
}

// demoInstances lists the instances of the demo.
func demoInstances() []demoInstance {
	return []demoInstance{
		{0, schema.Chat, simulator.DemoChat, ""},
		{1, schema.Chat, simulator.DemoChat, ""},
		{0, schema.Chat, simulator.DemoSlow, "sglang"}, // a second one, to resume the streams of the first
		{1, schema.Chat, simulator.DemoSlow, "sglang"},
		{0, schema.Chat, simulator.DemoFlaky, ""},
		{0, schema.Chat, simulator.DemoCut, ""},
		{0, schema.Chat, simulator.DemoHang, ""},
		{0, schema.Chat, simulator.DemoDown, ""},
		{0, schema.Chat, simulator.DemoRelay, "sglang"},
		{1, schema.Chat, simulator.DemoRelay, "sglang"},
		{3, schema.Chat, simulator.DemoDay, "ollama"},
		{3, schema.Chat, simulator.DemoNight, "ollama"},
		{2, schema.Chat, simulator.DemoOllama, "ollama"},
		{2, schema.Chat, simulator.DemoClaude, "anthropic"},
		{2, schema.Chat, simulator.DemoGemini, "gemini"},
		{2, schema.Chat, simulator.DemoResponses, "openai"},
		{2, schema.Embedding, simulator.DemoEmbedding, ""},
		{2, schema.Rerank, simulator.DemoRerank, ""},
		{2, schema.TTS, simulator.DemoSpeech, ""},
		{2, schema.STT, simulator.DemoListen, ""},
		{2, schema.ImgGen, simulator.DemoImage, ""},
		{2, schema.ImgEdit, simulator.DemoImageEdit, ""},
	}
}

// addDemo starts the simulated backends and adds them to the configuration as ordinary
// instances. It returns the started backends even when it fails.
func addDemo(doc *config.Document) ([]*simulator.Backend, error) {
	var started []*simulator.Backend
	for _, options := range []simulator.Options{simulator.Demo("A", 0), simulator.Demo("B", 0), simulator.Demo("C", 0),
		simulator.DemoEngine("D")} {
		b, err := simulator.Start(options)
		if err != nil {
			return started, err
		}
		started = append(started, b)
	}
	for _, instance := range demoInstances() {
		settings := backend.DefaultSettings()
		settings.Name, settings.BaseURL, settings.Adapter = instance.model, started[instance.backend].URL(),
			instance.adapter
		switch instance.model {
		case simulator.DemoResponses:
			settings.Responses = new(true) // it speaks the Responses API itself
		case simulator.DemoDay, simulator.DemoNight:
			settings.Residency.Group = "gpu"
		}
		service := doc.Services[instance.service]
		service.Instances = append(service.Instances, settings)
		doc.Services[instance.service] = service
	}
	return started, nil
}

// demoChats returns the chat models, faulty models last.
func demoChats() []string {
	var good, faulty []string
	for _, instance := range demoInstances() {
		switch {
		case instance.service != schema.Chat || slices.Contains(good, instance.model):
		case instance.adapter == "" && instance.model != simulator.DemoChat:
			faulty = append(faulty, instance.model)
		default:
			good = append(good, instance.model)
		}
	}
	return append(good, faulty...)
}

// welcome greets a person with the addresses, the models and one command that works.
func welcome(g *gateway.Gateway) string {
	base := ownURL(g.Document.Server, g.Address())
	return fmt.Sprintf(`patchbay %s  demo: simulated backends, nothing leaves this machine

  Console   %s/
  API base  %s/v1        (any API key works)
  Models    %s/v1/models
  Health    %s/actuator/health
  API docs  %s/docs/api

Try:
  curl %s -d '{"model":"demo-chat","messages":[{"role":"user","content":"hi"}]}'

Ready:
  chat       /v1/chat/completions      %s
  embedding  /v1/embeddings            demo-embedding
  rerank     /v1/rerank                demo-rerank
  tts        /v1/audio/speech          demo-tts
  stt        /v1/audio/transcriptions  demo-stt
  imgGen     /v1/images/generations    demo-image
  imgEdit    /v1/images/edits          demo-image-edit

The demo sends itself a few requests a second (--traffic=false: none; log.access: true shows them).
Ctrl-C stops
`, version, base, base, base, base, base, shellWord(base+"/v1/chat/completions"), strings.Join(demoChats(), " "))
}
