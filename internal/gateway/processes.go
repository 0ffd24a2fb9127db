package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/logs"
	"github.com/patchbay-ai/patchbay/internal/processes"
)

// openProcesses makes what runs the processes of the configuration file. None is started
// before somebody asks for it.
func (g *Gateway) openProcesses(opened *cleanups) {
	g.processes = processes.New(g.Document.Processes, g.Document.Limits.ProcessMemory, processes.Options{
		Log:   logs.Named(g.log, "processes"),
		Moved: g.processMoved,
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

// runs returns the processes that a configuration file describes, for its instances.
func (g *Gateway) runs(doc *config.Document) backend.Processes {
	described := doc.Processes
	return func(name string) (backend.Process, string) {
		settings, known := described[name]
		if !known {
			return nil, ""
		}
		return &instanceProcess{g.processes, name, settings}, g.processes.Address(name, settings)
	}
}

// instanceProcess is a process as its instances use it.
type instanceProcess struct {
	manager  *processes.Manager
	name     string
	settings processes.Process
}

// errNotReady means that a process was not ready for a request in time.
var errNotReady = errors.New("the process was not ready in time")

// Ensure implements backend.Process. A request waits for as long as a start may take, turns
// of other processes included.
func (p *instanceProcess) Ensure(ctx context.Context) (address string, release func(), err error) {
	patience := p.settings.StartTimeout.Std()
	bounded, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%w: %s", errNotReady, patience.Round(time.Second)))
	defer cancel()
	if release, err = p.manager.Ensure(bounded, p.name); err != nil {
		return "", nil, err
	}
	return p.manager.Address(p.name, p.settings), release, nil
}

// IsReady implements backend.Process.
func (p *instanceProcess) IsReady() bool {
	state, _ := p.manager.StateOf(p.name)
	return state == processes.Ready
}
