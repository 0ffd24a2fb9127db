package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Why a process cannot be used.
var (
	// ErrUnknown means that the configuration file of this gateway has no such process.
	ErrUnknown = errors.New("there is no such process in the configuration file")
	// ErrFailed means that the process does not start, or has failed too often.
	ErrFailed = errors.New("the process failed")
	// ErrStopped means that the process was stopped by an administrator.
	ErrStopped = errors.New("the process was stopped")
	// errInUse means that requests use a process, or wait for it.
	errInUse = errors.New("the process is in use")
)

// State is what a process does.
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
	// refusal is for how long requests are refused after the last restart has failed. Then
	// the process gets one try more.
	refusal = time.Minute
	// provenAfter is how long a process has to be ready for its failures to be forgotten.
	provenAfter = time.Minute
	// maxRest is how long a process without requests is left alone at most before it gives
	// way to another one.
	maxRest = 2 * time.Second
)

// Options are what a manager needs beside its settings.
type Options struct {
	Log *slog.Logger
	// Moved is called when a process has another address than before.
	Moved func()
	// Keeps reports whether somebody else stops a process that nobody uses, by Sleep; nil
	// means that nobody does.
	Keeps func(name string) bool
}

// Manager runs the processes of a gateway.
type Manager struct {
	log    *slog.Logger
	moved  func()
	keeps  func(name string) bool
	launch func(Process, io.Writer, *sync.WaitGroup) (child, error)
	probe  func(ctx context.Context, url string) error
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	ports  *ports

	mu        sync.Mutex
	processes map[string]*process
	memory    schema.Bytes // that processes have together
	arrivals  uint64       // numbers those who wait
	isClosed  bool
	timer     *time.Timer // of the next time at which something is due
	running   sync.WaitGroup
}

// process is one process, guarded by the lock of its manager.
type process struct {
	name     string
	settings Process
	// next replaces the settings when the process has ended; isRemoved says that nothing does.
	next      *Process
	isRemoved bool

	state  State
	since  time.Time // when it came into its state
	reason string    // why it failed
	child  child     // while it is starting, ready or stopping
	ready  string    // the URL that answers when that is ready
	stop   chan struct{}
	gone   chan struct{} // closed when nothing is left of it, nil while it does not run
	// isFailing says that the process is stopped because it has failed.
	isFailing bool
	waiters   []*waiter
	// wanted is the number of the first who waits and was not let in, 0 if nobody waits; an
	// administrator who starts the process need not stay.
	wanted     uint64
	isDemanded bool
	uses       int
	lastUsed   time.Time
	readyAt    time.Time
	took       time.Duration // the latest start
	isYielding bool          // somebody waits for its place
	isDoubted  bool          // it did not take a call, and is looked at
	failures   int           // in a row
	retryAt    time.Time     // not started before
	starts     int64
	restarts   int64 // starts after a failure
	out        *output
}

// waiter is somebody who waits until a process is ready.
type waiter struct{ result chan error }

// New returns a manager that runs nothing yet.
func New(settings Settings, memory schema.Bytes, options Options) *Manager {
	m := &Manager{
		log: options.Log, moved: options.Moved, keeps: options.Keeps, launch: launch, probe: probe, dial: new(net.Dialer).DialContext,
		ports: new(ports), processes: map[string]*process{},
	}
	m.timer = time.AfterFunc(time.Hour, m.tick)
	m.timer.Stop()
	m.Set(settings, memory)
	return m
}

// Set makes the processes follow other settings. One that is no longer there, or is
// described otherwise, ends after the requests that use it; the others are left alone.
func (m *Manager) Set(settings Settings, memory schema.Bytes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memory = memory
	for name, p := range m.processes {
		if _, stays := settings[name]; !stays {
			p.isRemoved = true
			m.fail(p, fmt.Errorf("%w: %s was removed from it", ErrUnknown, name))
		}
	}
	for name, described := range settings {
		p := m.processes[name]
		if p == nil {
			p = &process{name: name, state: Stopped, since: time.Now(), out: m.newOutput(name)}
			m.processes[name] = p
		}
		wasRemoved := p.isRemoved
		p.isRemoved, p.next = false, nil
		switch {
		case !p.isActive() || p.settings.sameProgram(described) && !wasRemoved:
			if !p.settings.sameProgram(described) { // what was wrong may be right now
				p.failures, p.retryAt = 0, time.Time{}
			}
			p.settings = described
		default:
			p.next = &described
		}
	}
	m.arrange()
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

// Ensure starts a process unless it runs, waits until it is ready, and keeps it until
// release is called, once, or Leave in its place. All who wait share one start. The end of the
// context ends the wait: a start that nobody waits for any more is given up if the last one
// left of their own accord, not if they had waited for as long as they may, which the cause
// of the context says by a method Timeout.
func (m *Manager) Ensure(ctx context.Context, name string) (release func(), err error) {
	m.mu.Lock()
	p := m.processes[name]
	if err := m.refuse(p, name); err != nil {
		m.mu.Unlock()
		return nil, err
	}
	if p.admits(time.Now()) {
		p.uses++
		m.mu.Unlock()
		return m.releaser(p), nil
	}
	w := &waiter{result: make(chan error, 1)}
	p.waiters = append(p.waiters, w)
	m.want(p)
	m.arrange()
	m.mu.Unlock()
	select {
	case err = <-w.result:
	case <-ctx.Done():
		err = m.leave(ctx, p, w)
	}
	if err != nil {
		return nil, err
	}
	return m.releaser(p), nil
}

// refuse says why nobody may wait for a process.
func (m *Manager) refuse(p *process, name string) error {
	switch {
	case p == nil || p.isRemoved:
		return fmt.Errorf("%w: %s", ErrUnknown, name)
	case m.isClosed:
		return residency.ErrStopped
	case p.isRefusing(time.Now()):
		return fmt.Errorf("%w: %s: %s", ErrFailed, p.name, p.reason)
	}
	return nil
}

// isRefusing reports whether the process has failed so often that nobody may wait for it.
func (p *process) isRefusing(now time.Time) bool {
	return p.state == Failed && p.failures > p.settings.Restarts && now.Before(p.retryAt)
}

// admits reports whether a request may use the process at once. While another process
// waits for its place, it serves on for as long as its start took, so that at most half of
// the time is spent on starts however requests alternate.
func (p *process) admits(now time.Time) bool {
	return p.state == Ready && !p.isDoubted && p.next == nil && !p.isRemoved && (!p.isYielding || now.Before(p.readyAt.Add(p.took)))
}

// want puts a process at the end of those that are to be started, unless it is among them.
func (m *Manager) want(p *process) {
	if p.wanted == 0 {
		m.arrivals++
		p.wanted = m.arrivals
	}
}

// leave takes somebody away who does not wait any more. A start that nobody waits for is
// given up if they left; if they waited for as long as they may, it goes on for the next.
func (m *Manager) leave(ctx context.Context, p *process, w *waiter) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.Index(p.waiters, w)
	if at < 0 { // the result has come meanwhile
		if err := <-w.result; err != nil {
			return err
		}
		m.endUse(p)
		return context.Cause(ctx)
	}
	p.waiters = slices.Delete(p.waiters, at, at+1)
	if len(p.waiters) == 0 && !p.isDemanded {
		p.wanted = 0
		if p.state == Starting && !isTimeout(context.Cause(ctx)) {
			m.end(p)
		}
	}
	m.arrange()
	return context.Cause(ctx)
}

// isTimeout reports whether somebody left because their time is over.
func isTimeout(cause error) bool {
	var over interface{ Timeout() bool }
	return errors.As(cause, &over) && over.Timeout()
}

// Enter uses a process for calls if it is ready and has not to give way, and reports whether
// it is. Leave ends each of them.
func (m *Manager) Enter(name string, calls int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.processes[name]
	if p == nil || m.isClosed || !p.admits(time.Now()) {
		return false
	}
	p.uses += calls
	return true
}

// Beside uses a process for calls beside one that uses it.
func (m *Manager) Beside(name string, calls int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.processes[name]; p != nil && p.uses > 0 {
		p.uses += calls
	}
}

// Leave ends the use of a process by one call.
func (m *Manager) Leave(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.processes[name]; p != nil && p.uses > 0 {
		m.endUse(p)
	}
}

// releaser returns the function that ends one use of a process.
func (m *Manager) releaser(p *process) func() {
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.endUse(p)
	})
}

func (m *Manager) endUse(p *process) {
	p.uses--
	p.lastUsed = time.Now()
	m.arrange()
}

// fail tells all who wait for a process that they wait in vain.
func (m *Manager) fail(p *process, err error) {
	for _, w := range p.waiters {
		w.result <- err
	}
	p.waiters, p.wanted, p.isDemanded = nil, 0, false
}

// admit lets all who wait for a process use it.
func (m *Manager) admit(p *process) {
	p.uses += len(p.waiters)
	if len(p.waiters) > 0 || p.isDemanded {
		p.lastUsed = time.Now()
	}
	m.fail(p, nil)
}

// Start starts a process unless it runs, and waits for nothing. A process that has failed
// too often is tried again.
func (m *Manager) Start(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.processes[name]
	if p != nil && p.state == Failed {
		p.failures, p.retryAt = 0, time.Time{}
	}
	if err := m.refuse(p, name); err != nil {
		return err
	}
	if p.admits(time.Now()) {
		return nil
	}
	p.isDemanded = true
	m.want(p)
	m.arrange()
	return nil
}

// Stop ends a process whether it is in use or not, and tells those who wait for it. The
// next request starts it again. It does not wait for the end.
func (m *Manager) Stop(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.processes[name]
	if p == nil || p.isRemoved {
		return fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	m.fail(p, fmt.Errorf("%w: %s", ErrStopped, name))
	m.end(p)
	m.arrange()
	return nil
}

// Sleep ends a process unless somebody uses it or waits for it, and waits until nothing is
// left of it or the context ends.
func (m *Manager) Sleep(ctx context.Context, name string) error {
	m.mu.Lock()
	p := m.processes[name]
	if p == nil {
		m.mu.Unlock()
		return nil
	}
	if p.uses > 0 || p.wanted != 0 {
		m.mu.Unlock()
		return fmt.Errorf("%w: %s", errInUse, name)
	}
	m.end(p)
	gone := p.gone
	m.mu.Unlock()
	if gone == nil {
		return nil
	}
	select {
	case <-gone:
	case <-ctx.Done(): // it ends all the same, and nobody gets its place before
	}
	return nil
}

// Close ends all processes and waits until nothing is left of them.
func (m *Manager) Close() {
	m.mu.Lock()
	m.isClosed = true
	m.timer.Stop()
	for _, p := range m.processes {
		m.fail(p, residency.ErrStopped)
		m.end(p)
	}
	m.mu.Unlock()
	m.running.Wait()
}

// Names returns the names of the processes.
func (m *Manager) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.processes))
}

// StateOf returns the state of a process, and false if there is none of this name.
func (m *Manager) StateOf(name string) (State, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.processes[name]; p != nil && !p.isRemoved {
		return p.state, true
	}
	return "", false
}
