package processes

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// View is a process as people see it.
type View struct {
	Name   string         `json:"name"`
	State  State          `json:"state" doc:"What the process does."`
	Reason string         `json:"reason,omitzero" doc:"Why it failed."`
	Said   []say.Sentence `json:"said,omitzero" doc:"The reason as codes and values."`
	Line   string         `json:"lastLine,omitzero" doc:"The last line that it wrote, for administrators only."`
	// Since is when it came into its state.
	Since    time.Time       `json:"since"`
	PID      int             `json:"pid,omitzero"`
	BaseURL  string          `json:"baseUrl" doc:"Where it listens."`
	Group    string          `json:"group,omitzero"`
	Memory   schema.Bytes    `json:"memory,omitzero"`
	Requests int             `json:"requests" doc:"How many use it now."`
	Waiting  int             `json:"waiting" doc:"How many wait until it is ready."`
	LastUsed time.Time       `json:"lastUsed,omitzero"`
	Took     schema.Duration `json:"startTook,omitzero" doc:"How long its latest start took, in milliseconds."`
	Starts   int64           `json:"starts" doc:"How often it was started since the gateway was."`
	Restarts int64           `json:"restarts" doc:"How many of these starts came after a failure."`
	Failures int             `json:"failures" doc:"How often it has failed in a row."`
	RetryAt  time.Time       `json:"retryAt,omitzero" doc:"Before which it is not started again by a request."`
}

// Choices returns the values that texts of a view may have.
func (View) Choices() map[string][]string {
	var states []string
	for _, s := range States() {
		states = append(states, string(s))
	}
	return map[string][]string{"state": states}
}

// List returns all processes by their names.
func (m *Manager) List() []View {
	m.mu.Lock()
	defer m.mu.Unlock()
	views := make([]View, 0, len(m.processes))
	for _, p := range m.processes {
		views = append(views, m.view(p))
	}
	slices.SortFunc(views, func(a, b View) int { return cmp.Compare(a.Name, b.Name) })
	return views
}

// View returns one process, with its last lines.
func (m *Manager) View(name string) (View, []Line, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.processes[name]
	if p == nil {
		return View{}, nil, say.Wrap(ErrUnknown, "process.unknown", "name", name)
	}
	return m.view(p), p.out.last(), nil
}

func (m *Manager) view(p *process) View {
	v := View{
		Name: p.name, State: p.state, Reason: p.reason.String(), Said: say.All(p.reason), Since: p.since,
		Line:    p.out.lastLine(),
		BaseURL: m.Address(p.name, p.settings),
		Group:   strings.Join(p.settings.Group, ", "), Memory: p.settings.Memory, Requests: p.uses, Waiting: p.waiting,
		LastUsed: p.lastUsed, Took: schema.Duration(p.took.Truncate(time.Millisecond)), Starts: p.starts,
		Restarts: p.restarts, Failures: p.failures,
	}
	if p.child != nil {
		v.PID = p.child.PID()
	}
	if p.state == Failed {
		v.RetryAt = p.retryAt
	}
	return v
}
