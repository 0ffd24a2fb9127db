package residency

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
)

const (
	// lookEvery is the interval at which the keeper looks for idle models, and at which
	// a model that waits for room looks again by itself.
	lookEvery = time.Second
	// sleepTime bounds how long a model may take to fall asleep.
	sleepTime = time.Minute
	// rouseAgain is the pause between attempts to wake up a model that somebody put to sleep
	// while it has requests.
	rouseAgain = 10 * time.Second
	// unableTime is the time until a model that cannot sleep is told to sleep again.
	unableTime = 24 * time.Hour
)

// Sleeper is a model that can be loaded and put to sleep. Both are never called at the same
// time for one model.
type Sleeper interface {
	// Wake returns nil when the model can answer requests, and else why it cannot. If the
	// context ends, nobody waits for the model any more, and Wake should cancel the load
	// if it can.
	Wake(ctx context.Context) error
	// Sleep frees the memory that the model takes.
	Sleep(ctx context.Context) error
}

// Looker is a Sleeper that can tell whether its model is in memory now.
type Looker interface {
	IsAwake(ctx context.Context) bool
}

// Server is a Sleeper without a running server while its model sleeps, such as a process of
// this gateway. The server may also go by itself. Nobody else uses it, and it bounds how
// long a start takes. Wake fails only after the server has given up its memory or where it
// keeps it, and Sleep returns nil only after the server has given it up.
type Server interface {
	Sleeper
	// Enter keeps the server for calls, and returns false where it takes none now. Leave
	// ends each of them.
	Enter(calls int) bool
	Leave()
	// IsRunning reports whether the server takes calls, and IsLoaded whether it takes memory.
	IsRunning() bool
	IsLoaded() bool
	// Fault says why the server does not run; it is zero unless the server has failed.
	Fault() Fault
}

// Fault says why a server failed, since when, and the last line that it wrote.
type Fault struct {
	Since time.Time
	Why   say.Sentence
	Line  string
}

// Failed is the state of a model whose server has failed, beside fleet.States.
const Failed = "failed"

// Rules are how one model is kept.
type Rules = fleet.Keeping

// GroupSpace returns the name of the memory that the members of a group share, which are
// processes or models of other servers.
func GroupSpace(group string) string { return groupSpace + group }

// groupSpace is how the names of spaces begin that groups have.
const groupSpace = "group "

// groupOf returns the names of the groups with which a model shares memory, empty where there
// is none.
func groupOf(r Rules) string {
	var names []string
	for _, space := range append([]string{r.Space}, r.Beside...) {
		if name, isGroup := strings.CutPrefix(space, groupSpace); isGroup {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// both returns the rules of a model that has two, because instances share it.
func both(r, other Rules) Rules {
	if r.SleepAfter == 0 || other.SleepAfter == 0 {
		r.SleepAfter = 0
	} else {
		r.SleepAfter = max(r.SleepAfter, other.SleepAfter)
	}
	r.IsPinned = r.IsPinned || other.IsPinned
	r.Room = max(r.Room, other.Room)
	if r.Space == "" {
		r.Space, r.Beside, r.Capacity, r.Size = other.Space, other.Beside, other.Capacity, other.Size
	}
	r.Start = max(r.Start, other.Start)
	return r
}

// Kept is one model that is kept.
type Kept struct {
	// Place is where it is in the fleet.
	Place   *fleet.Instance
	Sleeper Sleeper
	Rules   Rules
	isAsked bool // requests ask for it
}

// Options configure a Keeper. Log and Heard may be nil.
type Options struct {
	// Heard returns the time since which this gateway knows without a gap the models in
	// use by all gateways that share its hosts; false means that it does not know them
	// now, and puts nothing to sleep. nil means that it shares its hosts with nobody.
	Heard func(now time.Time) (since time.Time, ok bool)
	Log   *slog.Logger
}

// Keeper keeps the models of a gateway.
type Keeper struct {
	options Options
	base    context.Context // ends with the keeper
	stop    context.CancelCauseFunc
	tasks   sync.WaitGroup // wakes and sleeps

	mu      sync.Mutex
	models  map[*fleet.Instance]*Model
	asked   []Kept         // for requests
	others  []Kept         // beside them
	changed waiting.Signal // there may be room
}

// The reasons why a model is not there, beside the reasons of its Sleeper.
var (
	// ErrTimeout is a timeout also for callers that cannot import this package.
	ErrTimeout = say.Wrap(context.DeadlineExceeded, "model.timeout")
	ErrRemoved = say.Error("model.removed")
	ErrFull    = say.Error("model.full")
	ErrHeld    = say.Error("model.held_plain")
	ErrNeeded  = say.Error("model.needed")
	ErrStopped = say.Error("model.stopping")
	ErrInUse   = say.Error("model.in_use")
	ErrPinned  = say.Error("model.pinned")
	ErrUnknown = say.Error("model.unknown")
	// ErrUnable is returned by a Sleeper that has no such command.
	ErrUnable = say.Error("model.unable")
)

// New returns a keeper of no models.
func New(options Options) *Keeper {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{options: options, models: map[*fleet.Instance]*Model{}}
	k.base, k.stop = context.WithCancelCause(context.Background())
	return k
}

// Follow makes the keeper keep these models for requests and no others. Models that it has
// kept before keep their state. The same place may come several times: then the first Sleeper
// counts, and the rules that let the model stay longest.
func (k *Keeper) Follow(all []Kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = all
	k.follow()
}

// Mind makes the keeper keep models beside the ones of Follow: they take memory too, and
// nobody asks for them. States does not list them.
func (k *Keeper) Mind(others []Kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.others = others
	k.follow()
}

// follow applies the lists of Follow and Mind. It needs the mutex.
func (k *Keeper) follow() {
	merged := map[*fleet.Instance]*Kept{}
	for _, one := range k.asked {
		if known := merged[one.Place]; known != nil {
			known.Rules = both(known.Rules, one.Rules)
			continue
		}
		one.isAsked = true
		merged[one.Place] = &one
	}
	for _, one := range k.others {
		if merged[one.Place] == nil {
			merged[one.Place] = &one
		}
	}
	for place, m := range k.models {
		if merged[place] == nil {
			m.remove()
			delete(k.models, place)
		}
	}
	shareSpaces(merged)
	for place, one := range merged {
		m := k.models[place]
		if m == nil {
			m = &Model{keeper: k, place: place, working: make(chan struct{}, 1)}
			m.server, _ = one.Sleeper.(Server)
			k.models[place] = m
		}
		m.sleeper, m.rules, m.isAsked = one.Sleeper, one.Rules, one.isAsked
		m.rules.IsServer = m.server != nil
		m.place.Keep(m.rules)
		m.look(time.Now())
	}
	k.changed.Tell()
}

// shareSpaces gives a shared space the largest capacity that its models name. All names of
// one server get the first space among them: they are in memory together, whichever instance
// has a group.
func shareSpaces(all map[*fleet.Instance]*Kept) {
	servers := map[*fleet.Host]Rules{}
	capacities := map[string]float64{}
	for place, one := range all {
		capacities[one.Rules.Space] = max(capacities[one.Rules.Space], one.Rules.Capacity)
		known, isKnown := servers[place.Host()]
		if one.Rules.IsWhole && one.Rules.Space != "" && (!isKnown || one.Rules.Space < known.Space) {
			servers[place.Host()] = one.Rules
		}
	}
	for place, one := range all {
		if of, isKnown := servers[place.Host()]; isKnown && one.Rules.IsWhole {
			one.Rules.Space, one.Rules.Size = of.Space, of.Size
		}
		one.Rules.Capacity = capacities[one.Rules.Space]
	}
}

// Model returns the model at a place, nil where none is kept for requests.
func (k *Keeper) Model(place *fleet.Instance) *Model {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.models[place]; m != nil && m.isAsked {
		return m
	}
	return nil
}

// Keeps reports whether a model at a place is kept, for requests or beside them.
func (k *Keeper) Keeps(place *fleet.Instance) bool { return k.at(place) != nil }

func (k *Keeper) at(place *fleet.Instance) *Model {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.models[place]
}

// Run puts models to sleep that nobody uses, and wakes up models that others put to
// sleep while they are in use, until the context ends. Then it cancels the loads under
// way, and returns when no model is being loaded or put to sleep any more.
func (k *Keeper) Run(ctx context.Context) {
	waiting.Every(ctx, lookEvery, k.putIdleToSleep)
	k.stop(ErrStopped)
	k.tasks.Wait()
}

// putIdleToSleep unloads models that nobody has used for long enough, and models that do not
// fit into memory any more. Unknown use by other gateways counts as use.
func (k *Keeper) putIdleToSleep(now time.Time) {
	since, ok := time.Time{}, true
	if k.options.Heard != nil {
		since, ok = k.options.Heard(now)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.models {
		m.look(now)
		m.rouse(now)
		if m.server != nil && m.wake == nil && m.place.PutOutSurplus(now) {
			m.putToSleep("the memory for it became smaller", false)
		}
		after := m.rules.SleepAfter
		if after == 0 || m.rules.IsPinned || m.wake != nil || now.Before(m.awakeUntil) {
			continue
		}
		if m.server == nil && (!ok || now.Sub(since) < after) {
			continue
		}
		if m.place.PutOut(now.Add(-after), now) {
			m.awakeUntil = now.Add(after) // where it cannot be put to sleep, it is tried again then
			m.putToSleep("nobody has used it", true)
		}
	}
}

// State describes a kept model for people.
type State struct {
	// Host and Model name it: the address of the server, and the model by its name there.
	Host, Model string
	// Group names the models with which it shares memory, empty if there is none.
	Group string
	fleet.Residence
	// Waiting is how many requests wait for it to be loaded.
	Waiting int
	// SleepAfter is the idle time after which it is put to sleep; 0 means never.
	SleepAfter time.Duration
	// Loads and Evictions count how often it was loaded, and thrown out for another model,
	// and Sleeps how often it was put to sleep because nobody used it. Failures counts loads
	// that failed, and Failure is the error of the last load, empty if it worked. Refusals
	// counts how often it was not loaded because the models in its memory are pinned.
	Counts
	Failure say.Sentence
	// Line is the last line of a server that has failed.
	Line string
}

// Counts are the events of a model since the gateway started.
type Counts struct {
	Loads, Failures, Refusals, Evictions, Sleeps int64
	// Waited is how long requests have waited for it, all together.
	Waited time.Duration
}

// States returns the state of each model, by host and name.
func (k *Keeper) States(now time.Time) []State {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]State, 0, len(k.models))
	for _, m := range k.models {
		if m.isAsked {
			all = append(all, m.state(now))
		}
	}
	slices.SortFunc(all, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Model, b.Model))
	})
	return all
}

// find returns a model by its names.
func (k *Keeper) find(host, model string) *Model {
	k.mu.Lock()
	defer k.mu.Unlock()
	for place, m := range k.models {
		if place.Host().Name() == host && place.Model() == model {
			return m
		}
	}
	return nil
}

// Start loads a model by hand as Load does, and waits for as long as the context lasts.
func (k *Keeper) Start(ctx context.Context, place *fleet.Instance) error {
	m := k.at(place)
	if m == nil {
		return ErrUnknown
	}
	return m.bring(ctx, math.MaxInt64)
}

// Load loads a model by hand and returns when it is in memory, or why it is not. It waits as a
// request of a service type with these settings.
func (k *Keeper) Load(ctx context.Context, host, model string, how Settings) error {
	m := k.find(host, model)
	if m == nil {
		return ErrUnknown
	}
	return m.bring(ctx, m.Patience(how))
}

// Sleep puts a model to sleep by hand. It returns ErrInUse if the model has requests,
// and ErrPinned if it is pinned.
func (k *Keeper) Sleep(ctx context.Context, host, model string) error {
	m := k.find(host, model)
	if m == nil {
		return ErrUnknown
	}
	k.mu.Lock()
	isPinned := m.rules.IsPinned
	k.mu.Unlock()
	now := time.Now()
	switch {
	case isPinned:
		return ErrPinned
	case m.place.PutOut(now, now):
		return m.sleepNow(ctx, "by hand", true)
	case m.place.Residence(now).IsInUse:
		return ErrInUse
	}
	return nil // it is not in memory, or about to be loaded
}
