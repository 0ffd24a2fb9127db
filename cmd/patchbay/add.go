package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
)

// addFlags say which models of which backend are added.
type addFlags struct {
	remoteFlags
	backend, adapter string
	path             string // of chats, where the provider has one of its own
	keyVariable      string
	serviceType      string
	models           []string
	dryRun, yes      bool
	json             bool
}

func newAdd(env []string, stdout, stderr io.Writer) *cobra.Command {
	flags := &addFlags{remoteFlags: flagsIn(env)}
	cmd := &cobra.Command{
		Use:   "add URL",
		Short: "Add the models of a backend to a running gateway",
		Long: `Lets a running gateway ask a backend which models it has and what kind of backend it
is, proposes a service type for each model, and adds those that are new, all as one
version, which one roll-back takes away. On a terminal it asks before it adds.

The name of a provider stands for its address, and for the variable of the environment
that usually has its key; docs/providers.md has a line for each:

` + providerNames() + `

` + remotePlaces,
		Example: `  patchbay add http://gpu1:8000
  patchbay add ollama --model qwen2.5:7b --model nomic-embed-text
  DEEPSEEK_API_KEY=sk-... patchbay add deepseek
  patchbay add openai --model gpt-4o --key-env OPENAI_API_KEY
  patchbay add http://10.0.0.7:9000 --model whisper --type stt --adapter whispercpp`,
		Args:      oneArg("address", "backend", "patchbay add http://127.0.0.1:11434"),
		ValidArgs: namesOfProviders(),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.backend = args[0]
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return flags.run(ctx, newQuestions(cmd.InOrStdin(), stderr, flags.yes || flags.json), stdout)
		},
	}
	flags.register(cmd)
	cmd.Flags().StringArrayVar(&flags.models, "model", nil, "model to add; may be repeated (default: all that are new)")
	cmd.Flags().StringVar(&flags.serviceType, "type", "", "service type of the models, in place of the proposed ones")
	cmd.Flags().StringVar(&flags.adapter, "adapter", "", "kind of backend (default: it is found out)")
	cmd.Flags().StringVar(&flags.keyVariable, "key-env", "",
		"environment variable with the backend's key; the gateway stores its value")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "show what would be added, and add nothing")
	cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false, "ask nothing")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print JSON")
	return cmd
}

// addedModel is a model that is added, or was there.
type addedModel struct {
	Model       string `json:"model"`
	Upstream    string `json:"upstreamModel,omitzero"`
	ServiceType string `json:"serviceType"`
	Exists      bool   `json:"exists"`
}

func (f *addFlags) run(ctx context.Context, ask *questions, stdout io.Writer) error {
	if err := f.complete(); err != nil {
		return err
	}
	gateway, err := f.remote()
	if err != nil {
		return err
	}
	key := ""
	if f.keyVariable != "" {
		if key = variable(f.env, f.keyVariable); key == "" {
			return failed(fmt.Errorf("the environment variable %s has no key", f.keyVariable))
		}
	}
	var found manage.Discovery
	wanted := map[string]string{"baseUrl": f.backend, "apiKey": key, "adapter": f.adapter}
	if err := gateway.ask(ctx, http.MethodPost, "/api/config/discover", wanted, &found); err != nil {
		return failed(err)
	}
	models, err := f.choose(&found)
	if err != nil {
		return failed(err)
	}
	fresh := slices.DeleteFunc(slices.Clone(models), func(m addedModel) bool { return m.Exists })
	if !f.json {
		f.list(stdout, found.Adapter, models)
	}
	var result struct {
		Version int `json:"version"`
	}
	if len(fresh) > 0 && ask.yes("Add "+say.Counted(len(fresh), "instance")+"?", true) {
		path := "/api/config/instance/add"
		if f.dryRun {
			path += "?dryRun=true"
		}
		if err := gateway.ask(ctx, http.MethodPost, path, f.additions(fresh, found.Adapter, key), &result); err != nil {
			return failed(err)
		}
	}
	return f.report(stdout, found.Adapter, models, len(fresh), result.Version)
}

// complete fills in the defaults of a known backend, and checks the flags.
func (f *addFlags) complete() error {
	if p, known := providers.Find(f.backend); known && p.BaseURL != "" {
		f.backend, f.path = p.BaseURL, p.Path
		f.adapter = cmp.Or(f.adapter, p.Adapter)
		f.keyVariable = cmp.Or(f.keyVariable, p.Variable)
		if len(p.Serves) == 1 && len(f.models) > 0 {
			f.serviceType = cmp.Or(f.serviceType, p.Serves[0].String())
		}
	}
	if f.serviceType != "" {
		if _, err := schema.ParseServiceType(f.serviceType); err != nil {
			return fmt.Errorf("--type: %w", err)
		}
	}
	if parsed, err := url.Parse(f.backend); err != nil || parsed.Host == "" {
		return fmt.Errorf("want the address of a backend such as http://127.0.0.1:8000, or the name of a provider "+
			"such as ollama, openai or deepseek; found %q%s", f.backend, nearest(f.backend, namesOfProviders()))
	}
	if root, endpoint := kinds.CutEndpoint(f.backend); endpoint != "" {
		return fmt.Errorf("the address ends in the endpoint %s; want the server's: patchbay add %s", endpoint, root)
	}
	return nil
}

// namesOfProviders returns the names that stand for addresses.
func namesOfProviders() []string {
	var names []string
	for _, p := range providers.All() {
		names = append(names, p.Name)
	}
	return names
}

// providerNames writes these names in lines of a help text.
func providerNames() string {
	const width = 84
	var b strings.Builder
	column := 0
	for i, name := range namesOfProviders() {
		switch {
		case i == 0:
			b.WriteString("  ")
		case column+len(name) > width:
			b.WriteString(",\n  ")
			column = 0
		default:
			b.WriteString(", ")
		}
		b.WriteString(name)
		column += len(name) + 2
	}
	return b.String()
}

// choose returns the requested models. A backend without a list has the models that the
// flags name.
func (f *addFlags) choose(found *manage.Discovery) ([]addedModel, error) {
	if found.Adapter == "" {
		if len(f.models) == 0 || f.serviceType == "" {
			why, remedy := strings.Join(found.Errors, "; "), "--model and --type add models without one"
			if strings.Contains(why, "wants a key") {
				remedy = "--key-env NAME sends the key in that variable"
			}
			return nil, fmt.Errorf("no list of models was found at %s (%s); %s", f.backend, why, remedy)
		}
		found.Adapter = f.adapter
	}
	var models []addedModel
	for _, m := range found.Models {
		if len(f.models) > 0 && !slices.Contains(f.models, m.ID) && !slices.Contains(f.models, m.Name) {
			continue
		}
		one := addedModel{m.ID, "", m.ServiceType.String(), m.Exists}
		if m.Name != "" {
			one.Model, one.Upstream = m.Name, m.ID
		}
		if f.serviceType != "" && !strings.EqualFold(f.serviceType, one.ServiceType) {
			one.ServiceType, one.Exists = f.serviceType, false
		}
		models = append(models, one)
	}
	for _, name := range f.models {
		if slices.ContainsFunc(models, func(m addedModel) bool { return m.Model == name || m.Upstream == name }) {
			continue
		}
		if len(found.Models) > 0 {
			var names []string
			for _, m := range found.Models {
				names = append(names, m.ID)
			}
			return nil, fmt.Errorf("the backend has no model %q%s", name, nearest(name, names))
		}
		models = append(models, addedModel{Model: name, ServiceType: f.serviceType})
	}
	if len(models) == 0 {
		return nil, errors.New("the backend has no models")
	}
	return models, nil
}

func nearest(name string, names []string) string {
	if close := schema.Nearest(name, names, 1); len(close) > 0 {
		return fmt.Sprintf(" (did you mean %q?)", close[0])
	}
	return ""
}

func (f *addFlags) additions(models []addedModel, adapter, key string) map[string]any {
	var list []map[string]any
	for _, m := range models {
		instance := map[string]any{"name": m.Model, "baseUrl": f.backend}
		if adapter != "" {
			instance["adapter"] = adapter
		}
		if m.Upstream != "" {
			instance["upstreamModel"] = m.Upstream
		}
		if f.path != "" && strings.EqualFold(m.ServiceType, schema.Chat.String()) {
			instance["path"] = f.path
		}
		if key != "" {
			instance["apiKey"] = key
		}
		list = append(list, map[string]any{"serviceType": m.ServiceType, "instance": instance})
	}
	return map[string]any{"instances": list}
}

func (f *addFlags) list(stdout io.Writer, adapter string, models []addedModel) {
	if adapter == "" {
		adapter = "of the kind that its service type has"
	}
	fmt.Fprintf(stdout, "%s is %s\n\n", f.backend, adapter)
	rows := [][]string{{"MODEL\tSERVICE TYPE\t"}}
	for _, m := range models {
		note := "new"
		if m.Exists {
			note = "is there already"
		}
		rows = append(rows, []string{m.Model, m.ServiceType, note})
	}
	_ = writeTable(stdout, rows) // a writer that fails fails again below
	fmt.Fprintln(stdout)
}

func (f *addFlags) report(stdout io.Writer, adapter string, models []addedModel, fresh, version int) error {
	if f.json {
		return failed(writeJSON(stdout,
			map[string]any{"baseUrl": f.backend, "adapter": adapter, "models": models, "version": version,
				"dryRun": f.dryRun}))
	}
	switch {
	case fresh == 0:
		fmt.Fprintln(stdout, "nothing is new")
	case version == 0:
		fmt.Fprintln(stdout, "nothing was added")
	case f.dryRun:
		fmt.Fprintf(stdout, "%s would be added; nothing was\n", say.Counted(fresh, "instance"))
	default:
		fmt.Fprintf(stdout, "added %s; the configuration is version %d\nThe configuration file is unchanged; "+
			"patchbay export prints what is in force.\n", say.Counted(fresh, "instance"), version)
	}
	return nil
}
