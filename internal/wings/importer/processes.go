package importer

import (
	"cmp"
	"fmt"
	"maps"
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
	lines                []string // further settings
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
	if len(d.processes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("processes:\n")
	for _, p := range d.processes {
		p.write(&b)
	}
	return b.String()
}

func (p *process) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %s:\n", config.QuoteYAML(p.name))
	writeCommand(b, "command", p.command)
	if len(p.env) > 0 {
		b.WriteString("    env:\n")
		for _, name := range slices.Sorted(maps.Keys(p.env)) {
			fmt.Fprintf(b, "      %s: %s\n", config.QuoteYAML(name), config.QuoteYAML(p.env[name]))
		}
	}
	if p.ready != "" {
		fmt.Fprintf(b, "    ready: %s\n", config.QuoteYAML(p.ready))
	}
	if p.stop != "" {
		writeCommand(b, "stop", p.stop)
	}
	switch len(p.groups) {
	case 0:
	case 1:
		fmt.Fprintf(b, "    group: %s\n", p.groups[0])
	default:
		fmt.Fprintf(b, "    group: %s\n", list(p.groups))
	}
	for _, line := range p.lines {
		fmt.Fprintf(b, "    %s\n", line)
	}
	if p.preload {
		b.WriteString("    preload: true\n")
	}
}

// notInBlock finds characters that a block of YAML does not have as they are.
var notInBlock = regexp.MustCompile(`[^\t\n -~\x{a0}-\x{d7ff}]`)

// writeCommand writes a command of several lines on lines of its own.
func writeCommand(b *strings.Builder, name, text string) {
	if !strings.Contains(text, "\n") || notInBlock.MatchString(text) {
		fmt.Fprintf(b, "    %s: %s\n", name, config.QuoteYAML(text))
		return
	}
	fmt.Fprintf(b, "    %s: |-\n", name)
	for line := range strings.Lines(text) {
		b.WriteString("      " + strings.TrimRight(line, "\n") + "\n")
	}
}
