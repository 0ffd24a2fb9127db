package gateway

import (
	"context"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
)

// openProcesses makes what runs the processes of the configuration file. None is started
// before somebody asks for it.
func (g *Gateway) openProcesses(opened *cleanups) {
	g.processes = processes.New(g.Document.Processes, g.Document.Limits.ProcessMemory, processes.Options{
		Log:   logs.Named(g.log, "processes"),
		Moved: g.processMoved,
		Load:  g.loadProcess,
	})
	opened.add(g.processes.Close)
	g.Document.Runs = g.runs(g.Document)
}

// processMoved has the instances of a process follow it to its new address.
func (g *Gateway) processMoved() {
	if err := g.Control.Rebuild(); err != nil {
		g.log.Error("instances could not follow their process to another port", "error", err)
	}
}

// loadProcess starts a process for an administrator, once there is room for it.
func (g *Gateway) loadProcess(ctx context.Context, name string) {
	if err := g.Residency.Start(ctx, backend.ProcessPlace(g.Fleet, name)); err != nil {
		g.log.Warn("a process was not started for an administrator", "process", name, "error", err)
	}
}

// mindProcesses has all processes counted for what is in memory, also those that no request can
// start and those that end.
func (g *Gateway) mindProcesses() {
	var all []residency.Kept
	for name, server := range g.processes.Servers() {
		all = append(all, residency.Kept{Place: backend.ProcessPlace(g.Fleet, name), Sleeper: server, Rules: server.Rules()})
	}
	g.Residency.Mind(all)
}

// runs returns the processes that a configuration file describes, for its instances.
func (g *Gateway) runs(doc *config.Document) backend.Processes {
	described, memory := doc.Processes, doc.Limits.ProcessMemory
	return func(name string) (backend.Process, string) {
		settings, known := described[name]
		if !known {
			return nil, ""
		}
		return g.processes.Server(name, settings, memory), g.processes.Address(name, settings)
	}
}
