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

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Ledger counts the requests that reach a backend and the tokens they cost.
// While it is off it is nothing but a pointer to look at: it has no file, no
// connection and no goroutine.
type Ledger struct {
	on      atomic.Pointer[running]
	options Options
	stats   counters

	// changing is held while a change is put into force, which takes as long as
	// disks and stores do; a channel, because Close gives up waiting. mu is held only
	// while what follows is read or written.
	changing chan struct{}
	mu       sync.Mutex
	settings Settings // in force
	// session is what counts, from the moment the ledger is turned on until,
	// turned off again, all that was counted is safe. It may be on its way out
	// while on is nil.
	session *session
	closed  bool

	// done has the goroutines that finish sessions. All that runs for the ledger
	// ends with ending, which end cancels when Close returns.
	done   group
	ending context.Context
	end    context.CancelFunc
}

// Options are what a Ledger is made of.
type Options struct {
	// Dir is the directory of the journal; it is made when the ledger is turned on.
	Dir string
	// OpenSnapshots opens the store that keeps totals for good, and OpenCounter
	// the one that gateways share. Neither is called while the ledger is off.
	OpenSnapshots func(context.Context) (Snapshots, error)
	OpenCounter   func(context.Context) (Counter, error)
	Log           *slog.Logger
	// Now is the wall clock; nil means time.Now.
	Now func() time.Time

	disk   disk // in place of Dir
	manual bool // no goroutines: the test says when
}

// running is what a request sees of a ledger that is on. It is replaced whole.
type running struct {
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
// Faults of the disk or of a store do not keep it from starting: they show in
// Status, and pass.
func New(settings Settings, options Options) *Ledger {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.disk == nil {
		options.disk = folder{filepath.Clean(options.Dir)}
	}
	l := &Ledger{options: options, settings: settings.Clone(), changing: make(chan struct{}, 1)}
	l.ending, l.end = context.WithCancel(context.Background())
	l.apply()
	return l
}

// On tells whether requests are counted; a nil Ledger never counts.
func (l *Ledger) On() bool { return l != nil && l.on.Load() != nil }

// Admit counts a request that is about to reach a backend, in the windows of
// the moment at which it arrived. The ticket is used to settle it. The only
// error is ErrUnavailable, and then nothing was counted.
func (l *Ledger) Admit(ticket *Ticket, who Subject, arrived time.Time) error {
	on := l.on.Load()
	if on == nil {
		return nil
	}
	return on.admit(ticket, &who, arrived.Unix())
}

// Edit is a change at run time. What is nil stays as it is.
type Edit struct {
	Enabled  *bool
	FailOpen *bool
	Windows  []Window
}

// Edit changes the ledger at once, until the next restart or reload.
func (l *Ledger) Edit(edit Edit) {
	l.changing <- struct{}{}
	defer func() { <-l.changing }()
	l.note(edit)
	l.apply()
}

func (l *Ledger) note(edit Edit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings = edit.On(l.settings)
}

// On returns settings as they are after the edit.
func (e Edit) On(s Settings) Settings {
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

// Reload takes back every Edit: what can be changed at run time is as the
// configuration says. The rest of it needs a restart.
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

// apply puts the settings into force; changing is held, or nobody else has the
// ledger yet.
func (l *Ledger) apply() {
	settings := l.Settings()
	if !settings.Enabled {
		if on := l.on.Swap(nil); on != nil {
			l.options.Log.Info("quota: turned off; what was counted is written")
			on.session.wake()
		}
		return
	}
	for !l.turnOn(&settings) {
		if l.done.wait(l.ending) != nil { // the one before may still be closing its files
			return // closed meanwhile
		}
		next := l.newSession(&settings)
		next.begin()
		l.mu.Lock()
		l.session = next
		l.mu.Unlock()
	}
}

// turnOn lets the session count. It reports false if there is none, which is so
// too after one that was on its way out has left.
func (l *Ledger) turnOn(settings *Settings) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true // nothing is turned on any more
	}
	if l.session == nil {
		return false
	}
	next := &running{session: l.session, failOpen: settings.FailOpen}
	for _, w := range settings.Windows {
		next.windows[w] = true
	}
	l.on.Store(next)
	return true
}

// current returns the session, nil if there is none.
func (l *Ledger) current() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// retire ends a session that is not needed any more, and reports whether it
// was not.
func (l *Ledger) retire(s *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on.Load() != nil || l.session != s || !s.shut() {
		return false
	}
	l.session = nil
	return true
}

// Close stops counting and writes what was counted. What cannot be written
// before the context ends stays in the journal for the next start. Nothing of the
// ledger runs any more when it returns nil; when it returns the error of the
// context, a disk or a store does not answer, and all that waits for one was told to
// give up.
func (l *Ledger) Close(ctx context.Context) error {
	defer l.end()
	l.refuse()
	select {
	case l.changing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.changing }()
	s := l.takeSession()
	if s != nil {
		s.stop()
	}
	// One that was turned off before finishes by itself.
	if err := l.done.wait(ctx); err != nil || s == nil {
		return err
	}
	var unwritten error
	l.done.start(func() { unwritten = s.finish(ctx) })
	if err := l.done.wait(ctx); err != nil {
		return err
	}
	return unwritten
}

// refuse turns the ledger off for good.
func (l *Ledger) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.on.Store(nil)
}

// takeSession returns the session, which is the caller's to finish; nil if there is
// none.
func (l *Ledger) takeSession() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.session
	l.session = nil
	return s
}

// Ticket is a request that was admitted. It belongs to one goroutine; the zero
// Ticket is a request that was not counted.
type Ticket struct {
	session *session
	cells   [WindowCount]*cell
}

// Settle adds the tokens of a request to the windows in which it was counted.
// When it returns, the death of the process cannot undo it. Only the first call
// counts. Usage that is not known adds nothing but to the number of requests
// that could not be settled.
func (t *Ticket) Settle(usage schema.Usage) {
	s := t.session
	if s == nil {
		return
	}
	t.session = nil
	s.settle(t.cells[:], usage)
	t.cells = [WindowCount]*cell{}
}
