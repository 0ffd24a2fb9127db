package manage

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
)

// Processes are the model servers that the gateway runs.
type Processes interface {
	// List returns all processes, and View one with the last lines that it wrote.
	List() []processes.View
	View(name string) (processes.View, []processes.Line, error)
	// Start and Stop begin to start or stop a process, and wait for nothing.
	Start(name string) error
	Stop(name string) error
}

// processView is a process as JSON.
type processView struct{ processes.View }

// processDetail is one process with what it wrote.
type processDetail struct {
	processes.View
	Output []processes.Line `json:"output,omitempty" doc:"The last lines that it wrote, for administrators: they may repeat what requests say."`
}

// Processes answers GET /api/processes.
func (a *API) Processes(q *Request) (Reply, error) {
	var views []processView
	for _, view := range a.options.Processes.List() {
		views = append(views, processView{view})
	}
	all, err := list(q, views)
	return Reply{message: "The processes that this gateway runs.", data: all}, err
}

// Process answers GET /api/processes/{name}.
func (a *API) Process(q *Request) (Reply, error) {
	view, lines, err := a.options.Processes.View(q.PathValue("name"))
	if err != nil {
		return Reply{}, noProcess(q)
	}
	detail := processDetail{View: view}
	if q.who.Role.Holds(access.ManageProcesses) {
		detail.Output = lines
	}
	return Reply{message: "One process of this gateway.", data: detail}, nil
}

// StartProcess answers POST /api/processes/{name}/start.
func (a *API) StartProcess(q *Request) (Reply, error) {
	return a.changeProcess(q, "started", a.options.Processes.Start)
}

// StopProcess answers POST /api/processes/{name}/stop.
func (a *API) StopProcess(q *Request) (Reply, error) {
	return a.changeProcess(q, "stopped", a.options.Processes.Stop)
}

// changeProcess starts or stops a process, unless the request is a dry run.
func (a *API) changeProcess(q *Request, done string, change func(string) error) (Reply, error) {
	name := q.PathValue("name")
	if _, _, err := a.options.Processes.View(name); err != nil {
		return Reply{}, noProcess(q)
	}
	message := "The process " + name + " would be " + done + "."
	if !q.change.DryRun {
		if err := change(name); err != nil {
			return Reply{}, fmt.Errorf("%w: %w", errProcess, err)
		}
		message = "The process " + name + " is being " + done + "."
	}
	view, _, err := a.options.Processes.View(name)
	if err != nil {
		return Reply{}, noProcess(q)
	}
	return Reply{message: message, change: "process " + name + " " + done, data: processView{view}}, nil
}

func noProcess(q *Request) error {
	return fmt.Errorf("%w: the configuration file of this gateway has no process %q", errNotFound, web.Shorten(q.PathValue("name")))
}
