package processes

import (
	"context"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

const (
	// firstLook is the time between two looks at whether a process is ready. The time grows
	// to 1/lookPart of the wait, at most lastLook: a ready process is seen soon. lookTime
	// bounds one look.
	firstLook = 25 * time.Millisecond
	lastLook  = 500 * time.Millisecond
	lookPart  = 10
	lookTime  = 5 * time.Second
	// portTries is how many ports a process is given in one start.
	portTries = 5
)

// setState is called when the state of a process changes.
func (p *process) setState(state State) {
	p.state, p.since = state, time.Now()
	p.changed.Tell()
}

// start begins to start a process. Its place is free.
func (m *Manager) start(p *process) {
	p.setState(Starting)
	p.reason, p.isFailing = say.Sentence{}, false
	p.starts++
	p.out.begin()
	if p.failures > 0 {
		p.restarts++
	}
	p.stop, p.gone = make(chan struct{}), make(chan struct{})
	described, stop := p.settings, p.stop
	m.log.Info("a process is started", "process", p.name)
	m.running.Go(func() {
		if !logs.Contain(m.log, "seeing to a process", func() { m.run(p, described, stop) }) {
			logs.Contain(m.log, "giving a process up", func() { m.ended(p, say.New("process.panicked"), true) })
		}
	})
}

// end makes a process end that is starting or ready.
func (m *Manager) end(p *process) {
	if p.state != Starting && p.state != Ready {
		return
	}
	p.setState(Stopping)
	close(p.stop)
}

// run sees to a process from its start to its end. A process that lost its port to another
// program before it was ready is started again at once with another port.
func (m *Manager) run(p *process, described Process, stop <-chan struct{}) {
	for tries := 1; ; tries++ {
		how, isHopeless, isTaken := m.attempt(p, described, stop)
		if !isTaken || tries == portTries || !described.usesPort() {
			m.ended(p, how, isHopeless)
			return
		}
		m.log.Info("another program has the port of a process, which gets another one", "process", p.name)
	}
}

// attempt starts a process once and returns when nothing is left of it: how it ended, whether
// another try is hopeless, and whether another program had its port before it was ready.
func (m *Manager) attempt(p *process, described Process, stop <-chan struct{}) (
	how say.Sentence, isHopeless, isTaken bool) {
	begun := time.Now()
	described, err := m.place(p.name, described)
	if err != nil {
		return say.From(err), true, false
	}
	if address := m.takenAddress(described); address != "" {
		return say.New("process.port_taken", "address", address), false, true
	}
	started, err := m.launch(described, p.out, &m.running)
	if err != nil {
		return say.New("process.unstarted", "why", err), true, false
	}
	m.mu.Lock()
	p.child, p.ready = started, described.Ready
	m.mu.Unlock()
	looking, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready := make(chan struct{})
	var look sync.WaitGroup
	look.Go(func() {
		isReady := false
		logs.Contain(m.log, "asking a process whether it is ready",
			func() { isReady = m.awaitReady(looking, described.Ready) })
		if isReady {
			close(ready)
		}
	})
	late := time.NewTimer(described.StartTimeout.Std())
	defer late.Stop()
	hasDied := false
	for isOver := false; !isOver; {
		select {
		case <-ready:
			ready = nil
			late.Stop()
			m.becameReady(p, time.Since(begun))
		case <-late.C:
			how = say.New("process.late", "time", described.StartTimeout)
			m.giveUp(p)
			isOver = true
		case <-stop:
			isOver = true
		case <-started.Done():
			isOver, hasDied = true, ready != nil
		}
	}
	cancel()
	m.finish(started, described)
	look.Wait()
	p.out.flush()
	if !how.Is() {
		how = started.Ending().Said()
	}
	return how, started.Ending().Fault.Is(), hasDied && m.takenAddress(described) != ""
}

// finish ends a process and waits until nothing is left of it. It asks by the stop command, if
// there is one, then by SIGTERM.
func (m *Manager) finish(c child, described Process) {
	for range 1 + min(len(described.Stop), 1) {
		c.Terminate()
		select {
		case <-c.Done():
			return
		case <-time.After(described.StopTimeout.Std()):
		}
	}
	c.Kill()
	<-c.Done()
}

// giveUp marks a process that takes too long to start.
func (m *Manager) giveUp(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.state == Starting {
		p.isFailing = true
		p.setState(Stopping)
	}
}

// becameReady notes that a process answers.
func (m *Manager) becameReady(p *process, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.state != Starting {
		return
	}
	p.setState(Ready)
	p.readyAt, p.lastUsed, p.took = time.Now(), time.Now(), took
	m.log.Info("a process is ready", "process", p.name, "pid", p.child.PID(), "took",
		took.Round(time.Millisecond).String())
	m.retire(p)
}

// ended is called when nothing is left of a process. It has failed unless somebody stopped
// it. A process that cannot be started at all is not tried again by itself.
func (m *Manager) ended(p *process, how say.Sentence, isHopeless bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	isAsked := p.state == Stopping && !p.isFailing
	wasProven := !p.readyAt.IsZero() && time.Since(p.readyAt) >= provenAfter
	close(p.gone)
	p.child, p.stop, p.gone, p.readyAt = nil, nil, nil, time.Time{}
	p.isFailing, p.isDoubted = false, false
	if p.next != nil {
		p.settings, p.next = *p.next, nil
		p.failures, isAsked = 0, true
	}
	if isAsked {
		p.reason = say.Sentence{}
		p.setState(Stopped)
		m.log.Info("a process was stopped", "process", p.name)
		m.retire(p)
		return
	}
	if wasProven {
		p.failures = 0
	}
	p.failures++
	if isHopeless {
		p.failures = max(p.failures, p.settings.Restarts+1)
	}
	p.reason = how
	pause := min(firstBackoff<<min(p.failures-1, 10), maxBackoff)
	if p.failures > p.settings.Restarts {
		pause = refusal
	}
	p.retryAt = time.Now().Add(pause)
	m.log.Warn("a process failed", "process", p.name, "reason", how.String(), "failures", p.failures,
		"next_start_after",
		pause.String())
	p.setState(Failed)
	m.retire(p)
}

// awaitReady looks at the ready URL until it answers, and returns false if the context ends
// before.
func (m *Manager) awaitReady(ctx context.Context, url string) bool {
	pause := time.Duration(0)
	for began := time.Now(); waiting.Pause(ctx, pause) == nil; {
		bounded, cancel := context.WithTimeout(ctx, lookTime)
		err := m.probe(bounded, url)
		cancel()
		if err == nil {
			return true
		}
		pause = min(max(firstLook, time.Since(began)/lookPart), lastLook)
	}
	return false
}

// probe asks a ready URL once.
func probe(ctx context.Context, url string) error {
	if address, isPort := strings.CutPrefix(url, portScheme+"://"); isPort {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			err = connection.Close()
		}
		return err
	}
	return outgoing.New(outgoing.Options{Own: true}).Check(ctx, url)
}

// ports remembers which port each process has. A process keeps it as long as no other program
// has taken it meanwhile.
type ports struct {
	mu    sync.Mutex
	given map[string]int
}

// of returns the port of a process, a free one if it has none or if its own is not good, and reports whether
// it is a new one.
func (g *ports) of(name string, isGood func(port int) bool) (port int, isNew bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if port, has := g.given[name]; has && isGood(port) {
		return port, false, nil
	}
	for {
		port, err := freePort(0)
		if err != nil {
			return 0, false, say.Wrap(err, "process.no_port", "why", err.Error())
		}
		if slices.Contains(slices.Collect(maps.Values(g.given)), port) {
			continue
		}
		if g.given == nil {
			g.given = map[string]int{}
		}
		g.given[name] = port
		return port, true, nil
	}
}

// freePort returns a port if no program has it, any free one for 0.
func freePort(port int) (int, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp",
		net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

func isFree(port int) bool {
	_, err := freePort(port)
	return err == nil
}

// place fills in the port of a process that is about to be started.
func (m *Manager) place(name string, described Process) (Process, error) {
	if !described.usesPort() && described.Ready != "" {
		return described.withPort(0), nil
	}
	port, isNew, err := m.ports.of(name, isFree)
	if err == nil && isNew && m.moved != nil {
		m.moved()
	}
	return described.withPort(port), err
}

// takenAddress returns the address of a process that is about to be started if another
// program listens there, otherwise nothing. Such a program, of another gateway with the
// same file perhaps, would be taken for the process.
func (m *Manager) takenAddress(described Process) string {
	ready, err := url.Parse(described.Ready)
	if err != nil {
		return ""
	}
	address := ready.Host
	if ready.Port() == "" {
		address = net.JoinHostPort(ready.Hostname(), ready.Scheme) // a scheme and its port have the same name
	}
	bounded, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	connection, err := m.dial(bounded, "tcp", address)
	if err != nil {
		return ""
	}
	_ = connection.Close()
	return address
}

// Address returns the base URL of a process that is described so, whether it runs or not.
// It is empty where no port is free.
func (m *Manager) Address(name string, described Process) string {
	if !described.usesPort() && described.Ready != "" {
		return described.baseURL()
	}
	port, _, err := m.ports.of(name, func(int) bool { return true })
	if err != nil {
		return ""
	}
	return described.withPort(port).baseURL()
}
