package processes

import (
	"context"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
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

// Servers returns all processes by their names, also processes that are ending because the
// settings dropped them.
func (m *Manager) Servers() map[string]*Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]*Server, len(m.processes))
	for name, p := range m.processes {
		all[name] = m.Server(name, p.settings, m.memory)
	}
	return all
}

// Wake implements residency.Sleeper.
func (s *Server) Wake(ctx context.Context) error { return s.manager.wake(ctx, s.name) }

// Sleep implements residency.Sleeper: it ends the process unless somebody uses it or waits for
// it. It returns when nothing is left of the process, however long that takes, because another
// one gets its memory then.
func (s *Server) Sleep(context.Context) (err error) {
	s.with(func(p *process) {
		if p.uses > 0 || p.waiting > 0 {
			err = say.Wrap(errInUse, "process.in_use", "name", s.name)
			return
		}
		s.manager.end(p)
		s.manager.awaitEnd(p)
	})
	return err
}

// with calls a function with the process, if it is there, while nobody changes it.
func (s *Server) with(do func(*process)) {
	s.manager.mu.Lock()
	defer s.manager.mu.Unlock()
	if p := s.manager.processes[s.name]; p != nil {
		do(p)
	}
}

// Enter implements residency.Server.
func (s *Server) Enter(calls int) (isReady bool) {
	s.with(func(p *process) {
		if isReady = p.admits() && !s.manager.isClosed; isReady {
			p.uses += calls
		}
	})
	return isReady
}

// Leave implements residency.Server.
func (s *Server) Leave() {
	s.with(func(p *process) {
		if p.uses > 0 {
			p.uses--
			p.lastUsed = time.Now()
			s.manager.retire(p)
		}
	})
}

// IsRunning implements residency.Server.
func (s *Server) IsRunning() (isRunning bool) {
	s.with(func(p *process) { isRunning = p.admits() })
	return isRunning
}

// IsLoaded implements residency.Server.
func (s *Server) IsLoaded() (isLoaded bool) {
	s.with(func(p *process) { isLoaded = p.isActive() })
	return isLoaded
}

// Fault implements residency.Server.
func (s *Server) Fault() (f residency.Fault) {
	s.with(func(p *process) {
		if p.state == Failed {
			f = residency.Fault{Since: p.since, Why: p.reason, Line: p.out.lastLine()}
		}
	})
	return f
}

// Doubt says that a connection to a process which is ready broke: it may have died a moment
// ago. It takes no calls until it has answered again, or has been given a moment to.
func (s *Server) Doubt() {
	s.with(func(p *process) {
		if p.state == Ready && !p.isDoubted {
			p.isDoubted = true
			s.manager.lookAt(p)
		}
	})
}

// lookAt asks a process that is in doubt whether it is ready.
func (m *Manager) lookAt(p *process) {
	ready, gone := p.ready, p.gone
	m.running.Go(func() {
		looking, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		var look sync.WaitGroup
		look.Go(func() {
			defer cancel()
			logs.Contain(m.log, "asking a process whether it is ready", func() { m.awaitReady(looking, ready) })
		})
		select {
		case <-gone:
			cancel()
		case <-looking.Done():
		}
		look.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		if p.gone == gone { // the same life
			p.isDoubted = false
			p.changed.Tell()
		}
	})
}

// Program returns the command of the process, its environment and its directory.
func (s *Server) Program() any {
	return []any{s.settings.Command, s.settings.Env, s.settings.Directory}
}

// Rules returns how the process is kept: which memory it shares with others, and how long a
// request waits for it. Processes of a group exclude each other.
func (s *Server) Rules() residency.Rules {
	rules := residency.Rules{SleepAfter: s.settings.StopAfter.Std(), Start: s.settings.StartTimeout.Std()}
	switch {
	case len(s.settings.Group) > 0:
		rules.Space, rules.Capacity, rules.Size = residency.GroupSpace(s.settings.Group[0]), 1, 1
		for _, group := range s.settings.Group[1:] {
			rules.Beside = append(rules.Beside, residency.GroupSpace(group))
		}
	case s.settings.Memory > 0:
		rules.Space, rules.Capacity, rules.Size = "process memory", float64(s.memory), float64(s.settings.Memory)
	}
	return rules
}
