package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
)

// loadPatience is how long a verb waits for a model to be loaded or unloaded: longer than
// any gateway does.
const loadPatience = time.Hour

func newModels(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List, load, pin and put to sleep the models in the memory of their hosts",
		Long: `Lists the models that a running gateway loads for requests and puts to sleep
(residency of a service type), loads one, puts one to sleep, and pins one, so that it
stays in memory.

` + remotePlaces,
		Example: `  patchbay models list
  patchbay models load qwen3
  patchbay models pin qwen3 --host http://gpu1:11434`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newModelsList(env, stdout), newModelsLoad(env, stdout), newModelsSleep(env, stdout),
		newModelsPin(env, stdout))
	return cmd
}

// residentLine is a model as the gateway lists it.
type residentLine manage.ResidentView

// is reports whether a name means the model: its name on the host, or the name of an
// instance.
func (l *residentLine) is(name string) bool {
	if l.Model == name {
		return true
	}
	for _, i := range l.Instances {
		if before, _, _ := strings.Cut(i.InstanceID, "@"); i.InstanceID == name || before == name {
			return true
		}
	}
	return false
}

// row returns the model as a row of the table.
func (l *residentLine) row(now time.Time) []string {
	state := string(l.State)
	if l.LeftMs > 0 {
		state += fmt.Sprintf(", about %.0f s more", float64(l.LeftMs)/1000)
	}
	if l.Waiting > 0 {
		state += fmt.Sprintf(", %d wait", l.Waiting)
	}
	why := "-"
	if l.State != "loaded" && l.Failure != "" {
		why = strings.TrimSuffix(l.Failure+": "+l.Line, ": ")
	}
	if l.State == residency.Failed && l.Since != nil {
		state += " for " + since(*l.Since, now)
	}
	used := "-"
	if l.LastUsed != nil {
		used = since(*l.LastUsed, now) + " ago"
	}
	if l.InUse {
		used = "now"
	}
	memory, pinned := "-", "-"
	if l.Bytes > 0 {
		memory = fmt.Sprintf("%.1f GB", float64(l.Bytes)/1e9)
	}
	if l.Pinned {
		pinned = "pinned"
	}
	return []string{l.Model, l.Host, state, used, memory, pinned, fmt.Sprint(l.Loads), fmt.Sprint(l.Evictions),
		why}
}

// since returns how long ago a time was that the gateway wrote.
func since(at string, now time.Time) string {
	then, _ := time.Parse(time.RFC3339, at) // the gateway wrote it
	return now.Sub(then).Truncate(time.Second).String()
}

// modelFlags are the flags of the verbs about models.
type modelFlags struct {
	verbFlags
	host string
}

// residents returns the gateway and its models.
func (f *modelFlags) residents(ctx context.Context) (r remote, lines []residentLine, err error) {
	if r, err = f.remote(); err != nil {
		return r, nil, err
	}
	r.patience = loadPatience
	lines = []residentLine{}
	err = r.ask(ctx, http.MethodGet, "/api/models/residency", nil, &lines)
	return r, lines, failed(err)
}

// one returns the model that a verb names.
func (f *modelFlags) one(lines []residentLine, name string) (*residentLine, error) {
	var hosts []string
	var found *residentLine
	for i := range lines {
		if l := &lines[i]; l.is(name) && (f.host == "" || strings.TrimRight(f.host, "/") == l.Host) {
			found = l
			hosts = append(hosts, l.Host)
		}
	}
	switch {
	case found == nil:
		return nil, failed(fmt.Errorf("the gateway keeps no model %q in memory%s; patchbay models list has those "+
			"that it does", name, f.onHost()))
	case len(hosts) > 1:
		return nil,
			failed(fmt.Errorf("%q is on several hosts; name one with --host: %s", name, strings.Join(hosts, ", ")))
	}
	return found, nil
}

func (f *modelFlags) onHost() string {
	if f.host == "" {
		return ""
	}
	return " on " + f.host
}

func newModelsList(env []string, stdout io.Writer) *cobra.Command {
	flags := &modelFlags{verbFlags: verbFlags{remoteFlags: remoteFlags{settingFlags: settingFlags{env: env}}}}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the models: where they are, when they were used, what they take, why one is not there",
		Example: "  patchbay models list --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			_, lines, err := flags.residents(ctx)
			if err != nil {
				return err
			}
			if flags.json {
				return writeJSON(stdout, lines)
			}
			if len(lines) == 0 {
				fmt.Fprintln(stdout, "no model is loaded or put to sleep for requests (residency of a service type, "+
					"processes); GET /v1/models lists those that are served")
				return nil
			}
			table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "MODEL\tHOST\tSTATE\tUSED\tMEMORY\tPINNED\tLOADS\tEVICTIONS\tWHY")
			for i := range lines {
				fmt.Fprintln(table, strings.Join(lines[i].row(time.Now()), "\t"))
			}
			return table.Flush()
		},
	}
	flags.register(cmd)
	return cmd
}

// newModelVerb completes a command that does something with one model.
func newModelVerb(env []string, stdout io.Writer, cmd *cobra.Command,
	do func(ctx context.Context, r *remote, l *residentLine) (said string, err error)) *cobra.Command {
	flags := &modelFlags{verbFlags: verbFlags{remoteFlags: remoteFlags{settingFlags: settingFlags{env: env}}}}
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		r, lines, err := flags.residents(ctx)
		if err != nil {
			return err
		}
		line, err := flags.one(lines, args[0])
		if err != nil {
			return err
		}
		said, err := do(ctx, &r, line)
		if err != nil {
			return failed(err)
		}
		if flags.json {
			return writeJSON(stdout, line)
		}
		_, err = fmt.Fprintf(stdout, "%s %s on %s\n", said, line.Model, line.Host)
		return err
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&flags.host, "host", "", "address of the server, where several have the model")
	return cmd
}

// newModelsMove completes a command that moves a model as the command's name says, and
// prints the result.
func newModelsMove(env []string, stdout io.Writer, cmd *cobra.Command, said string) *cobra.Command {
	return newModelVerb(env, stdout, cmd, func(ctx context.Context, r *remote, l *residentLine) (string, error) {
		if len(l.Instances) == 0 {
			return "", errors.New("the model has no instance any more")
		}
		of := l.Instances[0]
		return said,
			r.ask(ctx, http.MethodPost, "/api/config/instance/"+cmd.Name()+"/"+of.ServiceType.String(),
				map[string]string{"instanceId": of.InstanceID}, l)
	})
}

func newModelsLoad(env []string, stdout io.Writer) *cobra.Command {
	return newModelsMove(env, stdout, &cobra.Command{
		Use:     "load MODEL",
		Short:   "Load a model, and wait until it is in memory; Ctrl-C gives it up",
		Example: "  patchbay models load qwen3",
	}, "loaded")
}

func newModelsSleep(env []string, stdout io.Writer) *cobra.Command {
	return newModelsMove(env, stdout, &cobra.Command{
		Use:     "sleep MODEL",
		Short:   "Put a model to sleep, or out of memory, unless it is in use or pinned",
		Example: "  patchbay models sleep qwen3",
	}, "put to sleep")
}

func newModelsPin(env []string, stdout io.Writer) *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use:   "pin MODEL",
		Short: "Pin a model, so that it stays in memory, or end that",
		Long: `Pins a model, so that it is neither put to sleep nor thrown out of memory for another
one, or ends that. It changes the setting pinned of its instances, which makes a
version of the configuration.`,
		Example: `  patchbay models pin qwen3
  patchbay models pin qwen3 --off`,
	}
	cmd = newModelVerb(env, stdout, cmd, func(ctx context.Context, r *remote, l *residentLine) (string, error) {
		for n := range l.Instances {
			i := &l.Instances[n]
			body := map[string]any{"instanceId": i.InstanceID, "instance": map[string]bool{"pinned": !off}}
			if err := r.ask(ctx, http.MethodPut, "/api/config/instance/update/"+i.ServiceType.String(), body,
				new(any)); err != nil {
				return "", err
			}
			i.Pinned = !off
		}
		if l.Pinned = !off; off {
			return "not pinned any more:", nil
		}
		return "pinned", nil
	})
	cmd.Flags().BoolVar(&off, "off", false, "end it")
	return cmd
}
