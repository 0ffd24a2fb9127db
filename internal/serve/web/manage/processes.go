package manage

import (
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

func (a *API) listProcesses(*web.Call) (views []processView, err error) {
	for _, view := range a.options.Processes.List() {
		views = append(views, processView{view})
	}
	return views, nil
}

func (a *API) process(c *web.Call) (processDetail, error) {
	view, lines, err := a.options.Processes.View(c.PathValue("name"))
	if err != nil {
		return processDetail{}, noProcess(c)
	}
	detail := processDetail{View: view}
	if c.Who.Role.Holds(access.ManageProcesses) {
		detail.Output = lines
	}
	return detail, nil
}

func (a *API) startProcess(c *web.Call) (processView, error) {
	return a.changeProcess(c, "started", a.options.Processes.Start)
}

func (a *API) stopProcess(c *web.Call) (processView, error) {
	return a.changeProcess(c, "stopped", a.options.Processes.Stop)
}

// changeProcess starts or stops a process, unless the request is a dry run.
func (a *API) changeProcess(c *web.Call, done string, change func(string) error) (processView, error) {
	name := c.PathValue("name")
	if _, _, err := a.options.Processes.View(name); err != nil {
		return processView{}, noProcess(c)
	}
	c.Say("The process %s would be %s.", name, done)
	if !c.DryRun {
		if err := change(name); err != nil {
			return processView{}, away("the process cannot be changed now: " + err.Error())
		}
		c.Say("The process %s is being %s.", name, done)
	}
	c.Done("process %s %s", name, done)
	view, _, err := a.options.Processes.View(name)
	if err != nil {
		err = noProcess(c)
	}
	return processView{view}, err
}

func noProcess(c *web.Call) error {
	return web.NotFound("not found: the configuration file of this gateway has no process %q", web.Shorten(c.PathValue("name")))
}
