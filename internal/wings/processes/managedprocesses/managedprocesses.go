// Package managedprocesses is the wing of processes: it connects the processes of the configuration file
// with the instances that use them, and lets operators see, start and stop them.
package managedprocesses

import (
	"context"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
)

// host runs the processes of a gateway.
type host struct {
	core    *wing.Core
	manager *processes.Manager
}

// New returns the wing of processes. Most are not started before somebody asks for them.
func New(core *wing.Core) *wing.Wing {
	h := &host{core: core}
	h.manager = processes.New(core.Document.Processes, core.Document.Limits.ProcessMemory, processes.Options{
		Log: logs.Named(core.Log, "processes"), Moved: h.moved, Load: h.load,
	})
	return &wing.Wing{
		Routes: h.routes, Read: h.read, Set: h.set, State: h.state, Families: families[:],
		Close: h.manager.Close,
		Run:   h.preload, Doing: "starting processes",
	}
}

// preload starts the processes that run from the beginning.
func (h *host) preload(context.Context) {
	for _, name := range processes.Names(h.core.Document.Processes) {
		if h.core.Document.Processes[name].Preload {
			_ = h.manager.Start(name) // which fails only if the file has another process by now
		}
	}
}

// read lets the instances of a configuration find its processes.
func (h *host) read(doc *config.Document) {
	described, memory := doc.Processes, doc.Limits.ProcessMemory
	doc.Runs = func(name string) (backend.Process, string) {
		settings, known := described[name]
		if !known {
			return nil, ""
		}
		return h.manager.Server(name, settings, memory), h.manager.Address(name, settings)
	}
	if doc == h.core.Document {
		h.mind()
	}
}

func (h *host) set(doc *config.Document) {
	h.manager.Set(doc.Processes, doc.Limits.ProcessMemory)
	h.mind()
}

// mind counts the memory of all processes, also of processes that no request can start and
// of ending ones.
func (h *host) mind() {
	var all []residency.Kept
	for name, server := range h.manager.Servers() {
		all = append(all,
			residency.Kept{Place: backend.ProcessPlace(h.core.Fleet, name), Sleeper: server, Rules: server.Rules()})
	}
	h.core.Residency.Mind(all)
}

// moved has the instances of a process follow it to its new address.
func (h *host) moved() {
	if err := h.core.Control.Rebuild(); err != nil {
		h.core.Log.Error("instances could not follow their process to another port", "error", err)
	}
}

// load starts a process that no request asked for, once there is room for it.
func (h *host) load(ctx context.Context, name string) {
	if err := h.core.Residency.Start(ctx, backend.ProcessPlace(h.core.Fleet, name)); err != nil {
		h.core.Log.Warn("a process was not started", "process", name, "error", err)
	}
}

// state adds the processes to the state for a scrape.
func (h *host) state(to *metrics.State, _ time.Time) {
	for _, p := range h.manager.List() {
		for _, state := range processes.States() {
			to.Flag("model_router_process_state", state == p.State, p.Name, string(state))
		}
		to.Count("model_router_process_starts_total", p.Starts, p.Name)
		to.Count("model_router_process_restarts_total", p.Restarts, p.Name)
	}
}

// routes returns the operations for people who run the gateway.
func (h *host) routes() []web.Route {
	missingOrAway := []int{http.StatusNotFound, http.StatusServiceUnavailable}
	return web.Group("Processes", readProcesses, manageProcesses, web.OfGateway, []web.Route{
		{
			Pattern: "GET /api/processes", Does: web.List(h.list),
			Summary: "The model servers that this gateway runs on its own host, from its configuration file",
			Says:    "The processes that this gateway runs.",
		},
		{
			Pattern: "GET /api/processes/{name}",
			Does:    web.Do(h.show),
			Summary: "One process, and for administrators the last lines that it wrote",
			Says:    "One process of this gateway.", Errors: []int{http.StatusNotFound},
		},
		{
			Pattern: "POST /api/processes/{name}/start",
			Does:    web.Do(h.start),
			Summary: "Start a process, or try one again that has failed; the reply does not wait until it is ready",
			Errors:  missingOrAway,
		},
		{
			Pattern: "POST /api/processes/{name}/stop", Takes: web.Always,
			Does:    web.Do(h.stop),
			Summary: "Stop a process, also one that requests use; the next request starts it again",
			Errors:  missingOrAway,
		},
	})
}

// processView is a process as JSON.
type processView struct{ processes.View }

// processDetail is one process with its output.
type processDetail struct {
	processes.View
	Output []processes.Line `json:"output,omitempty" doc:"The last lines that it wrote, for administrators only."`
}

func (h *host) list(c *web.Call) (views []processView, err error) {
	for _, view := range h.manager.List() {
		views = append(views, processView{withoutLine(view, c)})
	}
	return views, nil
}

// withoutLine hides the output of a process from people who may not manage it.
func withoutLine(view processes.View, c *web.Call) processes.View {
	if !c.Who.Role.Holds(manageProcesses) {
		view.Line = ""
	}
	return view
}

func (h *host) show(c *web.Call) (processDetail, error) {
	view, lines, err := h.manager.View(c.PathValue("name"))
	if err != nil {
		return processDetail{}, unknown(c)
	}
	detail := processDetail{View: withoutLine(view, c)}
	if c.Who.Role.Holds(manageProcesses) {
		detail.Output = lines
	}
	return detail, nil
}

func (h *host) start(c *web.Call) (processView, error) {
	return h.change(c, "started", h.manager.Start)
}

func (h *host) stop(c *web.Call) (processView, error) { return h.change(c, "stopped", h.manager.Stop) }

// change starts or stops a process, unless the request is a dry run.
func (h *host) change(c *web.Call, done string, change func(string) error) (processView, error) {
	name := c.PathValue("name")
	if _, _, err := h.manager.View(name); err != nil {
		return processView{}, unknown(c)
	}
	c.Say("The process %s would be %s.", name, done)
	if !c.DryRun {
		if err := change(name); err != nil {
			return processView{}, web.Away(say.New("process.not_now", "why", say.From(err)))
		}
		c.Say("The process %s is being %s.", name, done)
	}
	c.Done("process %s %s", name, done)
	view, _, err := h.manager.View(name)
	if err != nil {
		err = unknown(c)
	}
	return processView{view}, err
}

func unknown(c *web.Call) error {
	return web.NoSuch("process.none", "name", web.Shorten(c.PathValue("name")))
}

// families are the metrics of processes.
var families = [...]metrics.Family{
	{
		Name: "model_router_process_state", Dotted: "model.router.process.state", Kind: metrics.KindGauge,
		Category: metrics.CategoryCustom, Labels: []string{"process", "state"},
		Help: "Whether a process that the gateway runs is in a state: 1 or 0.",
	},
	{
		Name:   "model_router_process_starts_total",
		Dotted: "model.router.process.starts.total", Kind: metrics.KindCounter,
		Category: metrics.CategoryCustom, Unit: "starts", Labels: []string{"process"},
		Help: "How often a process was started.",
	},
	{
		Name:   "model_router_process_restarts_total",
		Dotted: "model.router.process.restarts.total", Kind: metrics.KindCounter,
		Category: metrics.CategoryCustom, Unit: "restarts", Labels: []string{"process"},
		Help: "How many of the starts of a process came after a failure.",
	},
}
