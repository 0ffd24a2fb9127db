package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/direct"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/starter"
)

// initFlags shape a starter file and say where it is written.
type initFlags struct {
	env    []string
	file   string
	listen string
	// isAddressGiven says that somebody chose the address to listen on.
	isAddressGiven bool
	backends       []string
	keyVariable    string
	ports          []int
	secure         bool
	force, yes     bool
	seen           []starter.Backend // on this machine, in the file or not
}

func newInit(env []string, stdout, stderr io.Writer) *cobra.Command {
	flags := &initFlags{env: env}
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a first configuration, with the model servers that run on this machine",
		Long: `Writes a configuration with comments, and beside it its JSON Schema for editors. It
looks for Ollama, vLLM, llama.cpp and others on their usual ports of this machine, and
at the addresses of --backend, which may be names of providers such as deepseek, and
puts their models into the file. On a terminal it
asks what is wanted; elsewhere, and with --yes, the flags decide.

With --secure, and always where it does not listen on loopback alone, security is on: a
management token and an API key are made and printed this once; the file has their
hashes.`,
		Example: `  patchbay init
  patchbay init gateway.yaml --yes --backend http://gpu1:8000
  patchbay init --backend openai --backend deepseek
  patchbay init --backend https://llm.example --key-env LLM_API_KEY`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.file = defaultFile
			if len(args) == 1 {
				flags.file = args[0]
			}
			flags.isAddressGiven = cmd.Flags().Changed("listen")
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return flags.run(ctx, newQuestions(cmd.InOrStdin(), stderr, flags.yes), stdout, stderr)
		},
	}
	cmd.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:8080",
		"address to listen on; without it, the next port if a backend has this one")
	cmd.Flags().StringArrayVar(&flags.backends, "backend", nil,
		"address of a backend whose models are added, or the name of a provider; may be repeated")
	cmd.Flags().StringVar(&flags.keyVariable, "key-env", "",
		"environment variable with the key of the backends of --backend; the file refers to it")
	cmd.Flags().IntSliceVar(&flags.ports, "ports", starter.Ports(),
		"ports of this machine where model servers are looked for; 0 looks nowhere")
	cmd.Flags().BoolVar(&flags.secure, "secure", false, "ask callers for keys and managers for tokens")
	cmd.Flags().BoolVar(&flags.force, "force", false, "replace files that are there")
	cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false, "ask nothing")
	return cmd
}

func (f *initFlags) run(ctx context.Context, ask *questions, stdout, stderr io.Writer) error {
	if f.keyVariable != "" && !isVariable(f.keyVariable) {
		return fmt.Errorf("--key-env: want the name of an environment variable, found %q", f.keyVariable)
	}
	if _, err := os.Stat(f.file); err == nil && !f.force {
		return failed(fmt.Errorf("%s is there already; --force replaces it", f.file))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(err)
	}
	options := starter.Options{Schema: schemaFile, File: shellWord(f.file)}
	var err error
	if options.Backends, err = f.findBackends(ctx, ask, stderr); err != nil {
		return failed(err)
	}
	others := append(f.seen, options.Backends...)
	if options.Listen = f.listen; !f.isAddressGiven {
		options.Listen = starter.ListenBeside(f.listen, others)
	}
	options.Listen = ask.text("Address to listen on", options.Listen)
	if taken := starter.TakenBy(options.Listen, others); taken != "" {
		return failed(fmt.Errorf("--listen: %s has the port of the backend %s; choose another one", options.Listen,
			taken))
	}
	isSecure := f.secure || !listen.IsLoopback(options.Listen) || ask.in != nil &&
		ask.yes("Ask callers for keys and managers for tokens?", false)
	var token, key string
	if isSecure {
		token, options.TokenHash = access.NewTokenText()
		key, options.KeyHash = access.NewKeyText()
	}
	content := starter.Content(options)
	// The written file must be right; variables may be set later.
	if _, err := config.Load(config.Source{File: f.file, Content: []byte(variablesAsText(content)),
		KnownAdapter: kinds.Check}); err != nil {
		return failed(fmt.Errorf("these answers make a configuration with mistakes:\n%w", err))
	}
	data, err := settingsSchema()
	if err == nil {
		schemaPath := filepath.Join(filepath.Dir(f.file), schemaFile)
		err = durable.WriteFile(schemaPath, data, 0o644) // nothing in it is secret
	}
	if err == nil {
		err = durable.WriteFile(f.file, []byte(content), 0o600)
	}
	if err != nil {
		return failed(err)
	}
	f.report(stdout, options, token, key)
	return nil
}

// findBackends asks the usual ports and the backends that were named.
func (f *initFlags) findBackends(ctx context.Context, ask *questions, stderr io.Writer) ([]starter.Backend, error) {
	client := transport.New(transport.Options{})
	defer client.Close()
	send := direct.Send(client)
	var backends []starter.Backend
	if len(f.ports) > 0 && f.ports[0] != 0 {
		fmt.Fprintf(stderr, "looking for model servers on the ports %v of this machine\n", f.ports)
		f.seen = starter.FindLocal(ctx, send, f.ports)
		for _, b := range f.seen {
			if ask.yes(b.Title+" has "+say.Counted(len(b.Models), "model")+". Add them?", true) {
				backends = append(backends, b)
			}
		}
	}
	for _, address := range f.backends {
		b, err := f.askBackend(ctx, send, address, f.keyVariable)
		if err != nil {
			return nil, err
		}
		backends = append(backends, b)
	}
	for ask.in != nil {
		address := ask.text("Address of another backend, or a provider such as deepseek (empty: no more):", "")
		if address == "" {
			break
		}
		provider, _ := providers.Find(address)
		variable := ask.text("Environment variable with its key (empty: it needs none):", provider.Variable)
		b, err := f.askBackend(ctx, send, address, variable)
		if err != nil {
			fmt.Fprintln(stderr, err)
			continue
		}
		backends = append(backends, b)
	}
	return backends, nil
}

func (f *initFlags) askBackend(ctx context.Context, send discover.Send, address, keyVariable string) (starter.Backend,
	error) {
	wanted := discover.Backend{BaseURL: address}
	if p, known := providers.Find(address); known && p.BaseURL != "" {
		wanted.BaseURL, wanted.Adapter, keyVariable = p.BaseURL, p.Adapter, cmp.Or(keyVariable, p.Variable)
	}
	if keyVariable != "" {
		wanted.APIKey = backend.Literal(variable(f.env, keyVariable))
	}
	b, err := starter.Ask(ctx, send, wanted)
	b.KeyVariable = keyVariable
	return b, err
}

func (f *initFlags) report(stdout io.Writer, o starter.Options, token, key string) {
	models := 0
	for _, b := range o.Backends {
		models += len(b.Models)
		fmt.Fprintf(stdout, "%s: %s\n", b.Title, say.Counted(len(b.Models), "model"))
	}
	fmt.Fprintf(stdout, "wrote %s with %s, and %s\n", f.file, say.Counted(models, "instance"), schemaFile)
	if token != "" {
		fmt.Fprintf(stdout, "\nmanagement token  %s\nAPI key           %s\nThey are shown this once; the file has "+
			"their hashes.\n", token, key)
	}
	fmt.Fprintf(stdout, "\nnext: patchbay serve %s\nthen the gateway listens on %s\n", shellWord(f.file), o.Listen)
	if models == 0 {
		fmt.Fprintf(stdout, "then: patchbay add http://HOST:PORT, which adds the models of a backend\n")
	}
}

func isVariable(name string) bool {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name)
}

// variablesAsText puts words in the places of variables that need not be set yet.
func variablesAsText(content string) string {
	return regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`).ReplaceAllString(content, "value")
}
