package importer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// process holds the settings to write for a process; empty ones are left out. Its texts are as
// the configuration has them, with references.
type process struct {
	name                 string
	command, stop, ready string
	env                  map[string]string
	groups               []string
	more                 members // further settings
	preload              bool
}

// notInProcess finds characters that names of processes do not have.
var notInProcess = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// processName makes an unused name of a process from that of its model.
func (d *draft) processName(model string) string {
	const longest = 60
	name := strings.Trim(notInProcess.ReplaceAllString(model, "-"), "-")
	name = cmp.Or(name[:min(len(name), longest)], "model")
	for base, n := name, 2; d.processNamed(name) != nil; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// processNamed returns the process of a name, nil where there is none.
func (d *draft) processNamed(name string) *process {
	at := slices.IndexFunc(d.processes, func(p *process) bool { return p.name == name })
	if at < 0 {
		return nil
	}
	return d.processes[at]
}

// processesText writes the processes.
func (d *draft) processesText() string {
	var all members
	for _, p := range d.processes {
		group := list(p.groups)
		if len(p.groups) == 1 {
			group = p.groups[0]
		}
		m := members{{"command", commandText(p.command)}, {"env", textsOf(p.env).nested("      ")},
			{"ready", quoted(p.ready)}, {"stop", commandText(p.stop)}, {"group", group}}
		m = append(append(m, p.more...), [2]string{"preload", truth(p.preload, "true")})
		all = append(all, [2]string{config.QuoteYAML(p.name), m.nested("    ")})
	}
	return all.section("processes")
}

// notInBlock finds characters that a block of YAML does not have as they are.
var notInBlock = regexp.MustCompile(`[^\t\n -~\x{a0}-\x{d7ff}]`)

// commandText writes a command, one of several lines on lines of its own.
func commandText(text string) string {
	if !strings.Contains(text, "\n") || notInBlock.MatchString(text) {
		return quoted(text)
	}
	return "|-\n      " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n      ")
}
