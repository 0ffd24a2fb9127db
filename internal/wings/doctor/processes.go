package doctor

import (
	"context"
	"maps"
	"slices"
)

// processes looks at the model servers that the gateway would run, and starts none.
func (e *examination) processes(context.Context) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(e.Document.Processes)) {
		process, area := e.Document.Processes[name], "process "+name
		missing := process.Missing()
		switch {
		case missing != "":
			findings = append(findings, fail(area, "install the program, or correct the first word of command", "%s", missing))
		case !process.IsLocal():
			findings = append(findings, warn(area, "name an address of this host, such as 127.0.0.1", "its ready URL is not one of this host, where it runs"))
		default:
			findings = append(findings, ok(area, "its program is there"))
		}
	}
	return findings
}
