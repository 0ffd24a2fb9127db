package gateway

import (
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
)

// openProcesses makes what runs the processes of the configuration file. None is started
// before somebody asks for it.
func (g *Gateway) openProcesses(opened *cleanups) {
	g.processes = processes.New(g.Document.Processes, g.Document.Limits.ProcessMemory, processes.Options{
		Log:   logs.Named(g.log, "processes"),
		Moved: g.processMoved,
		Keeps: g.keepsProcess,
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

// keepsProcess reports whether requests may start a process, so that it is kept in memory like
// the models of other servers.
func (g *Gateway) keepsProcess(name string) bool {
	table := g.Current.Load()
	if table == nil {
		return false
	}
	for _, i := range table.Instances() {
		if i.Settings.Process == name && i.Resident() != nil {
			return true
		}
	}
	return false
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
