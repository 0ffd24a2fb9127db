package processes

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// Why a process cannot be used.
var (
	// ErrUnknown means that the configuration file of this gateway has no such process.
	ErrUnknown = say.Error("process.unknown_plain")
	// ErrFailed means that the process does not start, or has failed too often.
	ErrFailed = say.Error("process.failed_bare")
	// ErrStopped means that the process was stopped by an administrator.
	ErrStopped = say.Error("process.stopped_plain")
	// errInUse means that requests use a process, or wait for it.
	errInUse = say.Error("process.in_use_plain")
)

// State is the present state of a process.
type State string

// The states.
const (
	Stopped  State = "stopped"
	Starting State = "starting"
	Ready    State = "ready"
	Stopping State = "stopping"
	Failed   State = "failed"
)

// States returns all states.
func States() []State { return []State{Stopped, Starting, Ready, Stopping, Failed} }

const (
	// firstBackoff is the time before a process that failed is started again. It doubles
	// with every failure in a row up to maxBackoff.
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// refusal is how long requests are refused after the last restart has failed. Then the
	// process gets one try more.
	refusal = time.Minute
	// provenAfter is how long a process has to be ready for its failures to be forgotten.
	provenAfter = time.Minute
)

// Options are the parts that a manager needs beside its settings.
type Options struct {
	Log *slog.Logger
	// Moved is called when a process has another address than before.
	Moved func()
	// Load makes room for a process, starts it by Server.Wake and returns when it is ready, or
	// when the context ends. An administrator who starts a process goes this way, as requests do.
	Load func(ctx context.Context, name string)
}

// Manager runs the processes of a gateway. It starts and stops them; package residency decides
// which of them are in memory together, and when one has to leave.
type Manager struct {
	log    *slog.Logger
	moved  func()
	load   func(ctx context.Context, name string)
	launch func(Process, io.Writer, *sync.WaitGroup) (child, error)
	probe  func(ctx context.Context, url string) error
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	ports  *ports

	mu        sync.Mutex
	processes map[string]*process
	memory    schema.Bytes // that processes have together
	isClosed  bool
	running   sync.WaitGroup
}

// process is one process, guarded by the lock of its manager.
type process struct {
	name     string
	settings Process
	// next replaces the settings when the process has ended; isRemoved says that nothing does.
	next      *Process
	isRemoved bool

	state   State
	since   time.Time    // when it came into its state
	reason  say.Sentence // why it failed
	changed waiting.Signal
	child   child  // while it is starting, ready or stopping
	ready   string // the URL that answers when that is ready
	stop    chan struct{}
	gone    chan struct{} // closed when nothing is left of it, nil while it does not run
	// isFailing says that the process is stopped because it has failed.
	isFailing bool
	waiting   int                     // calls of Wake
	stops     int                     // by administrators
	demand    context.CancelCauseFunc // ends a start by an administrator, nil if there is none
	uses      int
	lastUsed  time.Time
	readyAt   time.Time
	took      time.Duration // the latest start
	isDoubted bool          // it did not take a call, and is looked at
	failures  int           // in a row
	retryAt   time.Time     // not started before
	starts    int64
	restarts  int64 // starts after a failure
	out       *output
}

// New returns a manager that runs nothing yet.
func New(settings Settings, memory schema.Bytes, options Options) *Manager {
	m := &Manager{
		log: options.Log, moved: options.Moved, load: options.Load, launch: launch, probe: probe,
		dial: new(net.Dialer).DialContext, ports: new(ports), processes: map[string]*process{},
	}
	m.Set(settings, memory)
	return m
}

// Set makes the processes follow other settings. One that is no longer there, or is
// described otherwise, ends after the requests that use it; the others are left alone.
func (m *Manager) Set(settings Settings, memory schema.Bytes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memory = memory
	for name, described := range settings {
		p := m.processes[name]
		if p == nil {
			p = &process{name: name, out: m.newOutput(name)}
			p.setState(Stopped)
			m.processes[name] = p
		}
		wasRemoved := p.isRemoved
		p.isRemoved, p.next = false, nil
		switch {
		case !p.isActive() || p.settings.sameProgram(described) && !wasRemoved:
			if !p.settings.sameProgram(described) { // the fault may be mended now
				p.failures, p.retryAt = 0, time.Time{}
			}
			p.settings = described
		default:
			p.next = &described
		}
	}
	for name, p := range m.processes {
		_, stays := settings[name]
		p.isRemoved = !stays
		p.changed.Tell()
		m.retire(p)
	}
}

// newOutput returns where the lines of a process go.
func (m *Manager) newOutput(name string) *output {
	return &output{faults: m.log, log: func(text string, unlogged int64) {
		if unlogged > 0 {
			m.log.Info("output of a process", "process", name, "line", text, "left_out", unlogged)
			return
		}
		m.log.Info("output of a process", "process", name, "line", text)
	}}
}

// refuse says why nobody may wait for a process.
func (m *Manager) refuse(p *process, name string) error {
	switch {
	case p == nil || p.isRemoved:
		return say.Wrap(ErrUnknown, "process.unknown", "name", name)
	case m.isClosed:
		return residency.ErrStopped
	case p.state == Failed && p.failures > p.settings.Restarts && time.Now().Before(p.retryAt):
		return say.Wrap(ErrFailed, "process.failed", "name", p.name, "why", p.reason)
	}
	return nil
}

// admits reports whether a request may use the process at once.
func (p *process) admits() bool {
	return p.state == Ready && !p.isDoubted && p.next == nil && !p.isRemoved
}

// isActive reports whether the process takes memory.
func (p *process) isActive() bool {
	return p.state == Starting || p.state == Ready || p.state == Stopping
}

// wake starts a process unless it runs, and returns when it takes requests. An error means
// that it does not start, or that the context has ended. The end of the context gives up a
// start if nobody else waits for it.
func (m *Manager) wake(ctx context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.processes[name]
	if p == nil {
		return m.refuse(p, name)
	}
	p.waiting++
	defer func() { p.waiting-- }()
	for stops := p.stops; ; {
		if p.stops != stops {
			return say.Wrap(ErrStopped, "process.stopped", "name", name)
		}
		if err := m.refuse(p, name); err != nil || p.admits() {
			return err
		}
		if p.state == Stopped || p.state == Failed && !time.Now().Before(p.retryAt) {
			m.start(p)
		}
		if err := m.await(ctx, p); err != nil {
			if p.state == Starting && p.waiting == 1 {
				m.end(p)
			}
			if !errors.Is(err, residency.ErrStopped) {
				m.awaitEnd(p) // before, nobody gets its place
			}
			return err
		}
	}
}

// await waits for a change of a process, or for the time of its next start. The error is
// the cause that ended the context.
func (m *Manager) await(ctx context.Context, p *process) error {
	changed, again := p.changed.Changed(), make(<-chan time.Time)
	if p.state == Failed {
		again = time.After(time.Until(p.retryAt))
	}
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-changed:
	case <-again:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// awaitEnd waits until nothing is left of a process that is being stopped.
func (m *Manager) awaitEnd(p *process) {
	if p.state != Stopping {
		return
	}
	gone := p.gone
	m.mu.Unlock()
	defer m.mu.Lock()
	<-gone
}

// retire ends a process that the settings describe otherwise or not at all, after the requests
// that use it.
func (m *Manager) retire(p *process) {
	if isOld := p.next != nil || p.isRemoved; isOld && (p.state == Starting || p.state == Ready && p.uses == 0) {
		m.end(p)
	}
	if p.isRemoved && !p.isActive() && p.uses == 0 {
		delete(m.processes, p.name)
	}
}

// Start starts a process unless it runs, and waits for nothing. A process that has failed
// too often is tried again.
func (m *Manager) Start(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.processes[name]
	if p != nil && p.state == Failed {
		p.failures, p.retryAt = 0, time.Time{}
		p.changed.Tell()
	}
	if err := m.refuse(p, name); err != nil {
		return err
	}
	if p.admits() || p.demand != nil {
		return nil
	}
	var ctx context.Context
	ctx, p.demand = context.WithCancelCause(context.Background())
	m.running.Go(func() {
		logs.Contain(m.log, "starting a process for an administrator", func() { m.load(ctx, name) })
		m.mu.Lock()
		defer m.mu.Unlock()
		p.demand(nil)
		p.demand = nil
	})
	return nil
}

// Stop ends a process whether it is in use or not, and tells its waiting callers. The next
// request starts it again. It does not wait for the end.
func (m *Manager) Stop(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.processes[name]
	if p == nil || p.isRemoved {
		return say.Wrap(ErrUnknown, "process.unknown", "name", name)
	}
	m.forsake(p, ErrStopped)
	m.end(p)
	return nil
}

// forsake sends an error to all who wait for a process.
func (m *Manager) forsake(p *process, why error) {
	p.stops++
	if p.demand != nil {
		p.demand(why)
	}
	p.changed.Tell()
}

// Close ends all processes and waits until nothing is left of them.
func (m *Manager) Close() {
	m.mu.Lock()
	m.isClosed = true
	for _, p := range m.processes {
		m.forsake(p, residency.ErrStopped)
		m.end(p)
	}
	m.mu.Unlock()
	m.running.Wait()
}
