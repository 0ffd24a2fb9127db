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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// host is a host on which processes are values, for tests in virtual time: which of them
// run, and how long each takes to be ready and to end.
type host struct {
	t  *testing.T
	mu sync.Mutex
	// loads and ends say how long a program takes to be ready and to end; dies after how
	// long it dies; the zero value of the latter is never.
	loads, ends, dies map[string]time.Duration
	running           map[string]*value
	launched          []string
	groups            map[string]Groups
	memory            map[string]int64
	peak              int64
	isTaken           bool // the address of all processes, by a foreign program
}

type value struct {
	host  *host
	name  string
	begun time.Time
	done  chan struct{}
	once  sync.Once
	how   ending
}

func newHost(t *testing.T) *host {
	return &host{
		t: t, loads: map[string]time.Duration{}, ends: map[string]time.Duration{}, dies: map[string]time.Duration{},
		running: map[string]*value{}, groups: map[string]Groups{}, memory: map[string]int64{},
	}
}

// kept are processes that a keeper keeps in memory, as those of a gateway are.
type kept struct {
	*Manager
	keeper *residency.Keeper
	fleet  *fleet.Fleet
	end    context.CancelFunc
	ended  chan struct{}
}

// keep has a keeper decide which processes of a manager run.
func keep(m *Manager) *kept {
	ctx, end := context.WithCancel(context.Background())
	k := &kept{m, residency.New(residency.Options{}), fleet.New(fleet.Options{}, time.Now()), end, make(chan struct{})}
	m.load = func(ctx context.Context, name string) { _ = k.keeper.Start(ctx, k.place(name)) }
	k.follow()
	go func() {
		defer close(k.ended)
		k.keeper.Run(ctx)
	}()
	return k
}

// follow tells the keeper of all processes, as a gateway does.
func (k *kept) follow() {
	var asked, all []residency.Kept
	for name, server := range k.Servers() {
		one := residency.Kept{Place: k.place(name), Sleeper: server, Rules: server.Rules()}
		if all = append(all, one); k.refused(name) == nil {
			asked = append(asked, one)
		}
	}
	k.keeper.Follow(asked)
	k.keeper.Mind(all)
}

// refused returns the error of the manager for a process.
func (k *kept) refused(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refuse(k.processes[name], name)
}

func (k *kept) place(name string) *fleet.Instance { return k.fleet.Instance(name, name) }

func (k *kept) model(name string) *residency.Model { return k.keeper.Model(k.place(name)) }

func (k *kept) server(name string) *Server { return k.Servers()[name] }

// Set is Manager.Set, as a gateway does it.
func (k *kept) Set(settings Settings, memory schema.Bytes) {
	k.Manager.Set(settings, memory)
	k.follow()
}

// StateOf returns the state of a process, and false if there is none of this name.
func (k *kept) StateOf(name string) (State, bool) {
	view, _, err := k.View(name)
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.processes[name]
	return view.State, err == nil && p != nil && !p.isRemoved
}

// Ensure waits until a process is ready, as a request does, and uses it until it is released.
func (k *kept) Ensure(ctx context.Context, name string) (release func(), err error) {
	m := k.model(name)
	if m == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		return nil, k.refuse(nil, name)
	}
	if !m.TryEnter() {
		if err := m.Enter(ctx, 24*time.Hour); err != nil {
			return nil, err
		}
	}
	return sync.OnceFunc(m.Leave), nil
}

// Close ends the keeper, without which a bubble of synctest does not end, and the processes.
func (k *kept) Close() {
	k.end()
	<-k.ended
	k.Manager.Close()
}

// manager returns the processes of the host. The command of each is its name.
func (h *host) manager(settings Settings, memory int64) *kept {
	for name, p := range settings {
		p.Command = []string{name}
		p.Ready = "http://127.0.0.1:1/" + name
		if p.StartTimeout == 0 {
			p.StartTimeout = DefaultProcess().StartTimeout
		}
		settings[name] = p
		h.groups[name], h.memory[name] = p.Group, int64(p.Memory)
	}
	m := New(nil, 0, Options{Log: slog.New(slog.DiscardHandler)})
	m.launch, m.probe, m.dial = h.launch, h.probe, h.dial
	m.Set(settings, schema.Bytes(memory))
	return keep(m)
}

func (h *host) launch(p Process, out io.Writer, owned *sync.WaitGroup) (child, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := p.Command[0]
	if h.loads[name] < 0 {
		return nil, errors.New("no such program")
	}
	v := &value{host: h, name: name, begun: time.Now(), done: make(chan struct{})}
	for other := range h.running {
		if other == name || slices.ContainsFunc(h.groups[other], func(group string) bool { return slices.Contains(h.groups[name], group) }) {
			h.t.Errorf("%s was started while %s runs", name, other)
		}
	}
	h.running[name] = v
	h.launched = append(h.launched, name)
	sum := int64(0)
	for other := range h.running {
		sum += h.memory[other]
	}
	h.peak = max(h.peak, sum)
	fmt.Fprintln(out, name, "loads")
	if after := h.dies[name]; after > 0 {
		owned.Go(func() {
			select {
			case <-time.After(after):
				v.end(ending{Code: 1})
			case <-v.done:
			}
		})
	}
	return v, nil
}

// dial finds a foreign program where the test has one listen.
func (h *host) dial(context.Context, string, string) (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isTaken {
		return nil, errors.New("nobody listens")
	}
	near, far := net.Pipe()
	_ = far.Close()
	return near, nil
}

func (h *host) probe(_ context.Context, url string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := url[strings.LastIndexByte(url, '/')+1:]
	if v := h.running[name]; v == nil || time.Since(v.begun) < h.loads[name] {
		return errors.New("it loads")
	}
	return nil
}

// Running returns the names of the processes that run, and of all that were started.
func (h *host) Running() (now, all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.running)), slices.Clone(h.launched)
}

func (v *value) end(how ending) {
	v.once.Do(func() {
		v.host.mu.Lock()
		defer v.host.mu.Unlock()
		v.how = how
		delete(v.host.running, v.name)
		close(v.done)
	})
}

func (v *value) PID() int { return 1 }

func (v *value) Terminate() {
	after := v.host.ends[v.name]
	if after == 0 {
		v.end(ending{})
		return
	}
	time.AfterFunc(after, func() { v.end(ending{}) })
}

func (v *value) Kill() { v.end(ending{Code: 9, Signal: "killed"}) }

func (v *value) Done() <-chan struct{} { return v.done }

func (v *value) Ending() ending { return v.how }
