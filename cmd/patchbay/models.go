package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
)

// loadPatience is how long a verb waits for a model to be loaded or unloaded: longer than
// any gateway does.
const loadPatience = time.Hour

func newModels(env []string) *cobra.Command {
	return newFamily(flagsIn(env), "model", false, remoteVerb{
		use:   "models",
		short: "List, load, pin and put to sleep the models in the memory of their hosts",
		long: `Lists the models that a running gateway loads for requests and puts to sleep
(residency of a service type), loads one, puts one to sleep, and pins one, so that it
stays in memory.

` + remotePlaces,
		example: `  patchbay models list
  patchbay models load qwen3
  patchbay models pin qwen3 --host http://gpu1:11434`,
	}, remoteVerb{
		use: "list", asks: residentModels,
		short:   "List the models: where they are, when they were used, what they take, why one is not there",
		example: "  patchbay models list --json",
		prints: reply(func(a *asking, lines *[]residentLine) error {
			if len(*lines) == 0 {
				return a.printf(lines, "no model is loaded or put to sleep for requests (residency of a service type, "+
					"processes); GET /v1/models lists those that are served\n")
			}
			return table("MODEL\tHOST\tSTATE\tUSED\tMEMORY\tPINNED\tLOADS\tEVICTIONS\tWHY", (*residentLine).row)(a)
		}),
	}, ofModel(remoteVerb{
		use:     "load MODEL",
		short:   "Load a model, and wait until it is in memory; Ctrl-C gives it up",
		example: "  patchbay models load qwen3",
	}, moveModel("load", "loaded")), ofModel(remoteVerb{
		use:     "sleep MODEL",
		short:   "Put a model to sleep, or out of memory, unless it is in use or pinned",
		example: "  patchbay models sleep qwen3",
	}, moveModel("sleep", "put to sleep")), ofModel(remoteVerb{
		use:   "pin MODEL",
		short: "Pin a model, so that it stays in memory, or end that",
		long: `Pins a model, so that it is neither put to sleep nor thrown out of memory for another
one, or ends that. It changes the setting pinned of its instances, which makes a
version of the configuration.`,
		example: `  patchbay models pin qwen3
  patchbay models pin qwen3 --off`,
		flags: []flag{{"off", "", false, "end it", nil}},
	}, pinModel))
}

// residentModels is the operation that lists the models.
const residentModels = "GET /api/models/residency"

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
func (l *residentLine) row() []string {
	now := time.Now()
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

// findModel returns the model that a verb names.
func findModel(a *asking) (*residentLine, error) {
	var lines []residentLine
	if err := a.do(residentModels, &lines); err != nil {
		return nil, err
	}
	name, host, on := a.args[0], a.cmd.Flag("host").Value.String(), ""
	if host != "" {
		on = " on " + host
	}
	var hosts []string
	var found *residentLine
	for i := range lines {
		if l := &lines[i]; l.is(name) && (host == "" || strings.TrimRight(host, "/") == l.Host) {
			found = l
			hosts = append(hosts, l.Host)
		}
	}
	switch {
	case found == nil:
		return nil, fmt.Errorf("the gateway keeps no model %q in memory%s; patchbay models list has those that it does",
			name, on)
	case len(hosts) > 1:
		return nil, fmt.Errorf("%q is on several hosts; name one with --host: %s", name, strings.Join(hosts, ", "))
	}
	return found, nil
}

// ofModel completes a verb that does something with one model, and prints what was done.
func ofModel(v remoteVerb, do func(*asking, *residentLine) (said string, err error)) remoteVerb {
	v.args = cobra.ExactArgs(1)
	v.flags = append(v.flags, flag{"host", "", "", "address of the server, where several have the model", nil})
	v.does = func(a *asking) error {
		a.patience = loadPatience
		line, err := findModel(a)
		if err != nil {
			return err
		}
		said, err := do(a, line)
		if err != nil {
			return err
		}
		return a.printf(line, "%s %s on %s\n", said, line.Model, line.Host)
	}
	return v
}

// moveModel returns a function that loads a model or puts it to sleep.
func moveModel(action, said string) func(*asking, *residentLine) (string, error) {
	return func(a *asking, l *residentLine) (string, error) {
		if len(l.Instances) == 0 {
			return "", errors.New("the model has no instance any more")
		}
		of := l.Instances[0]
		a.body = map[string]any{"instanceId": of.InstanceID}
		return said, a.do("POST /api/config/instance/"+action+"/"+of.ServiceType.String(), l)
	}
}

func pinModel(a *asking, l *residentLine) (string, error) {
	off, _ := a.cmd.Flags().GetBool("off")
	for n := range l.Instances {
		i := &l.Instances[n]
		a.body = map[string]any{"instanceId": i.InstanceID, "instance": map[string]bool{"pinned": !off}}
		if err := a.do("PUT /api/config/instance/update/"+i.ServiceType.String(), new(any)); err != nil {
			return "", err
		}
		i.Pinned = !off
	}
	if l.Pinned = !off; off {
		return "not pinned any more:", nil
	}
	return "pinned", nil
}
