package processes

import (
	"context"

	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Server is a process as its instances use it, and as it is kept in memory beside others
// (package residency).
type Server struct {
	manager  *Manager
	name     string
	settings Process
	memory   schema.Bytes // of all processes together
}

// Server returns a process that is described so, where all have an amount of memory together.
func (m *Manager) Server(name string, settings Process, memory schema.Bytes) *Server {
	return &Server{m, name, settings, memory}
}

// Wake implements residency.Sleeper.
func (s *Server) Wake(ctx context.Context) error {
	_, err := s.manager.Ensure(ctx, s.name) // Leave ends the use of it
	return err
}

// Sleep implements residency.Sleeper.
func (s *Server) Sleep(ctx context.Context) error { return s.manager.Sleep(ctx, s.name) }

// Enter implements residency.Server.
func (s *Server) Enter(calls int) bool { return s.manager.Enter(s.name, calls) }

// Beside implements residency.Server.
func (s *Server) Beside(calls int) { s.manager.Beside(s.name, calls) }

// Leave implements residency.Server.
func (s *Server) Leave() { s.manager.Leave(s.name) }

// IsRunning implements residency.Server.
func (s *Server) IsRunning() bool {
	state, _ := s.manager.StateOf(s.name)
	return state == Ready
}

// Doubt says that a connection to the process broke, so that it may have died.
func (s *Server) Doubt() { s.manager.Doubt(s.name) }

// Rules returns how the process is kept: which memory it shares with others, and how long a
// request waits for it. Processes of a group exclude each other.
func (s *Server) Rules() residency.Rules {
	rules := residency.Rules{SleepAfter: s.settings.StopAfter.Std(), Start: s.settings.StartTimeout.Std()}
	switch {
	case s.settings.Group != "":
		rules.Space, rules.Capacity, rules.Size = residency.GroupSpace(s.settings.Group), 1, 1
	case s.settings.Memory > 0:
		rules.Space, rules.Capacity, rules.Size = "process memory", float64(s.memory), float64(s.settings.Memory)
	}
	return rules
}
