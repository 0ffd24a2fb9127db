package quota

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// Ledger counts the requests that reach a backend and the tokens they cost.
// While it is off it has no file, no connection and no goroutine, and a request
// only loads a nil pointer.
type Ledger struct {
	active  atomic.Pointer[activeSession]
	options Options
	stats   counters
	// The conditions of the journal and of the database, of one session after the other.
	journalState, storeState component

	// changing is held while a change is applied, which may wait for disks and
	// stores. It is a channel, because Close waits for it with a context. mu guards
	// the fields that follow and is held only briefly.
	changing chan struct{}
	mu       sync.Mutex
	settings Settings // in force
	// session counts from the moment when the ledger is turned on until it is off and
	// all totals are written. So it may still exist while active is nil.
	session *session
	closed  bool
	// whenWell is the count of degradations when the ledger was last found well.
	whenWell int64

	// flushLoops are the goroutines that flush and finish sessions. All goroutines of
	// the ledger end with the context ending, which end cancels when Close returns.
	flushLoops group
	ending     context.Context
	end        context.CancelFunc
}

// Options are the parts and settings of a Ledger.
type Options struct {
	// Dir is the directory of the journal; it is made when the ledger is turned on.
	Dir string
	// OpenSnapshots opens the store that keeps totals for good, and Shared is the
	// counter that gateways share. Neither is used while the ledger is off.
	OpenSnapshots func(context.Context) (Snapshots, error)
	Shared        Shared
	// Bound is the bound of runs; nil if the ledger counts none, or no more than it may forget a
	// day after they began.
	Bound *Bound
	Log   *slog.Logger
	// Now is the wall clock; nil means time.Now.
	Now func() time.Time

	disk   disk // replaces Dir in tests
	manual bool // start no goroutines; a test calls their functions itself
}

// activeSession holds the values that a request needs while the ledger is on. It is
// immutable.
type activeSession struct {
	session  *session
	windows  [WindowCount]bool
	failOpen bool
}

// ErrUnavailable means that a request cannot be counted and must not pass
// uncounted.
var ErrUnavailable = errors.New("the quota ledger is unavailable")

// JournalDir is the directory of the journal in the data directory.
const JournalDir = "quota"

// New returns a ledger with these settings, and turns it on if they say so.
// Failures of the disk or of a store do not keep it from starting: Status reports
// them until they are over.
func New(settings Settings, options Options) *Ledger {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.disk == nil {
		options.disk = durable.At(filepath.Clean(options.Dir))
	}
	l := &Ledger{
		options: options, settings: settings.Clone(), changing: make(chan struct{}, 1),
		journalState: component{log: options.Log, name: "the journal", code: "quota.journal"},
		storeState:   component{log: options.Log, name: "the database", code: "quota.store"},
	}
	l.ending, l.end = context.WithCancel(context.Background())
	l.apply()
	return l
}

// On reports whether requests are counted; a nil Ledger never counts.
func (l *Ledger) On() bool { return l != nil && l.active.Load() != nil }

// Admit counts a request that is about to reach a backend, in the windows of its
// arrival. The ticket is used to settle it. The only error is ErrUnavailable, and then
// nothing was counted.
func (l *Ledger) Admit(ticket *Ticket, who Subject, arrived time.Time) error {
	on := l.active.Load()
	if on == nil {
		return nil
	}
	return on.admit(ticket, &who, arrived.Unix())
}

// JournalFailure returns the reason why new counts would not survive the process; nil
// means that they would, or that nothing is counted.
func (l *Ledger) JournalFailure() *condition.Failure {
	if on := l.active.Load(); on != nil {
		return on.session.journalState.Failure()
	}
	return nil
}

// Edit is a change at run time. Fields that are nil stay as they are.
type Edit struct {
	Enabled  *bool
	FailOpen *bool
	Windows  []Window
}

// Edit changes the ledger at once, until the next restart or reload.
func (l *Ledger) Edit(edit Edit) {
	l.changing <- struct{}{}
	defer func() { <-l.changing }()
	l.mu.Lock()
	l.settings = edit.Apply(l.settings)
	l.mu.Unlock()
	l.apply()
}

// Apply returns the settings with the edit applied.
func (e Edit) Apply(s Settings) Settings {
	if e.Enabled != nil {
		s.Enabled = *e.Enabled
	}
	if e.FailOpen != nil {
		s.FailOpen = *e.FailOpen
	}
	if e.Windows != nil {
		s.Windows = slices.Clone(e.Windows)
	}
	return s
}

// Reload reverts every Edit: the settings that can change at run time become these. The
// other settings need a restart.
func (l *Ledger) Reload(settings Settings) {
	windows := settings.Windows
	if windows == nil {
		windows = []Window{}
	}
	l.Edit(Edit{Enabled: &settings.Enabled, FailOpen: &settings.FailOpen, Windows: windows})
}

// Settings returns the settings in force.
func (l *Ledger) Settings() Settings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settings.Clone()
}

// apply turns the ledger on or off as the settings say; changing is held, or no
// other goroutine has the ledger yet.
func (l *Ledger) apply() {
	settings := l.Settings()
	if !settings.Enabled {
		if on := l.active.Swap(nil); on != nil {
			l.options.Log.Info("quota: turned off; what was counted is written")
			on.session.requestFlush()
		}
		return
	}
	for !l.turnOn(&settings) {
		if l.flushLoops.wait(l.ending) != nil { // the previous session may still be closing its files
			return // closed meanwhile
		}
		next := l.newSession(&settings)
		next.begin()
		l.mu.Lock()
		l.session = next
		l.mu.Unlock()
	}
}

// turnOn makes requests use the session. It returns false if there is none.
func (l *Ledger) turnOn(settings *Settings) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true // nothing is turned on any more
	}
	if l.session == nil {
		return false
	}
	next := &activeSession{session: l.session, failOpen: settings.FailOpen}
	for _, w := range settings.Windows {
		next.windows[w] = true
	}
	l.active.Store(next)
	return true
}

// currentSession returns the session, nil if there is none.
func (l *Ledger) currentSession() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// retire ends a session if the ledger is off and no request uses the session, and
// reports whether it did.
func (l *Ledger) retire(s *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active.Load() != nil || l.session != s || !s.endIfIdle() {
		return false
	}
	l.session = nil
	return true
}

// Close stops counting and writes the counted totals. Totals that cannot be written
// before the context ends stay in the journal for the next start. Nothing of the ledger
// runs any more when it returns nil. When it returns the error of the context, a disk
// or a store does not answer, and all that waits for one was told to give up.
func (l *Ledger) Close(ctx context.Context) error {
	defer l.end()
	l.mu.Lock()
	l.closed = true // nothing turns it on again
	l.active.Store(nil)
	l.mu.Unlock()
	select {
	case l.changing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.changing }()
	l.mu.Lock()
	s := l.session
	l.session = nil
	l.mu.Unlock()
	if s != nil {
		s.stop()
	}
	// One that was turned off before finishes by itself.
	if err := l.flushLoops.wait(ctx); err != nil || s == nil {
		return err
	}
	var unwritten error
	l.flushLoops.start(func() { unwritten = s.finish(ctx) })
	if err := l.flushLoops.wait(ctx); err != nil {
		return err
	}
	return unwritten
}

// Ticket is a request that was admitted. It must not be used concurrently; the
// zero Ticket is a request that was not counted.
type Ticket struct {
	session *session
	cells   [WindowCount]*cell
}

// Settle adds the tokens of a request to the windows that counted it. When it returns,
// a crash of the process cannot undo it. Only the first call has an effect. Unknown
// usage adds no tokens and is counted as Stats.Unsettled.
func (t *Ticket) Settle(usage schema.Usage) { t.SettleCost(usage, 0) }

// SettleCost is Settle for a request that has a cost, in 10^-12 of the currency's unit.
func (t *Ticket) SettleCost(usage schema.Usage, cost int64) {
	s := t.session
	if s == nil {
		return
	}
	t.session = nil
	s.settle(t.cells[:], usage, cost)
	t.cells = [WindowCount]*cell{}
}
