// Package cluster lets the gateways of one configuration know each other: each announces
// itself in a store that all of them reach, and reads the announcements of the others.
package cluster

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

const (
	// announceEvery is how often a gateway announces itself.
	announceEvery = 2 * time.Second
	// announceTime bounds one announcement.
	announceTime = 2 * time.Second
	// AwayAfter is when a gateway that does not announce itself counts as away.
	AwayAfter = 10 * time.Second
	// BehindAfter is when a gateway without the latest configuration counts as behind.
	BehindAfter = 10 * time.Second
	// KeepFor is how long a gateway that is away is listed.
	KeepFor = 10 * time.Minute
	// MaxMembers is how many gateways are listed.
	MaxMembers = 256
)

// Member is a gateway as it announces itself.
type Member struct {
	ID string `json:"id"`
	// Address is where it listens, as host and port.
	Address string `json:"address"`
	// Version is the version of the program.
	Version string `json:"version"`
	// ConfigVersion is the version of the configuration that is in force there, and
	// Revision the state of the shared configuration that it knows, 0 where none is shared.
	ConfigVersion int       `json:"configVersion"`
	Revision      int64     `json:"revision,omitzero"`
	StartedAt     time.Time `json:"startedAt"`
	// Stores are the stores that it uses, and whether it reaches each.
	Stores map[string]bool `json:"stores,omitzero"`
	// Draining says that it takes no new requests any more and ends when the running ones have.
	Draining bool `json:"draining,omitzero"`
}

// Seen is a member and how long ago it announced itself, by the clock of the registry.
type Seen struct {
	Member
	Ago time.Duration
}

// Registry is where gateways announce themselves. One goroutine uses it.
type Registry interface {
	// Announce stores a member and returns all stored members. It removes members that
	// were not announced for KeepFor, and the oldest beyond MaxMembers.
	Announce(ctx context.Context, self Member) ([]Seen, error)
	// Leave removes a member.
	Leave(ctx context.Context, id string) error
	Close()
}

// State is the condition of a member.
type State string

// The states.
const (
	Up     State = "up"
	Behind State = "behind" // it has not the latest configuration
	Away   State = "away"   // it does not announce itself any more
	// Draining is ending: load balancers send new requests elsewhere.
	Draining State = "draining"
)

// States returns all states.
func States() []State { return []State{Up, Behind, Away, Draining} }

// Status is a member as others see it.
type Status struct {
	Member
	State    State
	LastSeen time.Time
}

// View is a gateway's knowledge of all gateways.
type View struct {
	// IsShared reports whether gateways share their configuration and so announce themselves.
	IsShared bool
	Self     string
	// Members always have this gateway, and are in the order of their ids.
	Members []Status
	// Failure is why the registry cannot be used; the members are then the last known
	// ones.
	Failure  *condition.Failure
	Failures int64
}

// Options are the parts that a Watch needs.
type Options struct {
	// Self describes this gateway as it is now.
	Self func() Member
	// Registry is nil if the configuration is not shared. The Watch closes it.
	Registry Registry
	Log      *slog.Logger
}

// Watch announces this gateway and knows the others.
type Watch struct {
	options Options
	state   condition.Condition
	known   atomic.Pointer[known]

	mu sync.Mutex // guards the fields below; Run and Announce use it
	// newest is the highest revision that was seen, and since when each member with an
	// older one has had it.
	newest int64
	older  map[string]time.Time
}

type known struct {
	seen   []Seen
	at     time.Time
	behind map[string]bool
}

// New returns a watch that knows this gateway only.
func New(options Options) *Watch { return &Watch{options: options, older: map[string]time.Time{}} }

// Run announces this gateway until the context ends, and then removes it.
func (w *Watch) Run(ctx context.Context) {
	if w.options.Registry == nil {
		return
	}
	w.Announce(ctx)
	waiting.Every(ctx, announceEvery, func(time.Time) { w.Announce(ctx) })
	w.leave()
}

// Announce announces this gateway now.
func (w *Watch) Announce(ctx context.Context) {
	if w.options.Registry == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	seen, err := w.options.Registry.Announce(bounded, w.options.Self())
	if ctx.Err() != nil {
		return
	}
	w.state.Note(w.options.Log, err, "the list of gateways cannot be reached", "the list of gateways is reached again")
	if err == nil {
		w.learn(seen, time.Now())
	}
}

// learn takes over the members of a registry.
func (w *Watch) learn(seen []Seen, now time.Time) {
	for _, s := range seen {
		w.newest = max(w.newest, s.Revision)
	}
	older := map[string]time.Time{}
	behind := map[string]bool{}
	for _, s := range seen {
		if s.Revision == 0 || s.Revision >= w.newest {
			continue
		}
		since, isKnown := w.older[s.ID]
		if !isKnown {
			since = now
		}
		older[s.ID] = since
		behind[s.ID] = now.Sub(since) >= BehindAfter
	}
	w.older = older
	w.known.Store(&known{seen: seen, at: now, behind: behind})
}

// leave removes this gateway from the registry.
func (w *Watch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), announceTime)
	defer cancel()
	if w.state.Failure() == nil {
		_ = w.options.Registry.Leave(ctx, w.options.Self().ID) // the others find out by themselves
	}
	w.options.Registry.Close()
}

// View returns the known gateways.
func (w *Watch) View() View {
	self, now := w.options.Self(), time.Now()
	view := View{IsShared: w.options.Registry != nil, Self: self.ID, Failure: w.state.Failure(),
		Failures: w.state.Failures()}
	isBehind := false
	if k := w.known.Load(); k != nil {
		isBehind = k.behind[self.ID]
		for _, s := range k.seen {
			if s.ID == self.ID {
				continue
			}
			ago := s.Ago + now.Sub(k.at)
			view.Members = append(view.Members, Status{Member: s.Member, State: stateOf(&s.Member, ago, k.behind[s.ID]),
				LastSeen: now.Add(-ago)})
		}
	}
	view.Members = append(view.Members, Status{Member: self, State: stateOf(&self, 0, isBehind), LastSeen: now})
	slices.SortFunc(view.Members, func(a, b Status) int { return cmp.Compare(a.ID, b.ID) })
	return view
}

func stateOf(m *Member, ago time.Duration, isBehind bool) State {
	switch {
	case ago > AwayAfter:
		return Away
	case m.Draining:
		return Draining
	case isBehind:
		return Behind
	}
	return Up
}

// Present returns the number of running gateways, including this one.
func (w *Watch) Present() int {
	k := w.known.Load()
	if k == nil {
		return 1
	}
	count := 0
	for i := range k.seen {
		if k.seen[i].Ago+time.Since(k.at) <= AwayAfter {
			count++
		}
	}
	return max(1, count)
}
